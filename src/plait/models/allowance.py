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
from plait.models.bodies import awhole_body, whole_body
from plait.models.listing import QUICK, document_request

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
    stream = backend.transport.open(document_request(backend, PATH), QUICK)
    _tell(failed, stream.status, whole_body(stream, _BYTES_MAX))


async def aask_allowance(backend: Backend, failed: ProviderFailed) -> None:
    """The same in an event loop."""
    if not _tells(backend, failed):
        return
    stream = await backend.async_transport.open(document_request(backend, PATH), QUICK)
    _tell(failed, stream.status, await awhole_body(stream, _BYTES_MAX))


def seconds_until_back(document: object, now_s: float) -> float | None:
    """Return when the first spent bucket is filled again, in seconds from now; None where none is, or not soon."""
    waits = [max(0.0, at - now_s) for bucket in _buckets(document) if (at := _reset_of(bucket)) is not None]
    wait = min(waits, default=None)
    return wait if wait is not None and wait <= _AHEAD_S_MAX else None


def _tells(backend: Backend, failed: ProviderFailed) -> bool:
    return failed.kind == "quota" and failed.retry_after_s is None and backend.endpoint.profile.name == "moonshot"


def _tell(failed: ProviderFailed, status: int, body: bytes | None) -> None:
    try:
        document: Any = json.loads(body) if status == 200 and body is not None else None
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
