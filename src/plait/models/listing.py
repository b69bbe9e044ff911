"""Which models an endpoint has, asked when one was not found, and what the list says of one.

Floor: 2. Owns: the list, near names and windows in it; never: a choice.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from plait.core.exchange import ProviderFailed
from plait.models.backend import Backend
from plait.models.bodies import awhole_body, whole_body
from plait.models.transport import HttpRequest, Timeouts

PATH: Final = "/models"
QUICK: Final = Timeouts(connect_s=3.0, first_byte_s=3.0, idle_s=3.0, total_s=5.0)
_BYTES_MAX: Final = 8 * 1024 * 1024
_SHOWN_MAX: Final = 5
_WINDOWS: Final = tuple("context_length context_window max_context_length max_model_len max_input_tokens n_ctx".split())
"""What servers call a model's window in their lists; a window it was merely trained with is not it."""


def list_request(backend: Backend) -> HttpRequest:
    """Return the request for an endpoint's list of models.

    Raises:
        ProviderFailed: there is no key.
    """
    return document_request(backend, PATH)


def document_request(backend: Backend, path: str) -> HttpRequest:
    """Return the request for a JSON document of an endpoint's, sent with its key.

    Raises:
        ProviderFailed: there is no key.
    """
    headers = {name: value for name, value in backend.headers(backend.key()).items() if name != "Content-Type"}
    return HttpRequest("GET", backend.endpoint.url(path), {**headers, "Accept": "application/json"})


def list_models(backend: Backend) -> tuple[str, ...]:
    """Return the names of an endpoint's models, `()` where it does not tell them.

    Raises:
        ProviderFailed: it cannot be asked.
    """
    return names_in(_get(backend, list_request(backend)))


def listed_window(backend: Backend, model: str) -> int | None:
    """Return the window of a model in tokens as the endpoint states it, None where it does not.

    llama.cpp's server states in its list what the model was trained with, and elsewhere what it gives it.

    Raises:
        ProviderFailed: it cannot be asked.
    """
    asked = list_request(backend)
    entries = _entries(_get(backend, asked))
    named = [entry for entry in entries if entry.get("id") == model]
    if not named and len(entries) == 1 and entries[0].get("owned_by") == "llamacpp":
        named = entries  # it has one model and serves it under every name
    if not named:
        return None
    entry = named[0]
    window = _window_of(entry)
    if window is None and entry.get("owned_by") == "llamacpp":
        url = f"{backend.endpoint.base.removesuffix('/v1')}/props"
        settings = _json(_get(backend, HttpRequest("GET", url, asked.headers))).get("default_generation_settings")
        window = _window_of(settings) if isinstance(settings, Mapping) else None
    return window


async def alist_models(backend: Backend) -> tuple[str, ...]:
    """The same in an event loop."""
    stream = await backend.async_transport.open(list_request(backend), QUICK)
    body = await awhole_body(stream, _BYTES_MAX)
    return names_in(body) if body is not None and stream.status == 200 else ()


def names_in(body: bytes) -> tuple[str, ...]:
    """Return the names in a list of models, in either of its usual forms."""
    names = [item.get("id", item.get("name")) if isinstance(item, Mapping) else item for item in _items(body)]
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


def _get(backend: Backend, request: HttpRequest) -> bytes:
    """Return the body of an answer, empty for a refusal and for one that is larger than any list."""
    stream = backend.transport.open(request, QUICK)
    body = whole_body(stream, _BYTES_MAX)
    return body if body is not None and stream.status == 200 else b""


def _items(body: bytes) -> list[Any]:
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        return []
    if isinstance(document, Mapping):
        document = document.get("data", document.get("models"))
    return document if isinstance(document, list) else []


def _entries(body: bytes) -> list[Mapping[str, object]]:
    return [item for item in _items(body) if isinstance(item, Mapping)]


def _json(body: bytes) -> Mapping[str, object]:
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, Mapping) else {}


def _window_of(entry: Mapping[str, object]) -> int | None:
    meta = entry.get("meta")
    for place in (entry, meta if isinstance(meta, Mapping) else {}):
        for name in _WINDOWS:
            value = place.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None
