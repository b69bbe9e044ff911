"""Asks an endpoint for its list of models, to see whether it is there and takes the key.

Floor: 7. Owns: one cheap request of `plait doctor` and what its answer means; never: a completion, which costs money.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from plait.cli.checks import Check
from plait.core.errors import ConfigError
from plait.core.exchange import ProviderFailed
from plait.models.credentials import credentials_for
from plait.models.endpoint import Endpoint, endpoint_of
from plait.models.http.sync_http import SyncTransport
from plait.models.transport import HttpRequest, Timeouts

_LIMITS: Final = Timeouts(connect_s=5, first_byte_s=10, idle_s=10, total_s=20)
_BODY_BYTES_MAX: Final = 4 << 20
_NAMES_SHOWN: Final = 5


def endpoint_check(address: str, model: str | None, key_env: str | None, environ: Mapping[str, str]) -> Check:
    """Check an endpoint; with `model`, also that it knows it. Never raises."""
    try:
        endpoint = endpoint_of(address)
        found = credentials_for(endpoint, key_env=key_env, environ=environ).find(environ)
        status, body = _get(endpoint, found[0] if found else None)
    except ConfigError as error:
        return Check("endpoint", "fail", error.message, error.hint)
    except ProviderFailed as failure:
        return Check("endpoint", "fail", failure.message, failure.hint or "check the endpoint's address")
    return _judge(endpoint, status, body, model)


def _get(endpoint: Endpoint, key: str | None) -> tuple[int, bytes]:
    profile = endpoint.profile
    headers = {"Accept": "application/json", "User-Agent": "plait", **profile.headers}
    if key:
        headers[profile.auth_header] = f"Bearer {key}" if profile.auth_header == "Authorization" else key
    transport = SyncTransport()
    stream = transport.open(HttpRequest("GET", endpoint.url("/models"), headers), _LIMITS)
    try:
        body = bytearray()
        for piece in stream:
            body += piece
            if len(body) > _BODY_BYTES_MAX:
                break
        return stream.status, bytes(body)
    finally:
        stream.close()
        transport.close()


def _judge(endpoint: Endpoint, status: int, body: bytes, model: str | None) -> Check:
    if status in (401, 403):
        advice = "the endpoint refuses the key: check it, or name another variable with --key-env"
        return Check("endpoint", "fail", f"{endpoint} answers with status {status}", advice)
    if status >= 500:
        return Check("endpoint", "fail", f"{endpoint} answers with status {status}", "try again later")
    names = _model_names(body) if status == 200 else None
    if names is None:
        detail = f"{endpoint} answers (status {status}) and lists no models"
        return Check("endpoint", "warn", detail, "check that the address ends where the API begins, often /v1")
    if model is not None and model not in names:
        some = ", ".join(names[:_NAMES_SHOWN]) or "none"
        return Check("endpoint", "warn", f"{endpoint} does not list {model!r}", f"it lists {some}")
    return Check("endpoint", "ok", f"{endpoint} lists {len(names)} models")


def _model_names(body: bytes) -> list[str] | None:
    """Return the ids of a model list, or None when it is none."""
    try:
        listed = json.loads(body)["data"]
        return [str(entry["id"]) for entry in listed]
    except (ValueError, TypeError, KeyError):
        return None
