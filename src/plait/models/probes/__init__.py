"""Finding out what an endpoint does by asking it.

Floor: 2. Owns: the questions, their order and what follows from the answers; never: what a turn asks.
"""
