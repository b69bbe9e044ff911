"""Where facts are kept: files and databases behind one contract.

Floor: 2. Owns: durability, integrity and locks; never: what a fact means (`kernel.state`).
"""
