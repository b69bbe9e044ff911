"""Hooks: commands and functions of the user's that are asked at fixed moments of a session.

Floor: 3. Owns: formats, payload → verdict, script and Python runners; never: when one fires (that is the engine's).
"""
