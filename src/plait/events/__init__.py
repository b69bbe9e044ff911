"""What people and programs watch a session by: named events, and the view of a log that is read again.

Floor: 1. Owns: event names, their fields, their words on a terminal; never: a decision that depends on who listens.
"""
