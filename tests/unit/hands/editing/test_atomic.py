"""A replaced file is old or new: after a kill at any step, after any step that fails, and on a full disk."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from plait.core.errors import Refusal
from plait.hands.editing.change import settle
from plait.hands.editing.edit import plan_write
from plait.hands.workspace import Workspace
from tests.unit.hands.ground import Ground, python_environment

_KILL_AT = """
import os, signal, sys
from plait.hands.editing.edit import plan_write
from plait.hands.workspace import Workspace
root, path, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
steps = 0
def strike(_step):
    global steps
    if steps == at:
        os.kill(os.getpid(), signal.SIGKILL)
    steps += 1
with Workspace(root).pin(path, "write") as target:
    plan = plan_write(target, "new" * 1000)
    print(plan.intent.temporary, flush=True)
    plan.apply(before=strike)
"""


_MEANT = {errno.ENOSPC: "TOO_LARGE", errno.EROFS: "FORBIDDEN", errno.EIO: "INTERNAL_SERVER_ERROR"}

_READ_ON = """
import sys
print(flush=True)
while True:
    text = open(sys.argv[1]).read()
    assert len(text) == 50_000 and len(set(text)) == 1
"""


def steps_of(workspace: Workspace, path: str) -> list[str]:
    """The steps that a write takes."""
    steps: list[str] = []
    with workspace.pin(path, "write") as target:
        plan_write(target, "new").apply(before=steps.append)
    return steps


@pytest.mark.parametrize("path", ["old", "d/e/new"])
def test_any_step_may_fail(ground: Ground, workspace: Workspace, path: str) -> None:
    """Whichever step fails with whatever error: a refusal, the old content, no stray file, no new directory."""
    (ground.root / "old").write_text("old")
    steps = steps_of(workspace, path)
    last = steps.index("rename")
    for number in range(last + 1):
        for code, refusal in (
            (errno.ENOSPC, "TOO_LARGE"),
            (errno.EROFS, "FORBIDDEN"),
            (errno.EIO, "INTERNAL_SERVER_ERROR"),
        ):
            (ground.root / "old").write_text("old")
            subprocess.run(["rm", "-rf", str(ground.root / "d")], check=True)
            count = 0

            def fail(_step: str, number: int = number, code: int = code) -> None:
                nonlocal count
                count += 1
                if count == number + 1:
                    raise OSError(code, os.strerror(code))

            with workspace.pin(path, "write") as target, pytest.raises(Refusal) as caught:
                plan_write(target, "new").apply(before=fail)
            assert (refusal, ["old"]) == (caught.value.refusal, os.listdir(ground.root))
            assert "old" == (ground.root / "old").read_text()


def test_an_interrupt_leaves_no_stray(ground: Ground, workspace: Workspace) -> None:
    """Ctrl-C at any step before the rename takes everything back."""
    (ground.root / "old").write_text("old")

    def interrupt(step: str) -> None:
        if step == "check":
            raise KeyboardInterrupt

    with workspace.pin("old", "write") as target, pytest.raises(KeyboardInterrupt):
        plan_write(target, "new").apply(before=interrupt)
    assert (["old"], "old") == (os.listdir(ground.root), (ground.root / "old").read_text())


@pytest.mark.parametrize("path", ["f", "d/f"])
def test_a_kill_at_any_step_leaves_old_or_new(ground: Ground, workspace: Workspace, path: str) -> None:
    """After SIGKILL at each step the content is whole, and the intent cleans up what was left."""
    (ground.root / "f").write_text("old")
    for number in range(len(steps_of(workspace, path)) + 1):
        (ground.root / "f").write_text("old")
        subprocess.run(["rm", "-rf", str(ground.root / "d")], check=True)
        done = subprocess.run(
            [sys.executable, "-S", "-c", _KILL_AT, str(ground.root), path, str(number)],
            env=python_environment(),
            capture_output=True,
            text=True,
        )
        assert done.returncode in {0, -signal.SIGKILL}
        file = ground.root / path
        content = file.read_text() if file.exists() else None
        assert content in {"old" if path == "f" else None, "new" * 1000}
        with workspace.pin(path) as target:
            intent = plan_write(target, "new" * 1000).intent
            settled = settle(target, type(intent)(path, "?", intent.after, done.stdout.strip()))
        assert ("applied" if content == "new" * 1000 else "changed") == settled
        assert not [name for _, _, names in os.walk(ground.root) for name in names if name.startswith(".plait")]


def test_a_full_disk_keeps_the_old_content(small_disk: Path) -> None:
    """Without room for the new content the old one stays, and the refusal says why."""
    (small_disk / "f").write_text("old")
    workspace = Workspace(small_disk)
    with workspace.pin("f", "write") as target, pytest.raises(Refusal, match="no space is left") as caught:
        plan_write(target, "x" * 2_000_000).apply()
    workspace.close()
    assert ("TOO_LARGE", ["f"], "old") == (
        caught.value.refusal,
        os.listdir(small_disk),
        (small_disk / "f").read_text(),
    )


def test_a_read_only_place_is_refused(ground: Ground, as_ordinary_user: Callable[..., str]) -> None:
    """A directory that may not be written to is refused in words, and nothing is made."""
    (ground.root / "shut").mkdir()
    (ground.root / "shut/f").write_text("old")
    (ground.root / "shut").chmod(0o555)
    code = """
import sys
from plait.core.errors import Refusal
from plait.hands.editing.edit import plan_write
from plait.hands.workspace import Workspace
for path in ("shut/f", "shut/new", "shut/d/new"):
    try:
        with Workspace(sys.argv[1]).pin(path, "write") as target:
            plan_write(target, "new").apply()
    except Refusal as refusal:
        print(refusal.refusal)
"""
    assert "FORBIDDEN\n" * 3 == as_ordinary_user(code, str(ground.root))
    assert (["f"], "old") == (os.listdir(ground.root / "shut"), (ground.root / "shut/f").read_text())


def test_a_reader_never_sees_half_a_file(ground: Ground, workspace: Workspace) -> None:
    """While a file is replaced again and again, another process reads only whole contents."""
    (ground.root / "f").write_text("a" * 50_000)
    reader = subprocess.Popen(
        [sys.executable, "-S", "-c", _READ_ON, str(ground.root / "f")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert reader.stdout is not None
    reader.stdout.readline()
    for number in range(30):
        with workspace.pin("f", "write") as target:
            plan_write(target, "ab"[number % 2] * 50_000).apply()
    assert reader.poll() is None
    reader.kill()
    assert b"" == reader.communicate()[1]
