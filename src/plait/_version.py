"""The version, in one place: read by the build, by `plait --version` and by whoever asks `plait.__version__`.

Floor: 0. Owns: the number; never: a look-up at run time.
"""

__version__ = "0.1.0"
