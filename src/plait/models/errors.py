"""From a failed attempt to the error that a person reads.

Floor: 2. Owns: one class, one line and one piece of advice for each kind of failure; never: a retry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plait.core import errors
from plait.core.errors import ErrorClass, ModelError
from plait.core.exchange import ProviderFailed
from plait.core.redact import redact_secrets
from plait.models.failures import where_of
from plait.wire.errors.failure import ADVICE

_CLASSES: Final[Mapping[ErrorClass, type[ModelError]]] = {
    "auth": errors.AuthenticationError,
    "quota": errors.QuotaExceeded,
    "rate_limit": errors.RateLimitError,
    "overloaded": errors.ModelOverloaded,
    "unavailable": errors.ModelUnavailable,
    "timeout": errors.ModelTimeout,
    "request_too_large": errors.RequestTooLarge,
    "invalid_history": errors.InvalidHistory,
    "invalid_tools": errors.InvalidTools,
    "unsupported_feature": errors.UnsupportedFeature,
    "model_not_found": errors.ModelNotFound,
    "bad_request": errors.ModelRequestError,
    "protocol": errors.ModelProtocolError,
    "cache_proof": errors.CacheProofError,
}
_OPENINGS: Final[Mapping[ErrorClass, str]] = {
    "auth": "{where} refused the request's key",
    "quota": "{where} says that the account has nothing left",
    "rate_limit": "{where} asked to slow down",
    "overloaded": "{where} has no capacity for {model!r} now",
    "unavailable": "{where} cannot answer",
    "timeout": "{where} did not answer in time",
    "context_overflow": "the conversation does not fit the window of {model!r}",
    "request_too_large": "the request is larger than {where} takes",
    "invalid_history": "{where} refuses the conversation",
    "invalid_tools": "{where} refuses the tools",
    "unsupported_feature": "{model!r} at {where} cannot do what was asked",
    "model_not_found": "{where} has no model called {model!r}",
    "bad_request": "{where} refuses the request",
    "protocol": "{where} gave no proper answer",
    "cache_proof": "{where} proved no use of its cache",
}
_LINE_CHARS: Final = 600


def to_error(failure: ProviderFailed, *, model: str = "", endpoint: str = "") -> ModelError:
    """Return the public error for a failure that nobody will retry; its text is one line and holds no key.

    Args:
        failure: what the last attempt said.
        model: the name that was asked for.
        endpoint: its base URL.
    """
    message = _message(failure, model, endpoint)
    hint = _line(failure.hint or ADVICE[failure.kind])
    if failure.kind == "context_overflow":
        requested, limit = failure.tokens or (None, None)
        return errors.ContextWindowExceededError(
            message,
            requested_tokens=requested,
            limit_tokens=limit,
            hint=hint,
            status=failure.status or 400,
            error_code=failure.code,
        )
    return _CLASSES[failure.kind](
        message,
        hint=hint,
        status=failure.status,
        error_code=failure.code,
        retryable=failure.retryable,
        retry_after_s=failure.retry_after_s,
        context={"phase": failure.phase, "detail": failure.detail, "model": model, "endpoint": where_of(endpoint)},
    )


def _message(failure: ProviderFailed, model: str, endpoint: str) -> str:
    """Say who said it, unless the failure's own sentence does."""
    said = _line(failure.message)
    if failure.gave_up:
        said = f"{said}; {failure.gave_up}" if said else failure.gave_up
    if failure.status is None:
        return said
    opening = _OPENINGS[failure.kind].format(where=where_of(endpoint) or "the endpoint", model=model)
    status = f" (status {failure.status})" if failure.status != 200 else ""
    numbers = _numbers(failure.tokens)
    return f"{opening}{status}{numbers}: {said}" if said else f"{opening}{status}{numbers}"


def _numbers(tokens: tuple[int | None, int | None] | None) -> str:
    requested, limit = tokens or (None, None)
    if requested is not None and limit is not None:
        return f", {requested:,} tokens of {limit:,}"
    return "" if limit is None else f", which takes {limit:,} tokens"


def _line(text: str) -> str:
    line = " ".join(redact_secrets(text)[0].split())
    return line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…"
