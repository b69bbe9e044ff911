"""In which form a conversation's requests went out: recorded where it changes, so that each can be made again.

Floor: 4. Owns: the observation, and from which place in a log each form counts; never: what a form is (`models.form`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plait.core.facts import Fact, Observation
from plait.models.form import Form

FORM: Final = "request_form"
"""Type of the observation: the answer that follows, and those after it, are to requests of this form."""


class FormWatch:
    """Knows which form was recorded last; a conversation begins with the plain one."""

    def __init__(self) -> None:
        self._recorded = Form()

    def remember(self, facts: Iterable[Fact]) -> None:
        """Take the facts of an earlier process in."""
        self._recorded = next((form for _, form in reversed(forms(facts))), self._recorded)

    def note(self, channel: object) -> tuple[Fact, ...]:
        """Return what has to be recorded of the step's request that was just answered: nothing, as a rule."""
        form = getattr(getattr(channel, "line", None), "answered_form", None)
        if form is self._recorded or not isinstance(form, Form):
            return ()
        if form == self._recorded:
            self._recorded = form  # the next steps' is the same object
            return ()
        self._recorded = form
        return (Observation(FORM, form.told()),)


def forms(facts: Iterable[Fact]) -> list[tuple[int, Form]]:
    """Return the forms of a conversation's requests, each with the place in the log from which it counts."""
    numbered = enumerate(facts, 1)
    return [(seq, Form.of(fact.data)) for seq, fact in numbered if isinstance(fact, Observation) and fact.type == FORM]
