"""A session's history is summarised, and the summary taken back.

Floor: 5. Owns: when, and on what terms; never: how history is chosen or replaced (`plait.kernel`).
"""
