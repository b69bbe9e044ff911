"""What a model is told that has met the fence: only where the words of a failed command say that it did."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.hands.capture import Captured
from plait.hands.command import Finished
from plait.hands.fence.fence import BubblewrapFence
from plait.hands.fence.ground import Ground
from plait.hands.fence.policy import SandboxPolicy
from plait.hands.fence.repositories import Repositories
from plait.tools.fencing import watched

ADVICE = "Ask for more."
NO_GIT = "fatal: not a git repository (or any of the parent directories): .git"


def note_of(work: Path, text: str, exit_code: int = 1, advice: str = ADVICE, **policy: object) -> str:
    """Return the note of a command that wrote a text."""
    fence = BubblewrapFence(SandboxPolicy(work, **policy), Ground(), "bwrap", Repositories(str(work)))  # type: ignore[arg-type]
    done = Finished("exited", exit_code, None, Captured(text.encode(), b"", len(text)), None, 0.0)
    return watched(fence, lambda: done, advice).note


@pytest.mark.parametrize(
    "text",
    [
        "touch: cannot touch '/etc/x': Read-only file system",
        "curl: (6) Could not resolve host: example.org",
        "fatal: unable to access 'https://x/': Could not resolve host: x",
        "OSError: [Errno 101] Network is unreachable",
        "npm error code EAI_AGAIN",
        "cat: /home/somebody/notes: No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: '/root/.cargo/env'",
        "bash: /opt/tool/bin/x: Permission denied",
        "fatal: not a git repository: /home/somebody/main/.git/worktrees/wt",
    ],
)
def test_words_of_the_fence_are_recognised(text: str, tmp_path: Path) -> None:
    """A failed command that says such a thing has what holds under it, and how more is allowed."""
    note = note_of(tmp_path, f"working\n{text}\nmore\n")

    assert f"[sandbox: no network; only {tmp_path}, /tmp can be changed" in note
    assert note.endswith(f"{ADVICE}]")


@pytest.mark.parametrize(
    "text",
    [
        "1 failed, 3 passed",
        "cat: notes: No such file or directory",
        "ls: /usr/x: No such file or directory",
        "",
        NO_GIT,
    ],
)
def test_other_failures_are_left_alone(text: str, tmp_path: Path) -> None:
    """What fails anywhere says nothing of a sandbox; nor does what is a success, or where nobody has advice."""
    inside = f"cat: {tmp_path}/notes: No such file or directory"

    assert ["", "", "", ""] == [
        note_of(tmp_path, text),
        note_of(tmp_path, inside),
        note_of(tmp_path, "Read-only file system", exit_code=0),
        note_of(tmp_path, "Read-only file system", advice=""),
    ]


def test_a_program_that_is_not_there_may_be_one_of_the_home(tmp_path: Path) -> None:
    """The shell's own code for it is told like a path that is hidden, and the note says what the policy allows."""
    note = note_of(tmp_path, "bash: uv: command not found", 127, network=("example.org",), writable_paths=("src",))

    assert f"[sandbox: of the network only example.org; only {tmp_path}/src, /tmp can be changed" in note
