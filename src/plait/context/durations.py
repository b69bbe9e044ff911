"""Lengths of time as people say them.

Floor: 3. Owns: the words; never: a clock.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

UNKNOWN: Final = "n/a"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def duration(seconds: float | None) -> str:
    """Return `12ms`, `1.2s`, `42s`, `3m05s`, `2h05m`; `n/a` for None."""
    if seconds is None:
        return UNKNOWN
    ms = max(0, round(seconds * 1000))
    if ms < 1000:
        return f"{ms}ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f}s" if ms < 9_950 else "10s"
    whole = round(ms / 1000)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def iso(at_ms: int) -> str:
    """Return milliseconds since 1970 as ISO 8601 in UTC, to the millisecond."""
    return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
