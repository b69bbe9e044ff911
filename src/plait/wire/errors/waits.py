"""How long a provider asks to wait, in every form it says so.

Floor: 1. Owns: headers, bodies and sentences about waiting; never: the decision to wait.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from plait.wire.errors.body import ErrorBody

_UNIT_S: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER: Final = re.compile(r"\d+(?:\.\d*)?|\.\d+")
_DURATION: Final = re.compile(r"(?:(?:\d+(?:\.\d+)?|\.\d+)(?:ms|s|m|h|d))+")
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ms|s|m|h|d)")
_MEMBER: Final = re.compile(r"\b(r|t|remaining|reset)=(\d{1,9})\b")
_EPOCH_S: Final = 1_000_000_000
_EPOCH_MS: Final = 1_000_000_000_000
_SENTENCE: Final = re.compile(
    r"(?:(?:try again|retry|retrying|wait|available|resets?)[a-z ]{0,24}?\b(?:in|after|for)\b|\bwait)"
    r"[ :]{0,2}(?:about )?"
    r"((?:\d+(?:\.\d+)?) ?(?:milliseconds?|seconds?|minutes?|hours?|ms|s|m|h)(?:\d+(?:\.\d+)?(?:ms|s|m))*)(?![a-z])",
    re.IGNORECASE,
)
_RESET_AT: Final = re.compile(r"reset(?:s)? at (\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)", re.IGNORECASE)
_CHINA: Final = timezone(timedelta(hours=8))
"""The zone of the one provider that writes such a time, without saying which."""
_BODY_TIMES: Final = ("resets_at", "reset_at")
_BODY_SECONDS: Final = ("retry_after", "retryAfter", "retry_after_seconds", "resets_in_seconds", "retryDelay")


def wait_of(headers: Mapping[str, str], body: ErrorBody, *, now_s: float | None = None) -> float | None:
    """Return the seconds to wait from when the answer was sent, or None where nothing says so.

    Args:
        headers: names in any case.
        now_s: Unix time, for dates where the answer has no `Date` header of its own.
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    date = _date(lower.get("date", ""))
    base_s = now_s if date is None else date
    wait = _from_headers(lower, base_s)
    if wait is None:
        wait = _from_resets(lower, base_s)
    if wait is None and "ratelimit" in lower:
        wait = _from_policy(lower["ratelimit"])
    if wait is None:
        wait = _from_body(body, base_s)
    return max(0.0, wait) if wait is not None and math.isfinite(wait) else None


def parse_wait(text: str, base_s: float | None = None) -> float | None:
    """Return the seconds in a value of `Retry-After`: a number, a duration such as `6m0s`, or a date."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    if _DURATION.fullmatch(text.lower()):
        return _duration(text.lower())
    if re.fullmatch(r"-\d+(\.\d+)?", text):
        return 0.0
    at = _date(text)
    return None if at is None or base_s is None else max(0.0, at - base_s)


def _from_headers(headers: Mapping[str, str], base_s: float | None) -> float | None:
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if _NUMBER.fullmatch(headers.get(name, "")):
            return float(headers[name]) / 1000
    return parse_wait(headers["retry-after"], base_s) if "retry-after" in headers else None


def _from_resets(headers: Mapping[str, str], base_s: float | None) -> float | None:
    """A limit's reset counts only where nothing of that limit remains; of several, the last to come back."""
    waits = [
        wait
        for name, value in headers.items()
        if "ratelimit" in name and "reset" in name
        if _is_spent(headers, name) and (wait := _reset(value, base_s)) is not None
    ]
    return max(waits, default=None)


def _from_policy(text: str) -> float | None:
    """Return the wait in `"name";r=0;t=60`, or in `limit=10, remaining=0, reset=60`, where nothing remains."""
    members = dict(_MEMBER.findall(text))
    if members.get("r", members.get("remaining")) != "0":
        return None
    seconds = members.get("t", members.get("reset"))
    return None if seconds is None else float(seconds)


def _is_spent(headers: Mapping[str, str], reset_name: str) -> bool:
    remaining = headers.get(reset_name.replace("reset", "remaining"))
    if remaining is None:
        return not any("ratelimit" in name and "remaining" in name for name in headers)
    return bool(_NUMBER.fullmatch(remaining)) and float(remaining) <= 0


def _reset(value: str, base_s: float | None) -> float | None:
    if not _NUMBER.fullmatch(value):
        return parse_wait(value, base_s)
    number = float(value)
    if number < _EPOCH_S:
        return number
    at_s = number / 1000 if number >= _EPOCH_MS else number
    return None if base_s is None else at_s - base_s


def _from_body(body: ErrorBody, base_s: float | None) -> float | None:
    return next((wait for wait in _body_waits(body, base_s) if wait is not None), None)


def _body_waits(body: ErrorBody, base_s: float | None) -> Iterator[float | None]:
    for item in reversed(body.objects):
        yield _from_object(item, base_s)
        metadata = item.get("metadata")
        headers = metadata.get("headers") if isinstance(metadata, Mapping) else None
        if isinstance(headers, Mapping):
            lower = {str(name).lower(): str(value).strip() for name, value in headers.items()}
            yield _from_headers(lower, base_s)
            yield _from_resets(lower, base_s)
    yield _from_sentence(body.message, base_s)


def _from_object(item: Mapping[str, object], base_s: float | None) -> float | None:
    candidates: list[Mapping[str, object]] = [item]
    if isinstance(notes := item.get("metadata"), Mapping):
        candidates.append(notes)
    details = item.get("details")
    if isinstance(details, list):
        candidates += [detail for detail in details if isinstance(detail, Mapping)]
    for candidate in candidates:
        for key in (*_BODY_SECONDS, *_BODY_TIMES):
            value = candidate.get(key)
            if isinstance(value, (int, float, str)) and not isinstance(value, bool):
                return _reset(str(value), base_s) if key in _BODY_TIMES else parse_wait(str(value))
    return None


def _from_sentence(text: str, base_s: float | None) -> float | None:
    if match := _SENTENCE.search(text):
        short = re.sub(r" ?(milliseconds?|seconds?|minutes?|hours?)", _short_unit, match[1].lower())
        return _duration(short.replace(" ", ""))
    if (match := _RESET_AT.search(text)) and base_s is not None:
        at = datetime.fromisoformat(match[1]).replace(tzinfo=_CHINA)
        return at.timestamp() - base_s
    return None


def _short_unit(match: re.Match[str]) -> str:
    return "ms" if match[1].startswith("milli") else match[1][0]


def _duration(text: str) -> float:
    return sum(float(number) * _UNIT_S[unit] for number, unit in _DURATION_PART.findall(text))


def _date(text: str) -> float | None:
    """Return the Unix time of an HTTP date or an ISO time; a time without zone is UTC."""
    from email.utils import parsedate_to_datetime  # loads sockets and more

    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            at = parse(text.replace("Z", "+00:00") if parse is not parsedate_to_datetime else text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        try:
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    return None
