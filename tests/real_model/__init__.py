"""Real answers of a small real model, on a real server of its own."""
