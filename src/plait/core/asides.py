"""What plait writes below a question of the user's: told apart from the question where people read it.

Floor: 0. Owns: the marks that such a text begins with; never: the text.
"""

from __future__ import annotations

from typing import Final

ENVIRONMENT: Final = "<environment>"
SESSION_TIME: Final = "<session_time>"
GROUND_MOVED: Final = "<ground_moved>"


def without_asides(question: str) -> str:
    """Return the words of a question without what plait has written below them."""
    ends = [question.find(f"\n\n{mark}") for mark in (ENVIRONMENT, SESSION_TIME, GROUND_MOVED)]
    return question[: min((end for end in ends if end >= 0), default=len(question))]
