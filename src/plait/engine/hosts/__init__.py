"""Hosts: what meets the loop's effects, in a thread or in an event loop, on the terms of a turn.

Floor: 4. Owns: one turn in progress; never: what lasts from one turn to the next (`engine.conversation`).
"""
