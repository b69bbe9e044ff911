"""The agent loop and everything it decides with.

Floor: 1. Owns: state as a fold of facts, the loop, its six effects and the three drivers; never: I/O.

Facts are the only memory; effects are the only hands; the driver decides when a fact is safe.
"""
