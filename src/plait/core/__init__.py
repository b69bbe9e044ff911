"""Values that every floor speaks: messages, usage, facts, events, errors, ids, cancellation, time.

Floor: 0. Owns: plain data and pure functions on it; never: a file, a socket, a thread, an environment variable.
"""
