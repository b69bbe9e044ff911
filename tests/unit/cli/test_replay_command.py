"""`plait replay`, as a user types it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from plait.cli.entry import run_command_line
from plait.store.sessions import Sessions
from plait.testing import Call, Say, ScriptServer

SCRIPT: list[Any] = [Say("", calls=[Call("write_file", {"path": "a.txt", "content": "x"})]), "Done.", "Again."]


@pytest.fixture
def own(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """Return the user's sessions after two runs of one of them; the server is gone."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with ScriptServer(SCRIPT) as server:
        for task in ("go", "and on"):
            options = ["--session", "mine", "--endpoint", server.url, "-m", "any", "--yes"]
            assert 0 == run_command_line(["run", *options, task])
    return Sessions.of(os.environ)


def replay(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Replay and return the code and what was written."""
    capfd.readouterr()
    code = run_command_line(["replay", *arguments])
    written = capfd.readouterr()
    return code, written.out, written.err


def test_a_run_is_proved_to_be_the_same(own: Sessions, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a server, a key or a change to any file, all requests of two processes come out as they were sent."""
    before = {path: path.read_bytes() for path in own.folder.rglob("*") if path.is_file()}
    Path("a.txt").unlink()

    assert (0, "mine: 2 turns, 3 requests, 3 proved to be the same\n", "") == replay(capfd, "mine")
    told = json.loads(replay(capfd, "mine", "--json")[1])
    assert (3, 3, [], None) == (told["requests"], told["proved"], told["sections"], told["difference"])
    assert before == {path: path.read_bytes() for path in own.folder.rglob("*") if path.is_file()}
    assert not Path("a.txt").exists()


def test_other_words_are_shown_with_their_place(
    own: Sessions, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a changed prompt would send is told, harmlessly, with what was sent; the exit code says that it differs."""
    monkeypatch.setattr("plait.session.prompt.compose", lambda *_, **__: "Be \x1b[2Jquick.")
    code, out, _ = replay(capfd, "mine")
    assert 1 == code
    assert "3 proved to be the same" in out
    assert "another system prompt, from character" in out
    assert "quick." in out
    assert "\x1b" not in out


def test_a_changed_encoding_is_the_first_difference(
    own: Sessions, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a message would be encoded otherwise, the request that would differ first is shown from there on."""
    from plait.wire.chat import encode as chat_encode

    encode = chat_encode.encode_message

    def other(message: Any, *rest: Any) -> Any:
        encoded = encode(message, *rest)
        return type(encoded)(encoded.data.replace(b"and on", b"AND ON"), encoded.marker_gap)

    monkeypatch.setattr(chat_encode, "encode_message", other)
    code, out, _ = replay(capfd, "mine")
    assert 1 == code
    assert "turn 2, entry " in out
    assert "AND ON" in out
    told = json.loads(replay(capfd, "mine", "--json")[1])["difference"]
    assert "AND ON" in told["request"]
    assert "assistant" == told["recorded"]["data"]["role"]


@pytest.mark.parametrize("arguments", [["nobody"], ["mine", "--spec", "none.json"]])
def test_what_cannot_be_replayed_is_a_sentence(
    own: Sessions, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """No such session, no such spec: a usage error without a traceback."""
    code, out, err = replay(capfd, *arguments)
    assert (2, "") == (code, out)
    assert "Traceback" not in err
