"""Finding files by name and by what stands in them, below a directory that is held open.

Floor: 2. Owns: the descent, what is passed over, and patterns that end in time; never: what a tool shows of it.
"""
