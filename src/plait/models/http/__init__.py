"""HTTP of plait's own, for threads and for event loops: connections, routes, deadlines.

Floor: 2. Owns: bytes on the wire up to a response's body; never: what a body says.
"""
