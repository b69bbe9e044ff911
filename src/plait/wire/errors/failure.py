"""A failed request in words: what went wrong, whether to try again, and what to do about it.

Floor: 1. Owns: the finding and its way into an exception; never: how it was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from plait.core.errors import ErrorClass
from plait.core.exchange import TRANSIENT, ProviderFailed
from plait.core.messages import Message
from plait.core.usage import Usage
from plait.core.values import dataclass

Detail = Literal["", "incomplete_stream", "not_event_stream", "garbled_event", "empty_answer", "too_large"]

ADVICE: Final[Mapping[ErrorClass, str]] = MappingProxyType(
    {
        "auth": "check the key: it is missing, wrong, expired, or not allowed to use this model",
        "quota": "the account has no credit or allowance left: add some with the provider, or use another key",
        "rate_limit": "wait and try again, or send fewer requests (max_rpm)",
        "overloaded": "the provider has no capacity for this model now: try again later, or choose another model",
        "unavailable": "try again; if it goes on, look at the provider's status page and check the endpoint's URL",
        "timeout": "try again; if it goes on, raise the timeout or ask for less at once",
        "context_overflow": "the conversation does not fit the model's window: compact it, or choose a larger window",
        "request_too_large": "send fewer or smaller images and files",
        "invalid_history": "the endpoint refuses the stored conversation: repair or compact it, or start a new one",
        "invalid_tools": "change or remove the tool that the message names: its name or schema is refused",
        "unsupported_feature": "this model or endpoint cannot do what was asked: turn it off, or choose another model",
        "model_not_found": "check the model's name, and that the endpoint's URL ends where its API begins (often /v1)",
        "bad_request": "the endpoint refuses the request: the message says which part of it",
        "protocol": "the answer is not what this wire promises: check the endpoint's URL and which wire it speaks",
        "cache_proof": "turn strict cache proof off, or choose an endpoint that reports cached tokens",
    }
)
"""One sentence a class: the next step of a person."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request failed.

    `code` is the provider's own, a number where it sent one. `tokens` is the (requested, limit) that an overflow
    named, None where it named nothing. `wait_s` is how long the provider asked to wait, in seconds.
    """

    kind: ErrorClass
    message: str
    code: str | int | None = None
    retryable: bool = False
    wait_s: float | None = None
    tokens: tuple[int | None, int | None] | None = None
    advice: str = ""
    detail: Detail = ""

    @classmethod
    def of(
        cls,
        kind: ErrorClass,
        message: str,
        *,
        code: str | int | None = None,
        retryable: bool | None = None,
        detail: Detail = "",
    ) -> Failure:
        """Make a failure that is as retryable as its class, with the advice of its class."""
        again = kind in TRANSIENT if retryable is None else retryable
        return cls(kind, message, code, again, advice=ADVICE[kind], detail=detail)

    def to_exception(
        self,
        *,
        status: int | None = None,
        partial: Message | None = None,
        usage: Usage | None = None,
        phase: str = "",
    ) -> ProviderFailed:
        """Return the exception that the loop knows, with what had arrived."""
        return ProviderFailed(
            self.kind,
            self.message,
            status=status,
            code=None if self.code is None else str(self.code),
            retry_after_s=self.wait_s,
            retryable=self.retryable,
            tokens=self.tokens,
            partial=partial,
            usage=usage,
            phase=phase,
            detail=self.detail,
            hint=self.advice,
        )
