"""Models behind endpoints: transports, profiles, credentials, and the lines that conversations think over.

Floor: 2. Owns: everything between a `View` and a provider's bytes; never: when to ask, or to ask again.
"""
