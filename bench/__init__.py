"""Measures plait beside a loop on a raw socket: `python -m bench`, or `make bench`.

Owns: a fake model server, the floors, the plan of what is measured and its goals; never: part of the product.
"""
