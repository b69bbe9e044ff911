"""The shell with real commands, run by this process and under a supervisor."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.core.messages import ToolResult
from plait.kernel.tools import ToolContext
from plait.tools.answer import Reply
from plait.tools.toolbox import Toolbox, ToolboxOptions

from .conftest import MakeToolbox
from .replies import done


class DurableToolbox(Toolbox):
    """A toolbox whose commands are started as a durable conversation starts them: with an intent."""

    def exec_shell(self, command: str, timeout_s: float | None = None, call: ToolContext | None = None) -> Reply:
        """Run a command line under a supervisor."""
        return super().exec_shell(command, timeout_s, self._begun("exec_shell", command, timeout_s, call))

    def bash(self, command: str, timeout_s: float | None = None, call: ToolContext | None = None) -> Reply:
        """Run a command line under a supervisor, its errors apart."""
        return super().bash(command, timeout_s, self._begun("bash", command, timeout_s, call))

    def _begun(self, name: str, command: str, timeout_s: float | None, call: ToolContext | None) -> ToolContext:
        recovery = self.recovery(name)
        assert recovery is not None
        call = call or ToolContext("1", "k", Cancel())
        try:
            return replace(call, intent=recovery.intend({"command": command, "timeout_s": timeout_s}, call))
        except Refusal:
            return call


@pytest.fixture(params=["here", "supervised"])
def make(request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> Iterator[MakeToolbox]:
    """Return a function that opens the workspace with some options, once for each way in which commands run."""
    opened: list[Toolbox] = []

    def open_it(**options: object) -> Toolbox:
        more: dict[str, Any] = {"grace_s": 0.1} | options
        if request.param == "supervised":
            opened.append(DurableToolbox(root, ToolboxOptions(**more, spool=tmp_path / "spool")))
        else:
            opened.append(Toolbox(root, ToolboxOptions(**more)))
        return opened[-1]

    yield open_it
    for box in opened:
        box.close()


def is_alive(pid: int) -> bool:
    """Say whether a process lives; one that has ended but was not fetched does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


def until(holds: Callable[[], bool]) -> bool:
    """Wait up to some seconds for something to hold."""
    deadline = time.monotonic() + 5
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def test_output_comes_first_and_the_exit_code_when_it_is_not_zero(box: Toolbox) -> None:
    """The answer is what the command printed on either stream, in order, and then how it ended."""
    assert "out\nerr\n[exit code 3]" == done(box.exec_shell("echo out; echo err >&2; exit 3"))[0]
    assert "hi" == done(box.exec_shell("echo hi"))[0]
    assert "(no output)" == done(box.exec_shell("true"))[0]
    text, data = done(box.exec_shell("kill -KILL $$"))
    assert ("[exit code 137]", 137, 9) == (text, data["exit_code"], data["signal"])


def test_a_failing_command_is_an_answer_to_exec_shell_and_a_failure_of_bash(box: Toolbox) -> None:
    """`exec_shell` tells the exit code; under the kernel's `bash` a command that fails has failed."""
    text, data = done(box.exec_shell("exit 1"))
    assert ("[exit code 1]", 1, None) == (text, data["exit_code"], data.get("ok"))
    text, data = done(box.bash("echo out; echo err >&2; exit 4"))
    assert ("out\n[stderr]\nerr\n[exit code 4]", 4, False) == (text, data["exit_code"], data["ok"])
    assert ("(no output)", None) == (done(box.bash("true"))[0], done(box.bash("true"))[1].get("ok"))


def test_it_runs_bash_in_the_workspace_without_memory(box: Toolbox, root: Path) -> None:
    """Each call is a fresh bash in the workspace: what the last one changed in its own shell is gone."""
    assert "/" == done(box.exec_shell("cd / && X=1 && pwd"))[0]
    assert str(root) == done(box.exec_shell("[[ -z $X ]] && pwd"))[0]


def test_there_is_no_input(box: Toolbox) -> None:
    """A command that reads gets the end of input at once."""
    assert "end" == done(box.exec_shell("cat; read x; echo end", timeout_s=5))[0]


def test_a_background_child_does_not_hold_the_call(box: Toolbox) -> None:
    """A child that keeps the output open is left to itself, and ends with the toolbox."""
    began = time.monotonic()
    text, _ = done(box.exec_shell("sleep 60 & echo $!"))
    assert time.monotonic() - began < 5
    pid = int(text.splitlines()[0])
    assert text.endswith("[a background process goes on; what it prints from now on is lost]")
    assert is_alive(pid)
    box.close()
    assert until(lambda: not is_alive(pid))


def test_kernel_d8_a_command_that_times_out_dies_with_all_it_started(box: Toolbox, root: Path) -> None:
    """At the time limit nothing of the command lives on, not even what ignores TERM or has its own session."""
    command = """
        trap '' TERM
        (trap '' TERM; echo $BASHPID > a.pid; sleep 61) &
        setsid bash -c 'trap "" TERM; echo $$ > b.pid; sleep 62' &
        until [ -s a.pid ] && [ -s b.pid ]; do sleep 0.01; done
        echo started; sleep 63
    """
    text, data = done(box.exec_shell(command, timeout_s=0.6))
    assert text.startswith("ERROR: The command timed out after 0.6 s")
    assert text.endswith("started\n[exit code 124]")
    assert (False, 124, "TIMEOUT") == (data["ok"], data["exit_code"], data["code"])
    for name in ("a.pid", "b.pid"):
        assert not is_alive(int((root / name).read_text())), name


