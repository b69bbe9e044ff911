"""What the policies let file tools reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.core.messages import ToolCall, ToolResult
from plait.kernel.tools import ToolContext
from plait.tools.toolbox import Toolbox, ToolboxOptions

from .conftest import MakeToolbox
from .replies import code_of


@pytest.mark.parametrize(
    "policy, read, write",
    [("inside_only", "FORBIDDEN", "FORBIDDEN"), ("read_outside", "ok", "ok"), ("cli", "ok", "FORBIDDEN")],
)
def test_a_policy_says_what_is_reached_beyond_the_workspace(
    make: MakeToolbox, root: Path, policy: str, read: str, write: str
) -> None:
    """Reading and writing outside follow the policy, for absolute paths, for `..` and through links alike."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("x")
    (root / "link").symlink_to(outside)
    box = make(policy=policy)
    for path in (str(outside / "a.txt"), "../outside/a.txt", "link/a.txt"):
        assert (read, write) == (code_of(box.read_file(path)), code_of(box.str_replace(path, "x", "x2"))), path
        (outside / "a.txt").write_text("x")
    assert read == code_of(box.list_dir(str(outside)))
    assert write == code_of(box.write_file(str(outside / "new.txt"), ""))
    assert (write == "ok") == (outside / "new.txt").exists()


def test_the_command_line_says_how_to_allow_a_write_outside(make: MakeToolbox, root: Path) -> None:
    """A write that only lacks a yes is refused with the way to give it."""
    result = make(policy="cli").write_file(str(root.parent / "x"), "")
    assert isinstance(result, ToolResult)
    assert "--yes" in result.content


def test_secret_places_are_refused_under_every_policy(make: MakeToolbox, root: Path, home: Path) -> None:
    """Keys are not read, not written and not reached through a link, wherever reading is allowed."""
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("key")
    (root / "link").symlink_to(home / ".ssh/id")
    box = make(policy="read_outside")
    for path in ("~/.ssh/id", str(home / ".ssh/id"), "link"):
        assert "FORBIDDEN" == code_of(box.read_file(path)), path
    assert "FORBIDDEN" == code_of(box.write_file("~/.ssh/authorized_keys", "mine"))
    assert "FORBIDDEN" == code_of(box.read_file("/proc/self/environ"))


def test_plaits_own_files_are_refused_but_kept_output_is_read(make: MakeToolbox, root: Path) -> None:
    """State and configuration are out of reach; output that was cut is read by the path that the answer names."""
    own = root.parent / "state"
    (own / "sessions/1").mkdir(parents=True)
    (own / "trust.json").write_text("{}")
    box = make(policy="inside_only", own_places=(str(own),), spill_dir=own / "sessions/1/spill", result_tokens_max=500)
    assert "FORBIDDEN" == code_of(box.read_file(str(own / "trust.json")))
    reply = box.exec_shell("seq 1 5000")
    assert not isinstance(reply, ToolResult)
    spilled = str(reply[1]["spill"])
    assert spilled in reply[0]
    lines = box.read_file(spilled, 4_999)
    assert not isinstance(lines, ToolResult)
    assert "4999\n5000\n" == lines[0]
    assert "FORBIDDEN" == code_of(box.write_file(spilled, ""))
    assert (0o600, 0o700) == (
        Path(spilled).stat().st_mode & 0o777,
        (own / "sessions/1/spill").stat().st_mode & 0o777,
    )


def test_an_approver_can_ask_where_a_call_leads(make: MakeToolbox, root: Path, home: Path) -> None:
    """A call is inside, outside or at a secret place by where its path leads, under any name of the tool."""
    (home / ".ssh").mkdir()
    box = make(policy="cli")

    def leads(name: str, **arguments: object) -> str:
        return box.leads(ToolCall.of("1", name, arguments))

    assert "inside" == leads("write_file", path="a.txt", content="")
    assert "outside" == leads("write_file", path="../a.txt", content="")
    assert "outside" == leads("edit_file", path=str(root.parent / "x"), old="", new="")
    assert "secret" == leads("read_file", path="~/.ssh/id")
    assert ("inside", "inside") == (leads("exec_shell", command="ls /"), leads("other", path="/etc"))
    assert "inside" == box.leads(ToolCall("1", "write_file", "{"))


def test_a_yes_to_one_call_is_for_that_call_only(make: MakeToolbox, root: Path, home: Path) -> None:
    """A call that was allowed writes outside, no other does, and not even that one at a secret place."""
    box = make(policy="cli")
    allowed, other = (ToolContext(name, "key", Cancel()) for name in ("allowed", "other"))
    path = str(root.parent / "out.txt")

    def allow(path: str) -> None:
        box.allow_outside("allowed", box.look(ToolCall.of("allowed", "write_file", {"path": path})))

    allow(path)
    assert "FORBIDDEN" == code_of(box.write_file(path, "x", call=other))
    assert "ok" == code_of(box.write_file(path, "x", call=allowed))
    assert "CONFLICT" == code_of(box.edit_file(path, "x", "y", call=allowed))
    allow(path)
    assert "FORBIDDEN" == code_of(box.str_replace(path, "x", "y", call=other))
    assert "ok" == code_of(box.edit_file(path, "x", "y", call=allowed))
    allow("~/.ssh/id")
    assert "FORBIDDEN" == code_of(box.write_file("~/.ssh/id", "x", call=allowed))


def test_a_workspace_inside_a_secret_place_is_open(root: Path) -> None:
    """Whoever works in a place that tools do not touch otherwise has chosen it; the rest of it stays closed."""
    (root / "sub").mkdir()
    (root / "other.txt").write_text("x")
    box = Toolbox(root / "sub", ToolboxOptions(policy="read_outside", own_places=(str(root),)))
    assert "ok" == code_of(box.write_file("a.txt", "x"))
    assert "FORBIDDEN" == code_of(box.read_file("../other.txt"))
    box.close()


def test_a_workspace_that_is_none_is_refused(tmp_path: Path) -> None:
    """A toolbox over a directory that does not exist is not made."""
    with pytest.raises(Refusal, match="cannot open the workspace"):
        Toolbox(tmp_path / "nothing")
