"""A run that was killed goes on; a session is found, goes on where it worked, and is nobody else's meanwhile."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

from plait.core.facts import MessageAdded, ToolEnd
from plait.store.opening import load_journal
from plait.testing import Call, ScriptServer
from plait.testing.faults import Stall
from tests.e2e.command import PLAIT, TIMEOUT_S, environment, plait, plait_each, start, wait_until
from tests.helpers.privileges import without_privileges


def run(server: ScriptServer, *more: str) -> list[str]:
    """Return the command line of a run on a server."""
    return ["run", "Do it.", "--endpoint", server.url, "-m", "m", "--yes", *more]


def journal(name: str) -> Path:
    """Return the journal of a session."""
    return Path(os.environ["PLAIT_HOME"], "sessions", name, "journal.jsonl")


def kill(process: Any) -> None:
    """End a run as a crash does."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=TIMEOUT_S)


def sent(server: ScriptServer, index: int) -> Any:
    """Return the body of a request."""
    return json.loads(server.requests[index].body)


def test_a_run_that_was_killed_while_the_model_thought(tmp_path: Path) -> None:
    """The question was safe: a resume asks it again, with the same bytes, and finishes the turn."""
    with ScriptServer([Stall("mid_event", answer="One two."), "Done."]) as server:
        process = start(*run(server, "--session", "s"), cwd=tmp_path)
        server.wait_for_requests(1)
        kill(process)
        ran = plait("resume", "s", "--yes", cwd=tmp_path)

    assert (0, "Done.\n") == (ran.code, ran.out)
    assert "the last turn had not ended, and goes on" in ran.err
    assert server.requests[0].body == server.requests[1].body


def test_a_run_that_was_killed_in_a_command(tmp_path: Path) -> None:
    """The command runs once; what became of it is said once; a later resume has nothing more to say of it."""
    command = "echo x >> effects; sleep 1; echo done"
    with ScriptServer([Call("exec_shell", {"command": command}), "Done.", "More."]) as server:
        process = start(*run(server, "--session", "s"), cwd=tmp_path)
        wait_until(lambda: (tmp_path / "effects").exists(), "the command")
        kill(process)
        ran = plait("resume", "s", "--yes", cwd=tmp_path)
        again = plait("resume", "s", "And now?", "--yes", cwd=tmp_path)
        asked = sent(server, 2)["messages"]

    assert (0, "Done.\n", "More.\n") == (ran.code, ran.out, again.out)
    assert "x\n" == (tmp_path / "effects").read_text()
    assert "a call was under way" in ran.err
    assert "under way" not in again.err
    assert ["system", "user", "assistant", "tool", "assistant", "user"] == [message["role"] for message in asked]
    assert 1 == sum(isinstance(fact, ToolEnd) for fact in load_journal(journal("s")).facts)


def test_the_unfinished_turn_goes_first(tmp_path: Path) -> None:
    """With a text, the turn that was left open comes to its end, and then the text is asked."""
    with ScriptServer([Stall("mid_event", answer="One two."), "First.", "Second."]) as server:
        process = start(*run(server, "--session", "s"), cwd=tmp_path)
        server.wait_for_requests(1)
        kill(process)
        ran = plait("resume", "s", "Next.", "--yes", "--json", cwd=tmp_path)

    assert ("completed", "Second.", "s") == tuple(ran.json[name] for name in ("status", "reply", "session_id"))
    words = [fact.message.content for fact in load_journal(journal("s")).facts if isinstance(fact, MessageAdded)]
    assert ["Do it.", "First.", "Next.", "Second."] == words


def test_ways_to_go_on(tmp_path: Path) -> None:
    """By name, as the newest of the folder, by the beginning of a name; each run says how to go on."""
    with ScriptServer(["1", "2", "3", "4", "5"]) as server:
        first, *others = plait_each(
            run(server, "--session", "by-name"),
            ["run", "More.", "--session", "by-name"],
            ["run", "More.", "--continue"],
            ["resume", "by", "More."],
            ["run", "Alone.", "--endpoint", server.url, "-m", "m", "--no-durable"],
            cwd=tmp_path,
        )
        sizes = [len(sent(server, index)["messages"]) for index in range(5)]

    assert [0] * 5 == [ran.code for ran in (first, *others)]
    assert [2, 4, 6, 8, 2] == sizes
    assert "to go on: plait resume by-name\n" in first.err
    assert "to go on" not in others[-1].err
    assert ["by-name"] == os.listdir(Path(os.environ["PLAIT_HOME"], "sessions"))


def test_what_there_is_not_to_go_on_with(tmp_path: Path) -> None:
    """Every such wish is a sentence and exit code 2, and begins nothing."""
    with ScriptServer(["One."]) as server:
        ran = plait_each(
            run(server, "--session", "begun"),
            ["resume", "begun"],
            ["resume", "begin", "x"],
            ["resume", "./no/where", "x"],
            ["run", "x", "--session", "a/b", "--endpoint", server.url, "-m", "m"],
            ["run", "x", "--session", "a", "--continue"],
            cwd=tmp_path,
        )
        (elsewhere := tmp_path / "elsewhere").mkdir()
        (nothing,) = plait_each(["resume"], cwd=elsewhere)

    assert [0, 2, 2, 2, 2, 2, 2] == [each.code for each in (*ran, nothing)]
    assert 'plait resume begun "..."' in ran[1].err
    assert "did you mean begun?" in ran[2].err
    assert ["begun"] == os.listdir(Path(os.environ["PLAIT_HOME"], "sessions"))


