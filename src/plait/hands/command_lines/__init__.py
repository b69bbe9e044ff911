"""What a shell would run for a line, told without running it.

Floor: 2. Owns: words, quotes and the commands of a line; never: a rule about them.
"""
