"""A spent allowance: when it comes back is asked where the endpoint tells it, and nowhere else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from plait.core.exchange import ProviderFailed
from plait.models.allowance import seconds_until_back
from plait.models.chat_model import chat_model
from plait.models.known_profiles import profile_named
from tests.unit.models.talking import TALKS

SPENT = {"error": {"message": "You have reached your usage limit for this billing cycle"}}


def at(seconds: float) -> str:
    """Return a time as the endpoint writes it, so far from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@contextmanager
def endpoint(usages: object, status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """Serve an endpoint whose allowance is spent; yield its address and the requests that it gets."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(status, usages)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self._answer(403, SPENT)

        def _answer(self, code: int, document: object) -> None:
            asked.append(f"{self.command} {self.path} {self.headers['authorization']}")
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
        finally:
            server.shutdown()
            thread.join()


def fail(colour: str, url: str, profile: str = "moonshot") -> ProviderFailed:
    """Make one request, which fails."""
    model = chat_model("kimi", url, api_key="k", profile=profile_named(profile))
    (failed,) = TALKS[colour](model, 1)
    model.close()
    assert isinstance(failed, ProviderFailed)
    return failed


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_when_it_comes_back_is_asked(colour: str) -> None:
    """Of the buckets with nothing left the first to be filled says how long to wait; the key goes along."""
    usages = {
        "usage": {"remaining": "0", "resetTime": at(300)},
        "limits": [
            {"detail": {"remaining": 0, "resetTime": at(60)}},
            {"detail": {"remaining": "5", "resetTime": at(5)}},
        ],
    }
    with endpoint(usages) as (url, asked):
        failed = fail(colour, url)
    assert ("quota", True) == (failed.kind, failed.retryable)
    assert failed.retry_after_s == pytest.approx(60, abs=20)
    assert "GET /v1/usages Bearer k" == asked[-1]


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("usages, status", [({}, 200), ([], 200), ({"usage": {}}, 404)], ids=["none", "list", "404"])
def test_what_is_not_told_is_not_waited_for(colour: str, usages: object, status: int) -> None:
    """An endpoint that does not tell leaves the failure as it was: lasting."""
    with endpoint(usages, status) as (url, _):
        failed = fail(colour, url)
    assert ("quota", False, None) == (failed.kind, failed.retryable, failed.retry_after_s)


def test_other_endpoints_are_not_asked() -> None:
    """A path that only one provider has is not tried on another."""
    with endpoint({}) as (url, asked):
        fail("sync", url, "openai")
    assert ["POST"] == [request.split()[0] for request in asked]


@pytest.mark.parametrize(
    "document, expected",
    [
        ({"usage": {"remaining": 0, "resetTime": "1970-01-01T00:01:00Z"}}, 60.0),
        ({"usage": {"remaining": "-1", "resetTime": "1970-01-01T00:01:00"}}, 60.0),
        ({"usage": {"remaining": 0, "resetTime": "1969-12-31T00:00:00Z"}}, 0.0),
        ({"usage": {"remaining": 0, "resetTime": "1970-01-02T00:00:00Z"}}, None),
        ({"usage": {"remaining": 1, "resetTime": "1970-01-01T00:01:00Z"}}, None),
        ({"usage": {"remaining": None, "resetTime": 5}, "limits": [None, {"detail": 3}]}, None),
        ({"usage": 3, "limits": {}}, None),
        (None, None),
    ],
)
def test_buckets_are_read_with_care(document: object, expected: float | None) -> None:
    """Only a bucket that is empty and says when counts, and only where that is within hours."""
    assert expected == seconds_until_back(document, 0.0)
