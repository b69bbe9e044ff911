"""From a status, headers and a body to what went wrong and what to do.

Floor: 1. Owns: the order in which signs are believed; never: a retry.

Codes, types and the status decide. Sentences are asked about a full window and an invalid history, which providers
report under the same code as any other mistake, and where everything else leaves the class open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from plait.core.errors import ErrorClass
from plait.wire.errors import words as words
from plait.wire.errors.body import ErrorBody, is_error, read_error
from plait.wire.errors.failure import ADVICE, Failure
from plait.wire.errors.overflow import lower_output_advice, tokens_of
from plait.wire.errors.waits import wait_of
from plait.wire.errors.words import says
from plait.wire.lenient import lenient_loads
from plait.wire.sse import SseParser

_NEVER_OVERFLOW: Final = frozenset({401, 402, 403, 429})
_WAITING: Final[frozenset[ErrorClass]] = frozenset({"rate_limit", "overloaded", "unavailable", "timeout", "quota"})
_GENERAL: Final[frozenset[ErrorClass]] = frozenset({"bad_request", "request_too_large", "unavailable", "protocol"})
"""Classes that a full window can hide behind, when the body says nothing else."""
_CREDIT_STATUSES: Final = frozenset({200, 400, 402, 403, 412, 429})
_TYPE_HEADER: Final = "x-amzn-errortype"
_EXCERPT_CHARS: Final = 200


def classify(
    status: int,
    headers: Mapping[str, str],
    body: bytes | str,
    *,
    prompt_tokens: int | None = None,
    window: int | None = None,
    now_s: float | None = None,
) -> Failure:
    """Say why a request failed.

    Args:
        status: HTTP status; 200 for an error inside an answer.
        headers: of the answer, names in any case.
        body: of the answer, whole or its beginning.
        prompt_tokens: size of the request in tokens, where it is known.
        window: the model's window in tokens, where it is known.
        now_s: Unix time of the answer, for waits given as a date without a `Date` header.
    """
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    document = _document(text)
    error = read_error(text if document is None else document)
    if document is None:
        error = replace(error, message=_excerpt(text))
    failure = classify_error(error, status, headers, now_s=now_s)
    if status < 400 and document is None:
        what = f"the endpoint answered {error.message or 'nothing'!r}"
        failure = Failure.of("protocol", what, retryable=False, detail="not_event_stream")
    elif status < 400 and isinstance(document, Mapping) and not is_error(document):
        failure = Failure.of("protocol", f"the answer of status {status} reports no error", retryable=False)
    elif not failure.message:
        failure = replace(failure, message=f"the endpoint answered status {status} and no reason")
    return _with_known_window(failure, error, prompt_tokens, window)


def classify_document(document: object) -> Failure:
    """Return the failure that a document of a 200 answer reports."""
    return classify_error(read_error(document), 200, {})


def classify_error(error: ErrorBody, status: int, headers: Mapping[str, str], *, now_s: float | None = None) -> Failure:
    """Say what an error means whose body was read already."""
    error = _with_header_type(error, headers)
    effective = error.status if status < 400 and error.status is not None else status
    kind = _kind_of(error, effective)
    failure = Failure.of(kind, error.message, code=error.code)
    if kind in _WAITING:
        wait_s = wait_of(headers, error, now_s=now_s)
        # An allowance that is spent is no reason to ask again, but for a provider that says when it comes back.
        failure = replace(failure, wait_s=wait_s, retryable=failure.retryable or wait_s is not None)
    if kind == "context_overflow":
        return replace(failure, tokens=tokens_of(error), advice=lower_output_advice(error) or failure.advice)
    return failure


def _with_header_type(error: ErrorBody, headers: Mapping[str, str]) -> ErrorBody:
    """Add the type that one provider names in a header alone."""
    named = next((value for name, value in headers.items() if name.lower() == _TYPE_HEADER), "").partition(":")[0]
    if not named:
        return error
    return replace(error, code=named if error.code is None else error.code, words=error.words | {named.lower()})


def _kind_of(error: ErrorBody, status: int) -> ErrorClass:
    named = _named(error)
    if named == "context_overflow":
        return named
    text = error.text
    may_overflow = status not in _NEVER_OVERFLOW and named not in ("rate_limit", "quota", "auth")
    if may_overflow and says(text, words.OVERFLOW) and not says(text, words.NOT_OVERFLOW):
        return "context_overflow"
    if says(text, words.SURE_OVERFLOW):
        return "context_overflow"
    if named == "rate_limit" and says(text, words.NO_MONEY):
        return "quota"
    if named not in (None, "unavailable"):
        return named
    by_text = _kind_by_text(text, error, status)
    if by_text is None and named is not None and not (400 <= status < 500 or status in words.BY_STATUS):
        return named  # else "server_error" says less than a client's mistake, or than a status such as 529
    return by_text or _kind_by_status(error, status)


def _named(error: ErrorBody) -> ErrorClass | None:
    """Return the class that codes and types name; the code is asked before the type."""
    is_minimax = any("status_msg" in item for item in error.objects)
    first = None if error.code is None else words.class_of_word(error.code, is_minimax=is_minimax)
    if first is not None:
        return first
    named = {words.class_of_word(word) for word in error.words}
    return next((kind for kind in ADVICE if kind in named), None)


def _kind_by_text(text: str, error: ErrorBody, status: int) -> ErrorClass | None:
    if status in _CREDIT_STATUSES and (says(text, words.CREDIT) or says(text, words.NO_MONEY)):
        return "quota"
    if status == 403:
        return "bad_request" if says(text, words.FLAGGED) else None
    if status not in (200, 400, 404, 422, 500):
        return None
    if says(text, words.TOO_LARGE):
        return "request_too_large"
    is_about_tools = error.param.startswith(("tools", "functions"))
    if not is_about_tools and _is_about_history(text):
        return "invalid_history"
    if is_about_tools or says(text, words.TOOLS):
        return "invalid_tools"
    return _kind_by_lack(text, status)


def _is_about_history(text: str) -> bool:
    return says(text, words.HISTORY) or (says(text, words.PLACE) and not says(text, words.MEDIA))


def _kind_by_lack(text: str, status: int) -> ErrorClass | None:
    """Return what the account, the endpoint or the server lacks, by a text."""
    if status == 500:
        return "unsupported_feature" if says(text, words.UNSUPPORTED_AS_STARTED) else None
    if says(text, words.KEY):
        return "auth"
    if says(text, words.UNSUPPORTED):
        return "unsupported_feature"
    return "model_not_found" if says(text, words.MODEL) else None


def _kind_by_status(error: ErrorBody, status: int) -> ErrorClass:
    if status < 400:
        return "bad_request" if any(map(words.is_refusal, error.words)) else "unavailable"
    kind = words.BY_STATUS.get(status)
    return kind or ("unavailable" if status >= 500 else "bad_request")


def _with_known_window(failure: Failure, error: ErrorBody, prompt_tokens: int | None, window: int | None) -> Failure:
    """Take a refusal that names no reason for an overflow when the request was larger than the window."""
    if prompt_tokens is None or window is None:
        return failure
    if failure.kind == "context_overflow":
        tokens = failure.tokens or (None, None)
        return replace(failure, tokens=(tokens[0] or prompt_tokens, tokens[1] or window))
    if prompt_tokens < window or failure.kind not in _GENERAL or _named(error) is not None:
        return failure
    return replace(Failure.of("context_overflow", failure.message, code=failure.code), tokens=(prompt_tokens, window))


def _document(text: str) -> object:
    """Return the JSON of a body, or of the first event of a body that is a stream; None for anything else."""
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith(("{", "[")):
        return lenient_loads(start)
    if not start.startswith(("data:", "event:", "error:", ":", "id:")):
        return None
    parser = SseParser()
    events = parser.feed(start.encode("utf-8", "replace")) + parser.finish()
    documents = [parsed for _, data in events if (parsed := lenient_loads(data.decode("utf-8", "replace"))) is not None]
    errors = [item for item in documents if isinstance(item, Mapping) and is_error(item)]
    return next(iter([*errors, *documents]), None)


def _excerpt(text: str) -> str:
    line = " ".join(text[: 10 * _EXCERPT_CHARS].split())
    return line if len(line) <= _EXCERPT_CHARS else line[: _EXCERPT_CHARS - 1] + "…"
