"""Answers and exceptions of clients that are not ours.

Floor: 2. Owns: reading objects of unknown classes by the names that completions have; never: calling a client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from plait.core.errors import ModelError
from plait.core.exchange import ProviderFailed
from plait.models.failures import failure_of
from plait.wire.errors.classify import classify

_USAGE: Final = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_read_input_tokens",
    "cache_read_tokens",
    "cache_creation_input_tokens",
    "cache_write_tokens",
    "prompt_cache_hit_tokens",
    "cost",
)
_DETAILS: Final = (
    "cached_tokens",
    "cache_read_tokens",
    "cache_read_input_tokens",
    "cache_write_tokens",
    "cache_creation_input_tokens",
    "reasoning_tokens",
)
_CACHE: Final = frozenset({"cached_tokens", "cache_creation_tokens"})
_STATUS_IN_TEXT: Final = re.compile(r"(?:HTTP|Error code:|status(?: code)?:?) ?(\d{3})\b", re.IGNORECASE)


def document_of(response: object) -> dict[str, object]:
    """Return a client's answer as the JSON document that it was made from."""
    choices = _get(response, "choices")
    items = choices if isinstance(choices, Sequence) and not isinstance(choices, str) else ()
    document: dict[str, object] = {"choices": [_choice(item) for item in items]}
    for name in ("id", "model", "provider"):
        value = _get(response, name)
        if isinstance(value, str):
            document[name] = value
    usage = _usage(_get(response, "usage"))
    if usage is not None:
        document["usage"] = usage
    return document


def failure_of_client(error: Exception, where: str, *, window: int | None = None) -> ProviderFailed:
    """Say what an exception of a foreign client means."""
    if isinstance(error, ProviderFailed):
        return error
    if isinstance(error, ModelError):
        return ProviderFailed(
            error.kind,
            error.message,
            status=error.status,
            code=error.error_code,
            retry_after_s=error.retry_after_s,
            retryable=error.retryable,
            hint=error.hint,
        )
    text = str(error) or type(error).__name__
    status = _status(error, text)
    if status is not None:
        body = _get(_get(error, "response"), "text")
        headers = _get(_get(error, "response"), "headers")
        failure = classify(
            status,
            dict(headers) if isinstance(headers, Mapping) else {},
            body if isinstance(body, str) and body else text,
            window=window,
        )
        return failure.to_exception(status=status)
    return _failure_without_status(error, text, where)


def _failure_without_status(error: Exception, text: str, where: str) -> ProviderFailed:
    names = {parent.__name__ for parent in type(error).__mro__}
    if isinstance(error, TimeoutError) or any("Timeout" in name for name in names):
        return ProviderFailed("timeout", f"the client gave up waiting: {text}", phase="headers")
    if isinstance(error, OSError):
        return failure_of(error, where, "connect")
    if names & {"APIConnectionError", "ConnectError", "NetworkError", "ClientConnectionError", "TransportError"}:
        return ProviderFailed("unavailable", text, phase="connect")
    return ProviderFailed(
        "unavailable",
        f"the client failed: {type(error).__name__}: {text}",
        retryable=False,
        detail="client_error",
        hint="the exception is the client's own; its traceback says more",
    )


def _choice(item: object) -> dict[str, object]:
    message = _get(item, "message")
    said: dict[str, object] = {"role": "assistant"}
    for name in ("content", "reasoning_content", "reasoning", "refusal"):
        value = _get(message, name)
        if isinstance(value, (str, list)):
            said[name] = value
    calls = _get(message, "tool_calls")
    if isinstance(calls, Sequence) and not isinstance(calls, str) and calls:
        said["tool_calls"] = [_call(call) for call in calls]
    finish = _get(item, "finish_reason")
    reason = finish if isinstance(finish, str) else ("tool_calls" if "tool_calls" in said else "stop")
    return {"index": 0, "message": said, "finish_reason": reason}


def _call(call: object) -> dict[str, object]:
    function, custom = _get(call, "function"), _get(call, "custom")
    call_id, name = _get(call, "id"), _get(function, "name")
    entry: dict[str, object] = {"id": call_id if isinstance(call_id, str) else ""}
    text = _get(call, "custom_input")
    if text is None:
        text = _get(custom, "input")
    if _get(call, "type") == "custom" and isinstance(text, str):
        custom_name = _get(custom, "name")
        return {
            **entry,
            "type": "custom",
            "custom": {"name": custom_name if isinstance(custom_name, str) else name, "input": text},
        }
    arguments = _get(function, "arguments")
    has_arguments = isinstance(arguments, (str, Mapping))
    return {**entry, "type": "function", "function": {"name": name, "arguments": arguments if has_arguments else ""}}


def _usage(usage: object) -> dict[str, object] | None:
    if usage is None:
        return None
    found = _numbers(usage, _USAGE)
    written = _numbers(usage, ("cache_creation_tokens",))
    for name in ("prompt_tokens_details", "input_tokens_details", "completion_tokens_details"):
        details = _numbers(_get(usage, name), _DETAILS)
        if details:
            found[name] = details
    proof = _get(usage, "has_cache_proof")
    if proof is True and written:
        found["cache_creation_input_tokens"] = written["cache_creation_tokens"]
    elif proof is False:
        # Such a client writes 0 where nothing was reported.
        found = {name: value for name, value in found.items() if name not in _CACHE}
    return found


def _numbers(value: object, names: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in names:
        number = _get(value, name)
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            found[name] = number
    return found


def _status(error: Exception, text: str) -> int | None:
    for value in (
        _get(error, "status_code"),
        _get(error, "status"),
        _get(_get(error, "response"), "status_code"),
        _get(error, "code"),
    ):
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600:
            return value
    match = _STATUS_IN_TEXT.search(text)
    return int(match[1]) if match else None


def _get(value: object, name: str) -> object:
    """Read an attribute or a key; what is not there is None."""
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)
