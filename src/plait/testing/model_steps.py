"""What a scripted model can be asked and can do, beyond an answer: fail, or fall silent.

Floor: testing. Owns: the values; never: playing them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from plait.core.errors import ErrorClass
from plait.core.exchange import ProviderFailed, Purpose, Reply
from plait.core.messages import Message
from plait.core.values import dataclass
from plait.kernel.ports import Setup
from plait.testing.player import When
from plait.testing.steps import Call, Say


@dataclass(frozen=True, slots=True)
class Fail:
    """The request fails with `ProviderFailed`, after the text in `after` has been streamed."""

    kind: ErrorClass
    message: str = "scripted failure"
    after: str | Sequence[str] = ""
    retry_after_s: float | None = None
    retryable: bool | None = None
    """None: as the class says."""
    status: int | None = None
    error_code: str | None = None
    tokens: tuple[int | None, int | None] | None = None
    """What an overflow names: requested, limit."""

    def error(self, partial: Message | None) -> ProviderFailed:
        """Make the exception; `partial` is what had been said."""
        return ProviderFailed(
            self.kind,
            self.message,
            status=self.status,
            code=self.error_code,
            retry_after_s=self.retry_after_s,
            retryable=self.retryable,
            tokens=self.tokens,
            partial=partial,
        )


@dataclass(frozen=True, slots=True)
class Silence:
    """The model says `after` and then nothing more, until the request is cancelled."""

    after: str | Sequence[str] = ""


ModelStep: TypeAlias = str | Say | Call | Sequence[Call] | Fail | Silence | Reply | BaseException
"""One entry of a script: an answer, a failure, a silence, a ready reply, or an exception to raise as it is."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to the model, as the loop made it; `number` counts from 1."""

    number: int
    model: str
    setup: Setup
    messages: tuple[Message, ...]
    purpose: Purpose
    attempt: int

    @property
    def text(self) -> str:
        """The words of all messages and results, one a line."""
        return "\n".join(_words(message) for message in self.messages)

    @property
    def last_text(self) -> str:
        """The words of the last message."""
        return _words(self.messages[-1]) if self.messages else ""


ModelScript: TypeAlias = Iterable[ModelStep | When[ModelStep]] | Callable[[Asked], ModelStep | None]
"""Steps in order with rules between them, or a function; None from the function: no step answers."""


def _words(message: Message) -> str:
    return "\n".join([message.content, *(result.content for result in message.tool_results)]).strip("\n")
