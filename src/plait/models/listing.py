"""Which models an endpoint has, asked when one was not found.

Floor: 2. Owns: the list and near names in it; never: a choice.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from plait.core.exchange import ProviderFailed
from plait.models.backend import Backend
from plait.models.transport import HttpRequest, Timeouts

PATH: Final = "/models"
QUICK: Final = Timeouts(connect_s=3.0, first_byte_s=3.0, idle_s=3.0, total_s=5.0)
_BYTES_MAX: Final = 8 * 1024 * 1024
_SHOWN_MAX: Final = 5


def list_request(backend: Backend) -> HttpRequest:
    """Return the request for an endpoint's list of models.

    Raises:
        ProviderFailed: there is no key.
    """
    headers = {name: value for name, value in backend.headers(backend.key()).items() if name != "Content-Type"}
    return HttpRequest("GET", backend.endpoint.url(PATH), {**headers, "Accept": "application/json"})


def list_models(backend: Backend) -> tuple[str, ...]:
    """Return the names of an endpoint's models, `()` where it does not tell them.

    Raises:
        ProviderFailed: it cannot be asked.
    """
    stream = backend.transport.open(list_request(backend), QUICK)
    try:
        body = bytearray()
        for piece in stream:
            body += piece
            if len(body) > _BYTES_MAX:
                return ()
        return names_in(bytes(body)) if stream.status == 200 else ()
    finally:
        stream.close()


async def alist_models(backend: Backend) -> tuple[str, ...]:
    """The same in an event loop."""
    stream = await backend.async_transport.open(list_request(backend), QUICK)
    try:
        body = bytearray()
        async for piece in stream:
            body += piece
            if len(body) > _BYTES_MAX:
                return ()
        return names_in(bytes(body)) if stream.status == 200 else ()
    finally:
        await stream.aclose()


def names_in(body: bytes) -> tuple[str, ...]:
    """Return the names in a list of models, in either of its usual forms."""
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    if isinstance(document, Mapping):
        document = document.get("data", document.get("models"))
    items = document if isinstance(document, list) else []
    names = [item.get("id", item.get("name")) if isinstance(item, Mapping) else item for item in items]
    return tuple(name for name in names if isinstance(name, str))


def with_near_names(failed: ProviderFailed, model: str, names: Sequence[str]) -> ProviderFailed:
    """Add to a failure the names that its user may have meant."""
    near = difflib.get_close_matches(model, names, 3, 0.5) or [name for name in names if model in name][:3]
    if near:
        failed.hint = f"did you mean {', '.join(near)}?"
    elif names:
        more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
        failed.hint = f"the endpoint has {', '.join(names[:_SHOWN_MAX])}{more}"
    return failed
