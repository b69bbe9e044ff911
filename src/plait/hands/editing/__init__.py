"""Changing one file: its text as bytes, what takes the place of what, and a change that is whole or absent.

Floor: 2. Owns: content, versions and the order of system calls; never: who allows a change, or a patch (`patches`).
"""
