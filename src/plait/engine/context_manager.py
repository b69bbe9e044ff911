"""A history that goes on from run to run of an agent.

Floor: 4. Owns: the messages between two runs; never: what a run does with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from plait.core.errors import ConfigError
from plait.core.messages import Message


class ContextManager:
    """Keeps a conversation for an `Agent`; not for two runs at the same time."""

    def __init__(
        self,
        *,
        budget: int | None = None,
        keep_recent_turns: int = 6,
        summarizer: object | None = None,
        estimator: Callable[[Message], int] | None = None,
    ) -> None:
        """Start empty; raise `ConfigError` for what this version cannot do yet.

        Args:
            budget: tokens after which history is summarised; not available yet.
            keep_recent_turns: units that a summary leaves alone.
            summarizer: writes the summary; not available yet.
            estimator: counts the tokens of a message.
        """
        for name, value in (("budget", budget), ("summarizer", summarizer)):
            if value is not None:
                raise ConfigError(f"ContextManager({name}=…) is not available yet", hint="leave it out")
        self.keep_recent_turns = keep_recent_turns
        self.estimator = estimator or estimate_tokens
        self._messages: list[Message] = []

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
        """Return what the next request shows: the whole history."""
        return list(self._messages)

    def clear(self) -> None:
        """Forget everything."""
        self._messages.clear()


def estimate_tokens(message: Message) -> int:
    """Guess a message's tokens: a quarter of its characters, a thousand for each picture, at least one."""
    chars = len(message.content)
    chars += sum(len(call.name) + len(call.raw) for call in message.tool_calls)
    chars += sum(len(result.content) for result in message.tool_results)
    return max(1, chars // 4 + 1000 * len(message.images))
