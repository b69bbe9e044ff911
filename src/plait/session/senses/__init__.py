"""What a model is told beside questions and results.

Floor: 5. Owns: when a session tells it; never: how it is found out (`plait.context`).
"""
