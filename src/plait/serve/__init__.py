"""What other programs talk to: servers in front of plait's own tools and sessions.

Floor: 6. Owns: protocols as plait speaks them to a host; never: a tool, or a turn.
"""
