"""A toolbox whose fence comes late: made when the first command asks for it, and around commands alone."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from plait.hands.fence.late import LateFence
from plait.hands.fence.policy import SandboxPolicy
from plait.kernel.tools import Tool
from plait.session.confining import Confinement, Seat
from plait.tools.answer import as_answer
from plait.tools.fenced_calls import fenced
from plait.tools.toolbox import Toolbox, ToolboxOptions

LEVEL = "bubblewrap+seccomp+landlock"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a folder with something in it that stays as it is, and something that programs obey."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    for name in ("vendor", ".github/workflows"):
        (tmp_path / "work" / name).mkdir(parents=True)
    return tmp_path / "work"


def box_of(late: LateFence, root: Path, **more: Any) -> Toolbox:
    """Return a toolbox with a late fence."""
    return Toolbox(root, ToolboxOptions(policy="read_outside", late_fence=late, **more))


def test_commands_are_inside_and_file_tools_keep_to_what_is_named(work: Path) -> None:
    """Nothing is tried before a command; file tools change what a command could not, but for what the policy names."""
    late = LateFence(SandboxPolicy(work, read_only_paths=("vendor",)))
    late.scratch = lambda: str(scratch)
    scratch = work.parent / "scratch"
    scratch.mkdir()
    box = box_of(late, work)
    try:
        wrote = [
            as_answer(box.write_file(path, "x"))[1].get("ok", True)
            for path in ("a", "vendor/b", ".github/workflows/c.yml", str(work.parent / "out"))
        ]
        before = late.level
        text, data = as_answer(box.exec_shell(f"touch {scratch}/s .github/workflows/d.yml {work.parent}/e vendor/f"))
        job = as_answer(box.background.nohup("true"))[1]
    finally:
        box.close()

    assert ([True, False, True, True], None) == (wrote, before)
    assert (LEVEL, LEVEL, True) == (data["sandbox"], job["sandbox"], (scratch / "s").exists())
    assert 2 == text.count("Read-only file system")
    assert ["c.yml"] == [path.name for path in (work / ".github/workflows").iterdir()]


def test_without_one_commands_run_and_say_so(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is told once, however many ask at the same time; every result says `none`, a tool's of its own too."""
    monkeypatch.setenv("PATH", str(work))
    told: list[str] = []
    late = LateFence(SandboxPolicy(work), missing=told.append)
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda _: late.found(), range(8))]
    box = box_of(late, work)
    try:
        levels = [
            as_answer(box.exec_shell("true"))[1]["sandbox"],
            as_answer(box.background.nohup("true"))[1]["sandbox"],
            as_answer(fenced(Tool("own", "d", json.loads, sandbox=lambda _: ["/bin/true"]), box.shell).fn())[1][
                "sandbox"
            ],
        ]
    finally:
        box.close()

    assert ([None] * 8, ["none"] * 3, "none") == (found, levels, late.level)
    assert ["no sandbox can be made here: 'bwrap' is not installed"] == told


def test_where_there_can_be_no_policy_there_is_no_fence() -> None:
    """The reason is the one that was given."""
    told: list[str] = []
    late = LateFence(None, reason="because", missing=told.append)

    assert (None, ["because"], "none") == (late.found(), told, late.level)


def test_a_workspace_that_is_in_the_way_has_no_command_run(work: Path) -> None:
    """A link that a fence cannot be closed around takes no fence away: who says yes to all gets a refusal, too."""
    (work / ".vscode").symlink_to("/proc/1/root")
    told: list[str] = []
    late = LateFence(SandboxPolicy(work), missing=told.append)
    own, box = Tool("own", "d", json.loads, sandbox=lambda _: ["/usr/bin/touch", "ran"]), box_of(late, work)
    is_fenced = Seat(confinement=Confinement("auto", late)).is_fenced(own)
    try:
        said = [
            as_answer(box.exec_shell("touch ran"))[0],
            as_answer(box.background.nohup("touch ran"))[0],
            as_answer(fenced(own, box.shell).fn())[0],
        ]
    finally:
        box.close()

    assert (True, None, True, 1) == (is_fenced, late.found(), late.is_barred, len(told))
    assert all("around this folder" in text for text in said)
    assert not (work / "ran").exists()
