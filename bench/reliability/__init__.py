"""The same breakages for plait and for two older systems, side by side: `python -m bench.reliability --system NAME`."""
