"""The endpoint's prompt cache: what it is to hold, what it held, and whose doing a miss was.

Floor: 4. Owns: the proof, its ledger and what is told of both; never: a request.
"""
