"""A run can be stopped at any time, and then nothing of it goes on."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait.testing import Call, Request, Say, ScriptServer
from plait.testing.faults import Stall
from tests.e2e.command import end_of, environment, plait, start, wait_until
from tests.helpers.processes import working_in

BACKGROUND = "sleep 300 & touch begun; wait"
BIG = "x" * 80 + " "


@pytest.mark.parametrize(
    "number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=lambda v: str(v)
)
def test_a_signal_stops_a_command_with_all_it_started(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """The turn is closed, the result is told, the children are dead."""
    with ScriptServer([Call("exec_shell", {"command": BACKGROUND})]) as server:
        options = ("--endpoint", server.url, "-m", "any", "--yes", "--json")
        process = start("run", "x", *options, cwd=tmp_path, cold=number == signal.SIGTERM)
        wait_until((tmp_path / "begun").exists, "the command")
        assert "sleep 300" in working_in(tmp_path)
        process.send_signal(number)
        ran = end_of(process)

    assert (code, "interrupted") == (ran.code, ran.json["status"])
    assert "sleep 300" not in working_in(tmp_path)


def test_two_signals_stop_a_run_that_waits_for_its_model(tmp_path: Path) -> None:
    """The second one, while the turn is closing, does no harm; the connection is let go."""
    with ScriptServer([Stall("mid_event", answer="One two three four.")], allow_unused=True) as server:
        process = start("run", "x", "--endpoint", server.url, "-m", "any", "--stream-json", cwd=tmp_path)
        server.wait_for_requests(1)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        ran = end_of(process)
        server.wait_for_idle()

    assert 130 == ran.code
    assert ("result", "interrupted") == (ran.lines[-1]["type"], ran.lines[-1]["status"])


@pytest.mark.parametrize("form", ["--stream-json", "-q"])
def test_a_reader_that_goes_away_ends_the_run(form: str, tmp_path: Path) -> None:
    """A closed pipe is exit code 1 without a word, and the agent does not go on unseen."""
    reader, writer = os.pipe()
    os.close(reader)
    steps = [Call("list_dir", {"path": "." * (1 + number % 2)}) for number in range(6)]
    with ScriptServer([*steps, "Done."], allow_unused=True) as server:
        process = start("run", "x", "--endpoint", server.url, "-m", "any", form, cwd=tmp_path, stdout=writer)
        os.close(writer)
        ran = end_of(process)

    assert (1, "") == (ran.code, ran.err)
    assert ("-q" == form) is (len(server.requests) == 7)


def test_an_output_that_is_full_is_told(tmp_path: Path) -> None:
    """When the answer cannot be written the exit code says so, and stderr why."""
    with ScriptServer(["Done."]) as server, open("/dev/full", "w") as full:
        ran = plait("run", "x", "--endpoint", server.url, "-m", "any", "-q", cwd=tmp_path, stdout=full)

    assert (1, True) == (ran.code, "stdout takes no more: No space" in ran.err)


def test_a_reader_that_does_not_read_can_be_left(tmp_path: Path) -> None:
    """More output than a pipe holds does not keep a run from ending, nor Ctrl-C from stopping it."""
    with ScriptServer(
        [Say(BIG * 2_000, calls=[Call("list_dir", {})]), Stall("before_headers")], allow_unused=True
    ) as server:
        process = start("run", "x", "--endpoint", server.url, "-m", "any", "--stream-json", cwd=tmp_path)
        server.wait_for_requests(2)
        process.send_signal(signal.SIGINT)
        assert 130 == process.wait(10)
        process.communicate()


def test_a_small_encoding_and_no_home_are_no_reason_to_fail(tmp_path: Path) -> None:
    """In an ASCII or Latin-1 locale, and without a home, the answer is there and the rest is spelt out."""
    settings: list[dict[str, Any]] = [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "HOME": "/nonexistent", "PLAIT_HOME": "", "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": ""},
    ]
    with ScriptServer(["größe 猫"] * 3) as server:
        arguments = ("run", "größe 猫", "--endpoint", server.url, "-m", "any")
        found = [plait(*arguments, cwd=tmp_path, env=environment(**more)) for more in settings]

    assert [0, 0, 0] == [ran.code for ran in found]
    assert [b"gr\\xf6\\xdfe \\u732b\n", "größe \\u732b\n".encode("latin-1"), "größe 猫\n".encode()] == [
        ran.out_bytes for ran in found
    ]
    assert all("größe 猫" in request.text for request in (server.requests[0], server.requests[2]))


def test_a_home_that_cannot_be_written_to_is_no_reason_to_fail(
    tmp_path: Path, home: Path, unprivileged: Callable[..., Any]
) -> None:
    """A read-only home and folder: without a journal the run goes on, and a tool that cannot write says so."""
    code = "import sys; sys.argv[0] = 'plait'; from plait.cli.main import main; main()"
    home.chmod(0o555)
    tmp_path.chmod(0o555)
    try:
        with ScriptServer([Call("write_file", {"path": "a", "content": "x"}), "I could not."]) as server:
            ran = unprivileged(code, "run", "x", "--no-durable", "--endpoint", server.url, "-m", "any", cwd=tmp_path)
    finally:
        home.chmod(0o755)
        tmp_path.chmod(0o755)

    assert (0, "I could not.\n") == (ran.returncode, ran.stdout)
    assert "Traceback" not in ran.stderr
    assert "ermission" in ran.stderr


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(4))
def test_a_signal_at_any_moment_leaves_a_whole_result(seed: int, tmp_path: Path) -> None:
    """From the first request on, Ctrl-C once or twice ends a run with its result told and its exit code right."""

    def script(request: Request) -> Say:
        if request.turns > 5:
            return Say("Done.")
        # Never the same twice: that would be stopped as a loop.
        return Say("Again.", calls=[Call("exec_shell", {"command": f"sleep 0.03; : {request.turns}"})])

    chance = random.Random(seed)
    with ScriptServer(script) as server:
        for number in range(25):
            asked = len(server.requests)
            process = start("run", "x", "--endpoint", server.url, "-m", "any", "--yes", "--json", cwd=tmp_path)
            server.wait_for_requests(asked + 1)
            time.sleep(chance.random() * 0.6)
            for _ in range(chance.choice((1, 2))):
                process.send_signal(signal.SIGINT)
                time.sleep(chance.random() * 0.02)
            ran = end_of(process)

            expected = {"completed": 0, "interrupted": 130}
            assert expected[ran.json["status"]] == ran.code, (seed, number, ran)
