"""`plait context`, and the flags that say what the model of a run is not told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from plait.cli.entry import run_command_line
from plait.store.sessions import Sessions
from plait.testing import Call, Say, ScriptServer


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with instructions of its own, and senses that are on."""
    monkeypatch.delenv("PLAIT_AWARENESS")
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    (place / ".git").mkdir()
    (place / "AGENTS.md").write_text("Be kind \x1b[2J.\n")
    return place


def ran(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run a command; return the code and what was written."""
    capfd.readouterr()
    code = run_command_line(list(words))
    written = capfd.readouterr()
    return code, written.out, written.err


def test_a_session_that_has_not_begun(capfd: pytest.CaptureFixture[str], place: Path) -> None:
    """Prompt, tools and what goes with the first question, harmless to a terminal; files, and why they count or not."""
    (place / "a").mkdir()
    (place / "a" / "AGENTS.md").symlink_to("../AGENTS.md")
    code, out, err = ran(capfd, "context", "-C", "a")
    assert (0, "") == (code, err)
    lines = out.split("\n")
    assert lines[0].startswith("a session that begins here would send: ")
    assert "senses: user, system, git, time, token, change" == lines[1]
    assert ["instructions of the repository: AGENTS.md (13 characters)"] == [
        line for line in lines if "AGENTS.md (1" in line
    ]
    assert "instructions of the repository: a/AGENTS.md (the same as AGENTS.md)" in lines
    assert "\x1b" not in out
    assert "── next: beside the question (volatile" in out
    assert not list((place / "a").glob(".plait*"))

    told = json.loads(ran(capfd, "context", "--json", "--no-git-awareness", "--no-user-awareness")[1])
    assert ["user", "git"] == [name for name, is_on in told["senses"].items() if not is_on]
    assert {"tool", "system", "next"} == {part["kind"] for part in told["parts"]}
    assert ["stable", "session"] == sorted({part["stability"] for part in told["parts"] if part["kind"] == "system"})[
        ::-1
    ]
    bare = json.loads(ran(capfd, "context", "--json", "--bare")[1])
    assert ([], []) == (bare["instructions"], [part for part in bare["parts"] if part["kind"] != "tool"])


def test_a_session_that_is_kept(capfd: pytest.CaptureFixture[str], place: Path) -> None:
    """What was recorded, part by part: a prompt whose files have changed since is the one that is sent."""
    script: list[Any] = [Say(calls=[Call("read_file", {"path": "AGENTS.md"})]), "Done."]
    with ScriptServer(script) as server:
        options = ("--session", "mine", "--endpoint", server.url, "-m", "any", "--no-git-awareness")
        assert 0 == ran(capfd, "run", *options, "go")[0]
        sent = server.requests[-1].json["messages"]
    (place / "AGENTS.md").write_text("Be cruel.")
    told = json.loads(ran(capfd, "context", "mine", "--json")[1])
    parts = told["parts"]
    assert ("mine", "any", False) == (told["session"], told["model"], told["unfinished"])
    system = "\n\n".join(part["text"] for part in parts if part["kind"] == "system")
    assert (sent[0]["content"], ["AGENTS.md"]) == (system, [file["path"] for file in told["instructions"]])
    assert "instructions (repository)" in [part["name"] for part in parts]
    assert ["user", "assistant", "tool", "assistant"] == [part["name"] for part in parts if part["kind"] == "message"]
    assert told["tokens"] == sum(part["tokens"] for part in parts)
    assert told["reported_tokens"] > 0
    beside = [part["text"] for part in parts if part["kind"] == "next"]
    assert ["The session was opened again.", "<session_time>session elapsed"] == [
        beside[0].split("\n")[1],
        beside[1].split(":")[0],
    ]
    code, out, _ = ran(capfd, "context", "mine")
    assert (0, True) == (code, f"the endpoint counted {told['reported_tokens']:,} for the last request" in out)


def test_a_session_has_begun_as_it_did(capfd: pytest.CaptureFixture[str]) -> None:
    """Options for a new session and a session's name exclude each other; a name that nobody has is told."""
    code, _, err = ran(capfd, "context", "mine", "--bare")
    assert (2, True) == (code, "SESSION has begun" in err)
    assert 2 == ran(capfd, "context", "nobody")[0]


def test_a_runs_flags_leave_out_what_they_name(capfd: pytest.CaptureFixture[str]) -> None:
    """Each `--no-…-awareness` by itself, `--bare` everything, on `run` and on `resume`."""
    with ScriptServer(["Done."] * 3) as server:
        options = ("--endpoint", server.url, "-m", "any")
        off = [f"--no-{sense}-awareness" for sense in ("user", "system", "git", "token", "change")]
        assert 0 == ran(capfd, "run", "--session", "timed", *options, *off, "go")[0]
        assert 0 == ran(capfd, "resume", "timed", "--no-time-awareness", "on")[0]
        assert 0 == ran(capfd, "run", "--bare", *options, "the task")[0]
        timed, resumed, bare = (request.json["messages"] for request in server.requests)
    assert timed[-1]["content"].startswith("go\n\n<session_time>session elapsed: ")
    assert "Be kind" in timed[0]["content"]
    assert "on" == resumed[-1]["content"]
    assert [{"role": "user", "content": "the task"}] == bare
    assert Sessions.of(os.environ).listed(None)


def test_sizes_are_exact_where_there_is_a_counter(capfd: pytest.CaptureFixture[str]) -> None:
    """A counter of the settings counts each part as it is."""
    pytest.importorskip("rs_bpe")
    own = Path(os.environ["XDG_CONFIG_HOME"], "plait")
    own.mkdir(parents=True, exist_ok=True)
    (own / "plait.toml").write_text('token_counter = "o200k"\nsystem_prompt_supplement = "hello world"\n')

    told = json.loads(ran(capfd, "context", "--json")[1])

    assert [2] == [part["tokens"] for part in told["parts"] if part["name"] == "supplement"]
