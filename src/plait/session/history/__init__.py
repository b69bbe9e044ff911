"""What a host or a user does to a conversation beside its turns: edits, shorter steps, a fresh start, a way back.

Floor: 5. Owns: these changes, each recorded before the next request; never: a turn (`turns`), a summary (`summaries`).
"""
