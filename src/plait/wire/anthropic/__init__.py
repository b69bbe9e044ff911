"""The wire of Anthropic's Messages: requests, answers, and a conversation that is written in it.

Floor: 1. Owns: the shapes of this wire; never: what every wire shares (`encoding`, `decoder`).
"""
