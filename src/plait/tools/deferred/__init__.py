"""Tools that a model finds by a search and that are shown from then on.

Floor: 3. Owns: ranking, the search tool, catalogs of several surfaces; never: what is loaded (`kernel.deferral`).
"""
