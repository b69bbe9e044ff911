"""A history that goes on from run to run of an agent, and that can be held to a size between them.

Floor: 4. Owns: the messages between two runs, and how they are made to fit a budget; never: what a run does with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from plait.core.messages import Message, Text
from plait.core.values import dataclass
from plait.kernel.compact import structural
from plait.kernel.spans import estimate_tokens as estimate_tokens

EARLIER: Final = "Earlier in this session: "
"""What a summary begins with that a context has made."""

Summarizer = Callable[[Sequence[Message]], str]
"""Writes what stands for messages; where it raises, or returns nothing, a list of what went stands for them."""


@dataclass(frozen=True, slots=True)
class CompactionEvent:
    """What a compaction of a context did."""

    turns_collapsed: int
    """Units that a summary stands for: a message, or a call with its results."""
    tokens_before: int
    tokens_after: int


class ContextManager:
    """Keeps a conversation for an `Agent`; not for two runs at the same time."""

    def __init__(
        self,
        *,
        budget: int | None = None,
        keep_recent_turns: int = 6,
        summarizer: Summarizer | None = None,
        estimator: Callable[[Message], int] | None = None,
    ) -> None:
        """Start empty.

        Args:
            budget: tokens after which old history is summarised by `window`; None never does.
            keep_recent_turns: units that a summary leaves alone, the last one in any case.
            summarizer: writes the summary; without one it is a list of what was asked, called and changed.
            estimator: counts the tokens of a message.
        """
        self.keep_recent_turns = keep_recent_turns
        self.estimator = estimator or estimate_tokens
        self._budget = budget
        self._summarizer = summarizer
        self._messages: list[Message] = []
        self._told: CompactionEvent | None = None

    def add(self, message: Message) -> None:
        """Append a message."""
        self._messages.append(message)

    def replace(self, messages: Iterable[Message]) -> None:
        """Hold these messages instead."""
        self._messages = list(messages)

    def messages(self) -> list[Message]:
        """Return a copy of the history."""
        return list(self._messages)

    def window(self) -> list[Message]:
        """Return what the next request shows: the whole history, its old part summarised where it is too large."""
        if self._budget is not None and self._tokens(self._messages) > self._budget:
            self._compact()
        return list(self._messages)

    def take_compaction(self) -> CompactionEvent | None:
        """Return what the last compaction did, once."""
        told, self._told = self._told, None
        return told

    def clear(self) -> None:
        """Forget everything."""
        self._messages.clear()

    def _compact(self) -> None:
        starts = [index for index, message in enumerate(self._messages) if message.role != "tool"]
        keep = max(1, self.keep_recent_turns)
        if len(starts) <= keep:
            return
        old, kept = self._messages[: starts[-keep]], self._messages[starts[-keep] :]
        new = [Message("summary", (Text(EARLIER + self._summary(old)),)), *kept]
        before, after = self._tokens(self._messages), self._tokens(new)
        if after < before:
            self._messages = new
            self._told = CompactionEvent(len(starts) - keep, before, after)

    def _summary(self, messages: Sequence[Message]) -> str:
        if self._summarizer is not None:
            try:
                if text := self._summarizer(messages).strip():
                    return text
            except Exception:  # boundary: whatever a summarizer does, or returns, the run goes on
                return structural(messages)
        return structural(messages)

    def _tokens(self, messages: Sequence[Message]) -> int:
        return sum(map(self.estimator, messages))
