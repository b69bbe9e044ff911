"""The checks of `plait doctor`, on this machine as it is and on one that lacks things."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from plait.cli import checks
from plait.cli.checks import machine_checks, state_folder
from plait.cli.endpoint_check import endpoint_check
from plait.store.layout import state_home
from plait.testing import ScriptServer, unused_url

EMPTY_PATH = "/nowhere"


def test_nothing_fails_on_the_machine_that_runs_the_tests() -> None:
    """A machine on which plait is installed has no failed check, and no two checks share a name."""
    found = [*machine_checks({})]

    assert [] == [check for check in found if check.status == "fail"]
    assert len(found) == len({check.name for check in found})
    assert all(check.advice for check in found if check.status == "warn")


def test_helpers_that_are_missing_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ripgrep, git and bubblewrap plait works, and says what it does without."""
    monkeypatch.setenv("PATH", EMPTY_PATH)

    found = [checks.program("ripgrep", "rg", "searches are slower"), checks.bubblewrap()]

    assert ["warn", "warn"] == [check.status for check in found]
    assert "without it, searches are slower" == found[0].advice


def test_a_fence_that_cannot_be_made_is_told_apart_from_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bwrap that is there and forbidden to work is a warning with its reason."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    check = checks.bubblewrap()

    assert ("warn", True) == (check.status, "No permissions" in check.detail)


def test_a_package_that_is_missing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """What plait cannot do without is named."""
    monkeypatch.setattr(checks, "_PACKAGES", ("click", "no-such-package"))

    check = checks.packages()

    assert ("fail", "not installed: no-such-package") == (check.status, check.detail)


@pytest.mark.parametrize("encoding, status", [("utf-8", "ok"), ("latin-1", "warn")])
def test_an_encoding_that_lacks_characters_is_a_warning(encoding: str, status: str) -> None:
    """UTF-8 is fine, anything smaller is told."""
    assert status == checks.encoding(io.TextIOWrapper(io.BytesIO(), encoding=encoding)).status


def test_the_state_folder_follows_the_environment(home: Path) -> None:
    """PLAIT_HOME, else the XDG state folder when it is absolute, else the one below the home."""
    default = home / ".local/state/plait"

    assert [Path("/p"), Path("/x/plait"), default, default] == [
        state_home(environ)
        for environ in (
            {"PLAIT_HOME": "/p", "XDG_STATE_HOME": "/x"},
            {"XDG_STATE_HOME": "/x"},
            {"XDG_STATE_HOME": "x"},
            {},
        )
    ]


def test_a_state_folder_that_can_be_made_is_fine_and_not_made(tmp_path: Path) -> None:
    """The check leaves nothing behind."""
    assert "ok" == state_folder(tmp_path / "a" / "b").status
    assert [] == list(tmp_path.iterdir())


def test_a_read_only_state_folder_is_a_warning(
    tmp_path: Path, unprivileged: Callable[..., CompletedProcess[str]]
) -> None:
    """Where nothing can be written, sessions are not kept; that is told, with the way out."""
    tmp_path.chmod(0o555)
    code = (
        "import pathlib, sys; from plait.cli.checks import state_folder\n"
        "check = state_folder(pathlib.Path(sys.argv[1]))\n"
        "print(check.status, 'PLAIT_HOME' in check.advice)"
    )

    ran = unprivileged(code, tmp_path / "plait")

    assert ("warn True\n", "") == (ran.stdout, ran.stderr)


def test_an_endpoint_that_lists_the_model_is_fine() -> None:
    """One request for the list of models is enough; no completion is asked for."""
    with ScriptServer([], models=["qwen3", "other"]) as server:
        assert "ok" == endpoint_check(server.url, "qwen3", None, {}).status
        unknown = endpoint_check(server.url, "qwen9", None, {})

    assert ("warn", "it lists qwen3, other") == (unknown.status, unknown.advice)
    assert () == server.requests


def test_an_endpoint_that_is_not_there_fails() -> None:
    """A refused connection, an address that is none and a missing key are told with what to do."""
    refused = endpoint_check(unused_url(), None, None, {})
    nonsense = endpoint_check("ftp://x", None, None, {})
    keyless = endpoint_check("openai", None, None, {})

    assert ["fail"] * 3 == [check.status for check in (refused, nonsense, keyless)]
    assert "OPENAI_API_KEY" in keyless.advice
    assert all(check.advice for check in (refused, nonsense))


@pytest.mark.parametrize(
    "code, body, status, advice",
    [
        (200, b"<html>Welcome</html>", "warn", "/v1"),
        (404, b"not here", "warn", "/v1"),
        (401, b"{}", "fail", "--key-env"),
        (503, b"busy", "fail", "later"),
    ],
)
def test_what_else_answers_is_judged_by_its_status(code: int, body: bytes, status: str, advice: str) -> None:
    """A page, a refused key and a broken server are told apart."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        check = endpoint_check(f"http://127.0.0.1:{server.server_port}/v1", None, None, {})

    assert (status, True) == (check.status, advice in check.advice)


def test_a_damaged_table_of_prices_is_named(tmp_path: Path) -> None:
    """The user's own table is told with its path, and one that cannot be read fails."""
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    path = tmp_path / "plait/prices.json"
    path.parent.mkdir()

    plain = checks.prices(environ)
    path.write_text('{"providers": {}}')
    own = checks.prices(environ)
    path.write_text("{")
    damaged = checks.prices(environ)

    assert ["ok", "ok", "fail"] == [check.status for check in (plain, own, damaged)]
    assert [False, True, True] == [str(path) in check.detail for check in (plain, own, damaged)]
    assert damaged.advice
