"""What of a session is on disk, and what is read back from there.

Floor: 5. Owns: its records, its capture, its snapshot; never: a file (`plait.store`).
"""
