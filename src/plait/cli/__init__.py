"""The command line: a thin reader and writer of the session face.

Floor: 7. Owns: options, exit codes, what a terminal shows; never: a decision about a turn.
"""
