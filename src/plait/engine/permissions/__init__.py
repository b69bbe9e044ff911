"""Rules about which calls run, are asked about, or never run.

Floor: 4. Owns: the language of rules and their order; never: asking anybody, or where rules are written down.
"""
