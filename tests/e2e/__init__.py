"""The installed command, seen from outside."""
