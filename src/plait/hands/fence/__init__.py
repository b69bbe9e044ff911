"""Fences around commands: what a command that is run for a model can reach of this machine.

Floor: 2. Owns: policy, bubblewrap, seccomp, Landlock, limits, and the proof that they hold; never: who needs a fence.
"""
