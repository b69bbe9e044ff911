"""What stands in a text where a secret was.

Floor: 0. Owns: the word, and how short a value is no secret; never: finding one (`redact`, `known_secrets`), which
takes many patterns that most programs never need.
"""

from __future__ import annotations

from typing import Final

MASK: Final = "[REDACTED]"
VALUE_CHARS_MIN: Final = 8
"""A shorter value would take ordinary words with it."""