@pytest.mark.parametrize("timeout_s", [0, -1, 3_601, float("nan")])
def test_an_impossible_time_limit_is_refused(box: Toolbox, timeout_s: float) -> None:
    """A limit of nothing, or above the configured maximum, runs nothing."""
    reply = box.exec_shell("echo ran > ran", timeout_s=timeout_s)
    assert isinstance(reply, ToolResult)
    assert "at most 3600 seconds" in reply.content


def test_a_cancelled_command_is_stopped_and_says_what_it_had_printed(box: Toolbox) -> None:
    """The stop signal ends the command; the result is `cancelled` and keeps the output so far."""
    cancel = Cancel()
    threading.Timer(0.2, cancel.cancel, ("enough",)).start()
    reply = box.exec_shell("echo begun; sleep 60", call=ToolContext("1", "k", cancel))
    assert isinstance(reply, ToolResult)
    assert ("cancelled", "ERROR: The command was cancelled.\nbegun") == (reply.status, reply.content)


def test_kernel_d11_any_amount_of_output_is_bounded_and_kept(make: MakeToolbox, root: Path) -> None:
    """100 MB in one line cost no memory; head and tail are shown, and all that fits is in the file named."""
    import resource

    box = make(result_tokens_max=1_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text, data = done(box.exec_shell("echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000
    assert len(text) <= 4_000
    assert text.startswith("first\n")
    assert text.endswith("\nlast")
    assert "truncated" in text
    assert 100_000_012 == os.stat(str(data["spill"])).st_size
    os.unlink(str(data["spill"]))


def test_output_of_any_bytes_is_text(box: Toolbox) -> None:
    """Bytes that are no UTF-8 are replaced, and the rest of the output is kept."""
    text, _ = done(box.exec_shell("printf '\\xff\\xfe ok\\n'; printf 'a\\0b'"))
    assert "�� ok\na\0b" == text


def test_kernel_d7_credentials_are_not_in_the_commands_environment(
    make: MakeToolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys stay with plait; other variables, and credentials that are asked for by name, are passed on."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("GH_PAT", "secret")
    monkeypatch.setenv("HARMLESS_VAR", "seen")
    show = "echo $ANTHROPIC_API_KEY-$GH_PAT-$HARMLESS_VAR-$PAGER-$GIT_TERMINAL_PROMPT"
    assert "--seen-cat-0" == done(make().exec_shell(show))[0]
    assert "-secret-seen-cat-0" == done(make(keep=["GH_PAT"]).exec_shell(show))[0]
    assert (
        "--mine-cat-0"
        == done(make(environment={"HARMLESS_VAR": "mine", "PATH": os.environ["PATH"]}).exec_shell(show))[0]
    )


def test_output_is_shown_while_the_command_runs(make: MakeToolbox) -> None:
    """Whoever watches gets the output before the command has ended."""
    seen = threading.Event()
    pieces: list[str] = []

    def watch(text: str) -> None:
        pieces.append(text)
        seen.set()

    box = make(output=watch)
    replies: list[Reply] = []
    cancel = Cancel()
    thread = threading.Thread(
        target=lambda: replies.append(box.exec_shell("echo early; sleep 60", call=ToolContext("1", "k", cancel)))
    )
    thread.start()
    assert seen.wait(5)
    assert not replies
    cancel.cancel("seen")
    thread.join()
    assert "early\n" == "".join(pieces)


@pytest.mark.parametrize(
    "command, words",
    [("echo 'abc", "[exit code 2]"), ("x" * 300_000, "command is too long"), ("echo \0", "NUL character")],
    ids=["tools-32-open-quote", "tools-33-large-argv", "nul"],
)
def test_a_command_that_is_none_ends_at_once(box: Toolbox, command: str, words: str) -> None:
    """A syntax error, a line too long for the system, and a NUL are told instead of hanging."""
    reply = box.exec_shell(command, timeout_s=5)
    assert words in (reply.content if isinstance(reply, ToolResult) else reply[0])


def test_a_workspace_that_is_gone_is_told(box: Toolbox, root: Path) -> None:
    """When the working directory was removed, the command is refused with that."""
    root.rmdir()
    reply = box.exec_shell("echo hi")
    assert isinstance(reply, ToolResult)
    assert "no such file or directory" in reply.content


def test_a_pager_or_editor_does_not_wait(box: Toolbox) -> None:
    """What would wait for a person at a terminal ends by itself."""
    text, _ = done(
        box.exec_shell("git init -q r && cd r && git -c user.name=a -c user.email=b commit --allow-empty; git log", 10)
    )
    assert "Aborting commit due to empty commit message" in text


def test_sigint_of_the_process_group_is_not_the_commands(box: Toolbox) -> None:
    """A command has a session of its own, so that a terminal's Ctrl-C reaches plait and not the command directly."""
    text, _ = done(box.exec_shell("ps -o sid= -p $$"))
    assert os.getsid(0) != int(text)
    assert signal.getsignal(signal.SIGINT) is not None
