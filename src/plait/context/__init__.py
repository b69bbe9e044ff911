"""What a model is told beside its task: the senses, instructions files, the sections of a prompt.

Floor: 3. Owns: reading the machine, the repository and instructions files, and the words for them; never: when a
session tells them, a process of another program.
"""
