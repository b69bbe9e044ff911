"""Where configuration stands and what it says.

Floor: 2. Owns: places and layers of configuration; never: what a setting does.
"""
