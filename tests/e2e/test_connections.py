"""`plait run` reaches what its flags and its spec name, with the key that belongs there; a mistake is said first."""

from __future__ import annotations

import json
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from plait.testing import ScriptServer
from tests.e2e.command import Line, plait_each

ANSWER = {"choices": [{"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}]}
SPEC = {"model": "m", "tool_specs": [{"function": {"name": "read_file", "parameters": {"type": "object"}}}]}


def listed(folder: Path, url: str) -> str:
    """Make a list of endpoints with one entry, and return its path."""
    path = folder / "endpoints.toml"
    path.write_text(
        f'[endpoints.mine]\nurl = "{url}"\nauth = "x-api-key"\nquery = {{ key = "zz-secret-query-1" }}\n'
        'params = { top_p = 0.5 }\nkey = [{ source = "env", var = "LISTED" }]\n'
    )
    return str(path)


def test_an_entry_of_the_users_list_is_asked(tmp_path: Path) -> None:
    """--inference-db decides endpoint and key, wins over --endpoint and shows no query; --key-env wins over its key."""
    spec = tmp_path / "spec.json"
    with ScriptServer(["done"] * 3) as server:
        env = {"INFERENCE_DB": listed(tmp_path, server.url), "LISTED": "k-listed", "OWN": "k-own"}
        spec.write_text(json.dumps(SPEC | {"command": ["./gone"], "keyring_service": "s", "keyring_username": "u"}))
        found = plait_each(
            Line(("run", "x", "--inference-db", "mine", "-m", "m", "--endpoint", "http://127.0.0.1:1/v1"), env),
            Line(("run", "x", "--inference-db", "mine", "-m", "m", "--key-env", "OWN"), env),
            Line(("run", "x", "--inference-db", "mine", "--spec", "spec.json", "--key-env", "OWN"), env),
            Line(("run", "x", "--inference-db", "mine"), env),
            Line(("run", "x", "--inference-db", "mien", "-m", "m"), env),
            cwd=tmp_path,
        )
        assert ["k-listed", "k-own", "k-own"] == [request.headers["x-api-key"] for request in server.requests]
        assert [0.5] * 3 == [request.json["top_p"] for request in server.requests]

    assert [0, 0, 0, 2, 2] == [ran.code for ran in found], found
    assert found[0].err.startswith(f"plait: m at {server_of(server)}, mine of your endpoints\n")
    assert "no model was chosen for the endpoint 'mine'" in found[3].err
    assert "it has: mine" in found[4].err
    assert [] == [ran for ran in found if "zz-secret" in ran.out + ran.err]


def server_of(server: ScriptServer) -> str:
    """Return the address that a stopped server had."""
    host = server.requests[0].headers["host"]
    return f"http://{host}/v1"


def test_a_program_is_asked(tmp_path: Path) -> None:
    """`run://` is an endpoint, by flag and in a spec; a program that fails ends the run with 3."""
    program, broken = tmp_path / "model", tmp_path / "broken"
    program.write_text(f"#!{sys.executable}\nprint({json.dumps(json.dumps(ANSWER))})\n")
    broken.write_text(f"#!{sys.executable}\nraise SystemExit('no weights')\n")
    for path in (program, broken):
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "spec.json").write_text(json.dumps(SPEC | {"command": [str(program), "--fast"]}))

    by_flag, by_spec, fails = plait_each(
        ("run", "x", "--endpoint", f"run://{program}"),
        ("run", "x", "--spec", "spec.json"),
        ("run", "x", "--json", "--endpoint", f"run://{broken}"),
        cwd=tmp_path,
    )

    assert [(0, "done\n"), (0, "done\n")] == [(ran.code, ran.out) for ran in (by_flag, by_spec)]
    assert by_flag.err.startswith(f"plait: model at run://{program}\n")
    assert (3, "ModelUnavailable") == (fails.code, fails.json["error"]["class"])
    assert "no weights" in fails.err
    assert fails.json["cost"] is None


def test_what_is_wrong_is_said_before_anything_else(tmp_path: Path) -> None:
    """A configuration that cannot be used is one complaint, without an announcement of a run that never begins."""
    (tmp_path / "typo.json").write_text(json.dumps(SPEC | {"endpoint": "http://127.0.0.1:1/v1", "max_rmp": 3}))
    (tmp_path / "half.json").write_text(json.dumps(SPEC | {"keyring_service": "s"}))
    key = "sk-ant-abcdefghijklmnopqrstuvwx"
    found = plait_each(
        ("run", "x", "--endpoint", "opnrouter", "-m", "m"),
        ("run", "x", "--endpoint", "myserver", "-m", "m"),
        ("run", "x", "--endpoint", "azure", "-m", "m"),
        ("run", "x", "--endpoint", f"http://user:{key}@127.0.0.1:1/v1", "-m", "m"),
        ("run", "x", "--endpoint", "http://127.0.0.1:1/v1", "-m", "m", "--key-env", key),
        ("run", "x", "--spec", "typo.json"),
        ("run", "x", "--spec", "half.json"),
        cwd=tmp_path,
    )
    said = [ran.err.splitlines()[0] for ran in found]

    assert {2} == {ran.code for ran in found}, found
    assert [
        "plait: no provider is called 'opnrouter'",
        "plait: no provider is called 'myserver'",
        "plait: 'azure' has no address of its own",
        "plait: the endpoint 'http://127.0.0.1:1/v1' was given with a name and a password",
        "plait: the agent spec of 'm' has an unfit value in the field 'key_env'",
        "plait: the agent spec 'typo.json' has an unknown field 'max_rmp'",
        "plait: the agent spec 'half.json' names half of a keyring entry",
    ] == said
    assert "did you mean 'openrouter'?" in found[0].err
    assert [] == [ran for ran in found if key in ran.out + ran.err]


def test_a_model_that_is_too_dear_is_not_asked(tmp_path: Path) -> None:
    """A price above the spec's limit ends the run with 1 before any request; one that nobody knows is said."""
    limits = {"max_input_token_price_per_million": 1, "max_output_token_price_per_million": 1}
    config = tmp_path / "config"
    (config / "plait").mkdir(parents=True)
    (config / "plait/prices.json").write_text('{"providers": {"openai": {"gpt-9": ["3", "15"]}}}')
    env = {"XDG_CONFIG_HOME": str(config), "OPENAI_API_KEY": "k"}
    (tmp_path / "dear.json").write_text(json.dumps(SPEC | limits | {"model": "gpt-9", "endpoint": "openai"}))
    with ScriptServer(["done"]) as server:
        (tmp_path / "own.json").write_text(json.dumps(SPEC | limits | {"endpoint": server.url}))
        dear, own = plait_each(
            Line(("run", "x", "--json", "--spec", "dear.json"), env),
            Line(("run", "x", "--spec", "own.json"), env),
            cwd=tmp_path,
        )

    assert (1, "PricingLimitExceededError") == (dear.code, dear.json["error"]["class"])
    assert own.code == 0
    assert "the price of m is not known" in own.err


@contextmanager
def secured(folder: Path) -> Iterator[str]:
    """Serve one answer over HTTPS with a certificate of its own authority, `cert.pem`; yield the base URL."""
    key, certificate = folder / "key.pem", folder / "cert.pem"
    request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        ["openssl", *request, *subject, "-keyout", key, "-out", certificate], check=True, capture_output=True
    )

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(ANSWER).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://localhost:{server.server_port}/v1"
        server.shutdown()


@pytest.mark.parametrize("vouched", [True, False])
def test_an_authority_of_the_users_own(tmp_path: Path, vouched: bool) -> None:
    """SSL_CERT_FILE names authorities that are believed; without it the certificate is nobody's."""
    with secured(tmp_path) as url:
        env = {"SSL_CERT_FILE": str(tmp_path / "cert.pem")} if vouched else {}
        (ran,) = plait_each(Line(("run", "x", "--retries", "0", "--endpoint", url, "-m", "m"), env), cwd=tmp_path)

    assert (0 if vouched else 3) == ran.code, ran
