"""Fences on this machine: X10 to X16, each promise tried from inside, and nothing without one."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.hands.command import Command, Finished, RunOptions
from plait.hands.fence.fence import BubblewrapFence, Fence, LandlockFence, open_fence
from plait.hands.fence.policy import ResourceLimits, SandboxPolicy
from plait.hands.fence.probe import prove_fence
from plait.hands.process import run
from plait.hands.process_tree import Tree


def inside(fence: Fence, command: str, cancel: Cancel | None = None, **more: object) -> Finished:
    """Run a command line behind a fence."""
    options = RunOptions(
        cwd=fence.policy.root,
        environment=fence.environment({**os.environ, "PATH": "/usr/bin:/bin"}),
        timeout_s=20,
        separates_errors=True,
        fence=fence,
    )
    return run(Command.shell(command), replace(options, **more), cancel)  # type: ignore[arg-type]


def test_every_promise_holds_with_bubblewrap(workspace: Path) -> None:
    """X10–X14: a process that tries to break each promise breaks none, as whoever runs this test."""
    proof = prove_fence(SandboxPolicy(workspace))

    assert [] == [promise for promise in proof.promises if promise.verdict != "proved"]
    assert (True, "bubblewrap+seccomp+landlock", 26) == (proof.holds, proof.level, len(proof.promises))
    assert proof is prove_fence(SandboxPolicy(workspace.parent))  # once a process


def test_with_landlock_alone_what_is_promised_holds(workspace: Path) -> None:
    """Without bubblewrap a policy may settle for less, and is told what it does not get."""
    proof = prove_fence(SandboxPolicy(workspace, landlock_alone=True), binary="no-such-bwrap")

    assert (True, "landlock+seccomp") == (proof.holds, proof.level)
    missing = {promise.promise for promise in proof.promises if promise.verdict == "not available"}
    assert {"git's hooks and settings stay as they are", "others are not seen", "nothing is left running"} <= missing
    assert "no TCP" not in missing


@pytest.mark.parametrize("reason", ["missing", "forbidden", "planted", "loader"])
def test_without_a_fence_nothing_runs(reason: str, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X15, X16: no fence is a refusal that says what to do, and a bwrap of the workspace's own is not even tried."""
    ran = workspace / "ran"
    fake = (workspace if reason == "planted" else workspace.parent) / "bwrap"
    fake.write_text(f"#!/bin/sh\ntouch {ran}\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    if reason in ("forbidden", "planted"):
        monkeypatch.setenv("PATH", str(fake.parent))
    environment = {"LD_PRELOAD": "x"} if reason == "loader" else None

    with pytest.raises(Refusal) as caught:
        open_fence(
            SandboxPolicy(workspace, environment=environment),
            binary="no-such-bwrap" if reason == "missing" else "bwrap",
        )

    said = {"missing": "not installed", "planted": "not installed", "forbidden": "No permissions", "loader": "LD_PRE"}
    assert said[reason] in caught.value.message
    assert caught.value.hint
    assert reason == "forbidden" or not ran.exists()


def test_a_fork_bomb_is_bounded_and_ends_with_the_call(workspace: Path) -> None:
    """X13: it fills its own fence, the machine stays, and after the time limit nothing of it lives."""
    fence = open_fence(SandboxPolicy(workspace, limits=ResourceLimits(processes=60)))
    mark = os.urandom(8).hex()
    bomb = 'bomb() { echo . >> forked; trap "" TERM HUP; bomb & bomb & wait; }; bomb'
    began = time.monotonic()

    done = inside(fence, bomb, timeout_s=1.0, grace_s=0.1, mark=mark)

    assert "timed_out" == done.end
    assert [] == Tree(0, mark).members()
    assert (workspace / "forked").stat().st_size < 2 * 5_000
    assert time.monotonic() - began < 10


def test_a_command_that_is_cancelled_ends_with_its_daemons(workspace: Path) -> None:
    """X13: double forks and own sessions end with the fence; TERM comes to the command, not to the fence."""
    fence = open_fence(SandboxPolicy(workspace))
    mark, cancel = os.urandom(8).hex(), Cancel()

    def stop(text: str, _stream: str) -> None:
        if "ready" in text:
            cancel.cancel("enough")

    done = inside(
        fence,
        "trap 'echo bye; exit' TERM; (setsid sh -c 'sleep 60 & sleep 60' &); echo ready; sleep 60 & wait",
        cancel,
        mark=mark,
        on_output=stop,
    )

    assert ("cancelled", "ready\nbye\n") == (done.end, done.output.head)
    assert [] == Tree(0, mark).members()


def test_names_that_are_links_lead_nowhere(workspace: Path) -> None:
    """A kept name that is a link out of the workspace makes nothing outside visible, and stops no command."""
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (workspace / ".git").mkdir()
    for name in (".plait", ".claude", ".git/hooks"):
        (workspace / name).symlink_to(outside)
    (workspace / ".mcp.json").symlink_to("inside.json")
    (workspace / "inside.json").write_text("{}")
    fence = open_fence(SandboxPolicy(workspace))

    done = inside(fence, "cat .plait/secret .claude/secret .git/hooks/secret; echo x > .mcp.json; cat inside.json")

    assert ("{}", 3) == (done.output.head, (done.errors or done.output).head.count("No such file"))
    assert "Read-only" in (done.errors or done.output).head


def test_a_home_as_workspace_shows_no_keys(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Places of keys are empty inside even where they lie in the workspace, and cannot be replaced."""
    monkeypatch.setenv("HOME", str(workspace))
    (workspace / ".ssh").mkdir()
    (workspace / ".ssh/id").write_text("key")
    (workspace / ".netrc").write_text("password")
    fence = open_fence(SandboxPolicy(workspace))

    done = inside(fence, "ls -A .ssh; cat .netrc; echo x > .ssh/id; mv .ssh moved; rm -f .netrc; ls -A")

    assert ".netrc\n.ssh\n" == done.output.head
    assert ("key", "password") == ((workspace / ".ssh/id").read_text(), (workspace / ".netrc").read_text())


def test_what_a_background_child_holds_open_ends_with_the_command(workspace: Path) -> None:
    """A fence ends with its command: what it leaves in the background does not go on."""
    fence = open_fence(SandboxPolicy(workspace))
    mark = os.urandom(8).hex()

    done = inside(fence, "sleep 60 & echo done", mark=mark, leftovers="kill")

    assert ("exited", 0, "done\n", None) == (done.end, done.exit_code, done.output.head, done.leftover)
    assert [] == Tree(0, mark).members()


def test_two_kinds_say_what_they_are(workspace: Path) -> None:
    """The level names the parts that are there."""
    fence = open_fence(SandboxPolicy(workspace))
    assert isinstance(fence, BubblewrapFence)

    assert "bubblewrap+seccomp" == replace(fence, ground=replace(fence.ground, landlock=0)).level
    assert "landlock+seccomp" == LandlockFence(fence.policy, fence.ground, "/tmp", fence.repositories).level
    without = replace(fence, ground=replace(fence.ground, landlock=0))
    assert 0 == inside(without, "touch made").exit_code
