"""When an allowance that is spent comes back, asked where the endpoint tells it.

Floor: 2. Owns: reading Moonshot's `GET …/usages`; never: a wait.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from plait.core.exchange import ProviderFailed
from plait.models.backend import Backend
from plait.models.listing import QUICK
from plait.models.transport import HttpRequest

PATH: Final = "/usages"
_BYTES_MAX: Final = 1024 * 1024
_AHEAD_S_MAX: Final = 6 * 3600.0
"""A time that is further away is no wait, but another day's work."""


def ask_allowance(backend: Backend, failed: ProviderFailed) -> None:
    """Add to a failure how long to wait, where the endpoint tells it; then the request may be made again.

    Raises:
        ProviderFailed: it cannot be asked.
    """
    if not _tells(backend, failed):
        return
    stream = backend.transport.open(_request(backend), QUICK)
    try:
        body = bytearray()
        for piece in stream:
            body += piece
            if len(body) > _BYTES_MAX:
                return
    finally:
        stream.close()
    _tell(failed, stream.status, bytes(body))


async def aask_allowance(backend: Backend, failed: ProviderFailed) -> None:
    """The same in an event loop."""
    if not _tells(backend, failed):
        return
    stream = await backend.async_transport.open(_request(backend), QUICK)
    try:
        body = bytearray()
        async for piece in stream:
            body += piece
            if len(body) > _BYTES_MAX:
                return
    finally:
        await stream.aclose()
    _tell(failed, stream.status, bytes(body))


def seconds_until_back(document: object, now_s: float) -> float | None:
    """Return when the first spent bucket is filled again, in seconds from now; None where none is, or not soon."""
    waits = [max(0.0, at - now_s) for bucket in _buckets(document) if (at := _reset_of(bucket)) is not None]
    wait = min(waits, default=None)
    return wait if wait is not None and wait <= _AHEAD_S_MAX else None


def _tells(backend: Backend, failed: ProviderFailed) -> bool:
    return failed.kind == "quota" and failed.retry_after_s is None and backend.endpoint.profile.name == "moonshot"


def _request(backend: Backend) -> HttpRequest:
    headers = {name: value for name, value in backend.headers(backend.key()).items() if name != "Content-Type"}
    return HttpRequest("GET", backend.endpoint.url(PATH), {**headers, "Accept": "application/json"})


def _tell(failed: ProviderFailed, status: int, body: bytes) -> None:
    try:
        document: Any = json.loads(body) if status == 200 else None
    except (ValueError, RecursionError):
        return
    wait_s = seconds_until_back(document, datetime.now(UTC).timestamp())
    if wait_s is not None:
        failed.retry_after_s, failed.retryable = wait_s, True


def _buckets(document: object) -> Iterator[Mapping[str, object]]:
    if not isinstance(document, Mapping):
        return
    limits = document.get("limits")
    details = (
        [limit.get("detail") for limit in limits if isinstance(limit, Mapping)] if isinstance(limits, list) else []
    )
    for bucket in (document.get("usage"), *details):
        if isinstance(bucket, Mapping):
            yield bucket


def _reset_of(bucket: Mapping[str, object]) -> float | None:
    """Return the Unix time at which a bucket with nothing left is filled again."""
    try:
        if float(str(bucket.get("remaining"))) > 0:
            return None
        at = datetime.fromisoformat(str(bucket.get("resetTime")))
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
