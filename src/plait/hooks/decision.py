"""What one hook said, and what several of them come to.

Floor: 3. Owns: the two values on either side of the normaliser, and the rule that joins answers; never: reading one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from plait.core.values import dataclass

Word = Literal["deny", "ask", "allow"]
_RANK: Final[Mapping[str | None, int]] = {None: 0, "allow": 1, "ask": 2, "deny": 3}


@dataclass(frozen=True, slots=True)
class RawHookResult:
    """How a hook ended, before anybody has made sense of it; the same for a command and a function."""

    exit_code: int | None = 0
    """None when it did not come to an end of its own."""
    stdout: str = ""
    stderr: str = ""
    failure: str = ""
    """Why it has no end of its own: it timed out, could not be started, was stopped."""
    is_cut: bool = False
    """It printed more than is kept."""


@dataclass(frozen=True, slots=True)
class HookDecision:
    """What a hook said, or several together.

    Equal for a command and a function that were told the same and ended in the same way.
    """

    decision: Word | None = None
    """`deny` stands for every no, whatever the event calls it; None leaves things as they are."""
    reason: str = ""
    is_stop: bool = False
    """`continue: false`: the turn is to end."""
    stop_reason: str = ""
    updated_input: Mapping[str, object] | None = None
    updated_output: str | None = None
    context: tuple[str, ...] = ()
    """For the model."""
    messages: tuple[str, ...] = ()
    """For the user."""
    errors: tuple[str, ...] = ()
    """What is wrong with the hook itself."""

    @property
    def says_no(self) -> bool:
        """True for a block or a stop."""
        return self.decision == "deny" or self.is_stop

    @property
    def why(self) -> str:
        """The reason of a no: that of the stop first."""
        return (self.stop_reason if self.is_stop else "") or self.reason or "no reason was given"


NOTHING: Final = HookDecision()


def combine(decisions: Sequence[HookDecision]) -> HookDecision:
    """Return what several hooks come to: deny beats ask beats allow, a stop beats all; what they say is joined.

    Of changed arguments the first of those counts that won, of changed output the first.
    """
    if len(decisions) == 1:
        return decisions[0]
    word: Word | None = max((each.decision for each in decisions), key=lambda word: _RANK[word], default=None)
    winners = [each for each in decisions if each.decision == word and word is not None]
    stops = [each for each in decisions if each.is_stop]
    return HookDecision(
        word,
        _joined(each.reason for each in winners),
        bool(stops),
        _joined(each.stop_reason for each in stops),
        next((each.updated_input for each in winners if each.updated_input is not None), None),
        next((each.updated_output for each in decisions if each.updated_output is not None), None),
        tuple(text for each in decisions for text in each.context),
        tuple(text for each in decisions for text in each.messages),
        tuple(text for each in decisions for text in each.errors),
    )


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(text for text in texts if text))
