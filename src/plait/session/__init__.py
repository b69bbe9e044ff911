"""Sessions: a conversation with a spec's model and tools, as plain functions and a dict.

Floor: 5. Owns: the session face; never: a loop, a wire, or anything printed.
"""
