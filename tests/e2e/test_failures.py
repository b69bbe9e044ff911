"""Everything that can keep a run from its answer is one sentence, one piece of advice and one exit code."""

from __future__ import annotations

import ssl
import subprocess
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from plait.testing import ScriptServer
from plait.testing.faults import Html, Status
from tests.e2e.command import Line, Ran, plait_each


def told(ran: Ran) -> tuple[int, str, str]:
    """Return exit code, status and class of a run that failed, having checked that it was told in words as well."""
    document = ran.json
    error = document["error"]
    assert error["message"], ran
    assert error["advice"], ran
    assert f"plait: {error['message']}" in ran.err, ran
    assert error["advice"].splitlines()[0] in ran.err, ran
    return ran.code, document["status"], error["class"]


REFUSALS = [
    (Status(401, '{"error": {"message": "bad key"}}'), 1, "AuthenticationError"),
    (Status(403, '{"error": {"message": "not yours"}}'), 1, "AuthenticationError"),
    (Status(404, '{"error": {"message": "no model any", "code": "model_not_found"}}'), 1, "ModelNotFound"),
    (Status(429, headers={"Retry-After": "9999"}), 1, "RateLimitError"),
    (Status(503), 2, "ModelUnavailable"),
    (Html(), 1, "ModelProtocolError"),
]


def test_what_an_endpoint_refuses_is_told(tmp_path: Path) -> None:
    """A status or a web page in place of an answer ends the run with exit code 3 and the error's class."""
    with ExitStack() as stack:
        servers = [stack.enter_context(ScriptServer([fault] * 3, allow_unused=True)) for fault, _, _ in REFUSALS]
        lines = [("run", "x", "--endpoint", server.url, "-m", "any", "--json", "--retries", "1") for server in servers]
        found = plait_each(*lines, cwd=tmp_path)

    assert [(3, "error", name) for _, _, name in REFUSALS] == [told(ran) for ran in found]
    assert [requests for _, requests, _ in REFUSALS] == [len(server.requests) for server in servers]


def at(endpoint: str, *more: str) -> tuple[str, ...]:
    """Return a run at an endpoint."""
    return ("run", "x", "--json", "--endpoint", endpoint, "-m", "m", *more)


HERE = "http://127.0.0.1:1/v1"
MISTAKES = [
    (Line(at("https://example.com/v1"), {}), 3, "AuthenticationError", "PLAIT_API_KEY"),
    (Line(at(HERE, "--key-env", "MY_KEY"), {}), 3, "AuthenticationError", "MY_KEY"),
    (Line(at(HERE, "--retries", "1"), {}), 3, "ModelUnavailable", "asking again"),
    (Line(at("https://no.such.invalid/v1"), {"PLAIT_API_KEY": "k"}), 3, "ModelUnavailable", "no.such.invalid"),
    (Line(("run", "x", "--json", "-m", "m"), {}), 2, "ConfigError", "--endpoint"),
    (Line(("run", "x", "--json"), {"OPENAI_API_KEY": "a", "XAI_API_KEY": "b"}), 2, "ConfigError", "--endpoint xai"),
    (Line(at("ftp://x"), {}), 2, "ConfigError", "ftp://x"),
    (Line(at(HERE), {"PLAIT_HOME": "/dev/null"}), 2, "ConfigError", "--no-durable"),
    (Line(at(HERE, "--session", "s"), {"PLAIT_HOME": "/dev/null"}), 2, "ConfigError", "--no-durable"),
    (Line(at(HERE, "--continue"), {"PLAIT_HOME": "/dev/null"}), 2, "ConfigError", "/dev/null"),
    (Line(("run", "x", "--json", "--spec", "gone.json"), {}), 2, "AgentSpecInvalidError", "gone.json"),
    (Line(("run", "x", "--json", "--spec", "blank.json"), {}), 2, "AgentSpecInvalidError", "blank.json"),
    (Line(at(HERE, "-C", "gone"), {}), 2, "ConfigError", "-C"),
    (Line(at(HERE, "--image", "gone.png"), {}), 2, "ConfigError", "--image"),
    (Line(at(HERE, "--output-schema", "gone.json"), {}), 2, "ConfigError", "--output-schema"),
    (Line(at(HERE, "--output-schema", "."), {}), 2, "ConfigError", "--output-schema"),
    (Line(at(HERE, "--max-steps", "none"), {}), 2, "UsageError", "--max-steps"),
    (Line(at(HERE, "--stream-json"), {}), 2, "UsageError", "exclude each other"),
]


def test_what_was_asked_wrongly_is_told(tmp_path: Path) -> None:
    """A missing key, a host that is not there, a wrong option, folder or spec: the way on is named."""
    (tmp_path / "blank.json").write_text("{}")

    found = plait_each(*[line for line, _, _, _ in MISTAKES], cwd=tmp_path)

    assert [(code, "error", name) for _, code, name, _ in MISTAKES] == [told(ran) for ran in found]
    assert [] == [ran for ran, (_, _, _, words) in zip(found, MISTAKES, strict=True) if words not in ran.err]
    assert {0} == {ran.json["steps"] for ran in found}


def test_a_certificate_that_nobody_vouches_for_is_told_and_no_key_is_shown(tmp_path: Path) -> None:
    """TLS is checked, and a failure says so; a key that an endpoint repeats stands in no message."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        ["openssl", *request, *subject, "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    secret = "sk-proj-abcdefghijklmnopqrstuv"
    echo = Status(401, f'{{"error": {{"message": "Incorrect key {secret}"}}}}')
    with ScriptServer([echo]) as plain, HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        unsafe, refused = plait_each(
            at(f"https://localhost:{server.server_port}/v1"),
            Line(at(plain.url, "--key-env", "MY_KEY"), {"MY_KEY": secret}),
            cwd=tmp_path,
        )
        server.shutdown()

    assert (3, "error", "ModelUnavailable") == told(unsafe)
    assert "certificate" in unsafe.err
    assert (3, "error", "AuthenticationError") == told(refused)
    assert f"Bearer {secret}" == plain.requests[0].headers["authorization"]
    assert secret not in refused.out + refused.err
