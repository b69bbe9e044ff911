"""Patches: read, placed in files, and carried out whole or not at all.

Floor: 2. Owns: both notations and the change of several files; never: who may ask for it.
"""
