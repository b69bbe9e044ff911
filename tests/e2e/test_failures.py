"""Everything that can keep a run from its answer is one sentence, one piece of advice and one exit code."""

from __future__ import annotations

import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from plait.testing import ScriptServer, unused_url
from plait.testing.faults import Html, Status
from tests.e2e.command import Ran, environment, plait


def told(ran: Ran) -> tuple[int, str, str]:
    """Return exit code, status and class of a run that failed, having checked that it was told in words as well."""
    document = ran.json
    error = document["error"]
    assert error["message"], ran
    assert error["advice"], ran
    assert f"plait: {error['message']}" in ran.err, ran
    assert error["advice"].splitlines()[0] in ran.err, ran
    return ran.code, document["status"], error["class"]


@pytest.mark.parametrize(
    "fault, answers, name",
    [
        (Status(401, '{"error": {"message": "bad key"}}'), 1, "AuthenticationError"),
        (Status(403, '{"error": {"message": "not yours"}}'), 1, "AuthenticationError"),
        (Status(404, '{"error": {"message": "no model any", "code": "model_not_found"}}'), 1, "ModelNotFound"),
        (Status(429, headers={"Retry-After": "9999"}), 1, "RateLimitError"),
        (Status(503), 2, "ModelUnavailable"),
        (Html(), 1, "ModelProtocolError"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_an_endpoint_refuses_is_told(fault: Any, answers: int, name: str, tmp_path: Path) -> None:
    """A status or a web page in place of an answer ends the run with exit code 3 and the error's class."""
    with ScriptServer([fault] * 6, allow_unused=True) as server:
        ran = plait("run", "x", "--endpoint", server.url, "-m", "any", "--json", "--retries", "1", cwd=tmp_path)

    assert (3, "error", name) == told(ran)
    assert answers == len(server.requests)


@pytest.mark.parametrize(
    "arguments, env, code, name, words",
    [
        (
            ["--endpoint", "http://no.such.invalid/v1", "-m", "m"],
            {"PLAIT_API_KEY": "k"},
            3,
            "ModelUnavailable",
            "no.such",
        ),
        (["--endpoint", "https://example.com/v1", "-m", "m"], {}, 3, "AuthenticationError", "PLAIT_API_KEY"),
        (
            ["--endpoint", "http://127.0.0.1:1/v1", "-m", "m", "--key-env", "MY_KEY"],
            {},
            3,
            "AuthenticationError",
            "MY_KEY",
        ),
        (["-m", "m"], {}, 2, "ConfigError", "--endpoint"),
        ([], {"OPENAI_API_KEY": "a", "XAI_API_KEY": "b"}, 2, "ConfigError", "--endpoint xai"),
        (["--endpoint", "ftp://x", "-m", "m"], {}, 2, "ConfigError", "ftp://x"),
        (["--spec", "gone.json"], {}, 2, "AgentSpecInvalidError", "gone.json"),
        (["-C", "gone", "--endpoint", "http://127.0.0.1:1/v1", "-m", "m"], {}, 2, "ConfigError", "-C"),
        (["--max-steps", "none"], {}, 2, "UsageError", "--max-steps"),
        (["--json", "--stream-json"], {}, 2, "UsageError", "exclude each other"),
    ],
)
def test_what_was_asked_wrongly_is_told(
    arguments: list[str], env: dict[str, str], code: int, name: str, words: str
) -> None:
    """A missing key, an unknown host, a wrong option or folder: nothing is started, and the way on is named."""
    ran = plait("run", "x", "--json", *arguments, env=environment(**env))

    assert (code, "error", name) == told(ran)
    assert words in ran.err
    assert 0 == ran.json["steps"]


def test_a_certificate_that_nobody_vouches_for_is_told(tmp_path: Path) -> None:
    """TLS is checked, and a failure says so."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        ["openssl", *request, *subject, "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ran = plait("run", "x", "--endpoint", f"https://localhost:{server.server_port}/v1", "-m", "m", "--json")
        server.shutdown()

    assert (3, "error", "ModelUnavailable") == told(ran)
    assert "certificate" in ran.err


def test_no_key_is_ever_shown(tmp_path: Path) -> None:
    """A key that the endpoint refuses stands in no message."""
    with ScriptServer(
        [Status(401, '{"error": {"message": "Incorrect key sk-proj-abcdefghijklmnopqrstuv"}}')]
    ) as server:
        ran = plait(
            "run",
            *("x", "--endpoint", server.url, "-m", "any", "--json", "--key-env", "MY_KEY"),
            cwd=tmp_path,
            env=environment(MY_KEY="sk-proj-abcdefghijklmnopqrstuv"),
        )

    assert "Bearer sk-proj-abcdefghijklmnopqrstuv" == server.requests[0].headers["authorization"]
    assert "sk-proj" not in ran.out + ran.err


def test_a_refused_connection_is_told_each_time() -> None:
    """Nobody listens there: that is said while it is tried again, and at the end with what to do."""
    ran = plait("run", "x", "--endpoint", unused_url(), "-m", "any", "--json", "--retries", "1")

    assert (3, "error", "ModelUnavailable") == told(ran)
    assert 1 == ran.err.count("asking again")
