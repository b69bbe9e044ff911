"""What the session and the runtime share: hosts for the loop, policy, the in-memory agent.

Floor: 4. Owns: meeting the loop's effects with real models and tools; never: a file format or a command line.
"""