def test_a_session_is_one_process_s(tmp_path: Path) -> None:
    """A second run of it is told who has it; a killed one holds nothing."""
    with ScriptServer([Stall("mid_event", answer="One two."), "Done."]) as server:
        process = start(*run(server, "--session", "s"), cwd=tmp_path)
        server.wait_for_requests(1)
        busy = plait(*run(server, "--session", "s", "--json"), cwd=tmp_path)
        kill(process)
        freed = plait("resume", "s", "--yes", cwd=tmp_path)

    assert (1, "session_busy") == (busy.code, busy.json["error"]["code"])
    assert str(process.pid) in busy.json["error"]["message"]
    assert 0 == freed.code


def test_a_resume_works_where_the_session_did(tmp_path: Path) -> None:
    """From another folder the files are those of the session's; a folder that is gone is said."""
    (home := tmp_path / "project").mkdir()
    (other := tmp_path / "other").mkdir()
    with ScriptServer(["One.", Call("write_file", {"path": "made", "content": "x"}), "Two."]) as server:
        plait_each(run(server, "--session", "s"), cwd=home)
        plait_each(["resume", "s", "Make it.", "--yes"], cwd=other)
        assert (home / "made").exists()
        (home / "made").unlink()
        home.rmdir()
        (gone,) = plait_each(["resume", "s", "More."], cwd=other)

    assert 2 == gone.code
    assert "say with -C where it is to go on" in gone.err


def test_another_provider_gets_a_copy(tmp_path: Path) -> None:
    """A flag that names another model or endpoint leaves the session as it is and goes on with its copy."""
    with ScriptServer(["One."]) as server, ScriptServer(["Two.", "Three."]) as other:
        plait_each(run(server, "--session", "s"), cwd=tmp_path)
        before = journal("s").read_bytes()
        copied, again = plait_each(
            ["resume", "s", "More.", "--endpoint", other.url],
            ["resume", "s", "More.", "--endpoint", other.url, "-m", "m"],
            cwd=tmp_path,
        )
        models = [sent(other, index)["model"] for index in range(2)]
        sizes = [len(sent(other, index)["messages"]) for index in range(2)]

    assert [0, 0] == [copied.code, again.code]
    assert (["m", "m"], [4, 6]) == (models, sizes)
    assert before == journal("s").read_bytes()
    assert "to go on: plait resume s-" in copied.err


def test_the_older_program_s_session(tmp_path: Path) -> None:
    """Its journal goes on by path: imported once, left as it is."""
    old = tmp_path / "abc_journal.jsonl"
    records = [
        {"seq": 1, "ts": "2025-01-01T00:00:00.000+00:00", "type": "turn_start", "task": "Old."},
        {
            "seq": 2,
            "ts": "2025-01-01T00:00:00.000+00:00",
            "type": "message",
            "msg": {"role": "user", "content": "Old."},
        },
        {
            "seq": 3,
            "ts": "2025-01-01T00:00:01.000+00:00",
            "type": "message",
            "msg": {"role": "assistant", "content": "Yes."},
        },
        {"seq": 4, "ts": "2025-01-01T00:00:01.000+00:00", "type": "turn_end"},
    ]
    old.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    before = old.read_bytes()
    with ScriptServer(["One.", "Two."]) as server:
        where = ["--endpoint", server.url, "-m", "m"]
        ran = plait_each(["resume", str(old), "A.", *where], ["resume", str(old), "B.", *where], cwd=tmp_path)
        words = [message["content"] for message in sent(server, 1)["messages"][1:]]

    assert [0, 0] == [each.code for each in ran]
    assert ["Old.", "Yes.", "A.", "One.", "B."] == words
    assert before == old.read_bytes()


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    """Nothing is asked without its journal; the sentence says where, and how to do without."""
    (home := tmp_path / "home").mkdir(mode=0o500)
    with ScriptServer(["One."], allow_unused=True) as server:
        command = without_privileges(PLAIT, *run(server))
        env = environment(PLAIT_HOME=str(home))
        ran = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert 0 == len(server.requests)
        without = subprocess.run(
            [*command, "--no-durable"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    assert (2, "") == (ran.returncode, ran.stdout)
    assert [] == [word for word in (str(home), "Permission denied", "--no-durable") if word not in ran.stderr]
    assert "Traceback" not in ran.stderr
    assert (0, "One.\n") == (without.returncode, without.stdout)


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """A journal that can grow no more ends the run with a sentence; with room again the turn goes on."""
    with ScriptServer(["x" * 200_000, "Done."]) as server:
        full = plait(*run(server, "--session", "s"), cwd=tmp_path, preexec_fn=_files_stay_small)
        ran = plait("resume", "s", "--yes", cwd=tmp_path)

    assert (1, "") == (full.code, full.out)
    assert [] == [word for word in ("File too large", "make room", "plait resume s") if word not in full.err]
    assert (0, "Done.\n") == (ran.code, ran.out)


def _files_stay_small() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
