"""Wires: pure functions between plait's messages and what providers send and read.

Floor: 1. Owns: the three wires, server-sent events, the prefix of a request; never: a socket, a clock, a file.
"""
