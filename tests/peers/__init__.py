"""Requests of the vendors' own clients, beside plait's."""
