"""A session asks its hooks.

Floor: 5. Owns: which hooks a session has and when they are asked; never: what it says (`plait.hooks`).
"""
