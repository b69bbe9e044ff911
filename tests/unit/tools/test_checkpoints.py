"""What files held before they were changed, and the way back to it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.core.facts import Fact, ToolEnd, ToolStart
from plait.core.messages import ToolResult
from plait.hands.editing.snippets import Replacement
from plait.kernel.tools import ToolContext
from plait.tools.answer import Reply
from plait.tools.changes import Changes
from plait.tools.checkpoints import NOTHING, Checkpointer
from plait.tools.toolbox import Toolbox, ToolboxOptions

from .replies import done


@pytest.fixture
def kept(root: Path, tmp_path: Path) -> Iterator[Toolbox]:
    """Return the tools over a workspace, with earlier contents kept in memory."""
    box = Toolbox(root, ToolboxOptions(policy="inside_only"))
    box.keep_checkpoints()
    yield box
    box.close()


def tree(root: Path) -> dict[str, tuple[object, int]]:
    """Return everything below a folder: content and permissions of files, links by where they lead."""
    found: dict[str, tuple[object, int]] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content: object = os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
        found[str(path.relative_to(root))] = content, 0 if path.is_symlink() else stat.S_IMODE(status.st_mode)
    return found


def test_e6_files_are_as_they_were_and_new_ones_are_gone(kept: Toolbox, root: Path) -> None:
    """Overwritten, created, edited, patched, moved and deleted files are restored, with modes and directories."""
    (root / "a").write_bytes(b"a\r\n\xff")
    (root / "run.sh").write_text("one\n")
    (root / "run.sh").chmod(0o755)
    (root / "gone").write_text("gone\n")
    (root / "gone").chmod(0o640)
    (root / "link").symlink_to("run.sh")
    before = tree(root)
    done(kept.write_file("a", "new"))
    done(kept.write_file("deep/er/b", "new"))
    done(kept.str_replace("link", "one", "two"))
    done(kept.edit_file("run.sh", "two", "three"))
    done(kept.write_file("deep/er/b", "newer"))
    patch = (
        "*** Begin Patch\n*** Delete File: gone\n*** Update File: run.sh\n*** Move to: walk.sh\n@@\n-three\n+four\n"
        "*** Add File: c\n+c\n*** End Patch\n"
    )
    done(kept.patching.apply_patch(patch))

    text, data = done(kept.checkpoints.tool())

    assert before == tree(root)
    assert (True, 0, []) == (data["ok"], len(data["left"]), list(kept.checkpoints.pending()))  # type: ignore[arg-type]
    assert data["restored"] == len(data["files"]) == text.count("\n- ")  # type: ignore[arg-type]
    assert "- deep/er/b: removed" in text
    assert NOTHING == done(kept.checkpoints.tool())[0]


def test_what_somebody_else_has_changed_is_left_alone_and_said(kept: Toolbox, root: Path) -> None:
    """Another's work is not overwritten, a directory with something in it stays, and everything else goes back."""
    (root / "a").write_text("a")
    for path in ("a", "d/b", "c"):
        done(kept.write_file(path, "plait's"))
    (root / "c").write_text("the user's")
    (root / "d/theirs").write_text("x")

    text, data = done(kept.checkpoints.tool())

    assert ("a", "the user's") == ((root / "a").read_text(), (root / "c").read_text())
    assert ["theirs"] == [path.name for path in (root / "d").iterdir()]
    assert "- c: not rolled back, somebody else has changed it since" in text
    assert ({"c": "changed"}, 2) == (data["left"], data["restored"])
    assert ("c",) == kept.checkpoints.pending()
    (root / "c").write_text("plait's")
    assert "Rolled back 1 file(s)" in done(kept.checkpoints.tool())[0]
    assert not (root / "c").exists()


def test_a_refused_change_is_not_pending(kept: Toolbox, root: Path) -> None:
    """What was not written needs no way back; what was written before stays pending as it was."""
    (root / "a").write_text("x\nx\n")
    kept.edit_file("a", "x", "y")
    kept.write_file("../outside", "x")
    assert () == kept.checkpoints.pending()
    done(kept.write_file("a", "one"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plait.hands.editing.atomic.os.rename", _fail)
        assert isinstance(kept.write_file("a", "two"), ToolResult)
    assert 1 == kept.checkpoints.rollback()
    assert "x\nx\n" == (root / "a").read_text()


def _fail(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_without_checkpoints_nothing_is_kept(root: Path) -> None:
    """A toolbox that keeps nothing has nothing pending, and says that there is nothing to roll back."""
    box = Toolbox(root, ToolboxOptions(policy="inside_only"))
    done(box.write_file("a", "x"))
    assert (NOTHING, "x") == (done(box.checkpoints.tool())[0], (root / "a").read_text())
    box.close()


def test_a_program_records_for_itself(tmp_path: Path) -> None:
    """`record` keeps the earliest content, whatever happens afterwards; links lead no further than the directory."""
    checkpointer = Checkpointer(tmp_path / "in") if (tmp_path / "in").mkdir() is None else None
    assert checkpointer is not None
    inside = tmp_path / "in"
    (inside / "a").write_text("first")
    (inside / "a").chmod(0o600)
    (tmp_path / "out").write_text("out")
    (inside / "out").symlink_to(tmp_path / "out")
    checkpointer.record("a")
    (inside / "a").write_text("second")
    (inside / "a").chmod(0o666)
    checkpointer.record(str(inside / "a"))
    (inside / "a").write_text("third")
    checkpointer.record("new")
    (inside / "new").write_text("new")
    checkpointer.record("never")
    assert ("never", "new", "a") == checkpointer.pending()
    with pytest.raises(Refusal, match="escapes"):
        checkpointer.record("out")
    (inside / "new").unlink()
    (inside / "new").symlink_to(tmp_path / "out")

    assert 2 == checkpointer.rollback()  # "never" was never there, and a link that somebody put there stays

    assert ("first", 0o600) == ((inside / "a").read_text(), stat.S_IMODE((inside / "a").stat().st_mode))
    assert ("out", True) == ((tmp_path / "out").read_text(), (inside / "new").is_symlink())


class Life:
    """Calls of a session as its journal tells them, and the tools that carry them out."""

    def __init__(self, root: Path, folder: Path, facts: list[Fact]) -> None:
        self.box = Toolbox(root, ToolboxOptions(policy="inside_only"))
        self.box.keep_versions(folder)
        self.box.checkpoints.follow(facts)
        self.facts = facts

    def call(self, name: str, *, dies: bool = False, **keywords: object) -> Reply | None:
        """Make a call: its intent is a fact before it begins, its end is one afterwards unless the process dies."""
        recovery = self.box.recovery(name)
        assert recovery is not None
        number = f"c{len(self.facts)}"
        intent = recovery.intend(keywords, ToolContext(number, "k", Cancel()))
        self.facts.append(ToolStart(number, intent=intent))
        context = ToolContext(number, "k", Cancel(), intent=intent)
        fn = self.box.checkpoints.tool if name == "rollback" else getattr(self.box, name)
        reply: Reply = fn(**keywords, call=context)
        if dies:
            return None
        self.end(number, reply)
        return reply

    def end(self, number: str, reply: Reply) -> None:
        """Record an end."""
        result = reply if isinstance(reply, ToolResult) else ToolResult(number, reply[0], data=reply[1])
        end = ToolEnd(ToolResult(number, result.content, result.is_error, result.data, result.status))
        self.facts.append(end)
        self.box.checkpoints.follow(self.facts[-1:])

    def settle(self) -> Reply:
        """Find out in this process what became of the last call of the one that died."""
        start = self.facts[-1]
        assert isinstance(start, ToolStart)
        name = "rollback" if start.intent and "temporaries" in start.intent else "write_file"
        recovery = self.box.recovery(name)
        assert recovery is not None
        reply: Reply = recovery.settle({}, ToolContext(start.call_id, "k", Cancel(), intent=start.intent))
        self.end(start.call_id, reply)
        return reply


def test_a_rollback_that_died_is_gone_on_with(root: Path, tmp_path: Path) -> None:
    """After a death at any step the next process finishes it, whatever was done; nothing else is left behind."""
    (root / "a").write_text("a")
    (root / "b").write_text("b")
    (root / "b").chmod(0o755)
    before = tree(root)
    facts: list[Fact] = []
    life = Life(root, tmp_path / "kept", facts)
    for path in ("a", "b", "d/c"):
        life.call("write_file", path=path, content=f"new {path}")
    changed = list(facts)
    steps: list[str] = []
    for step in ("os.open", "os.fsync", "os.rename", "os.unlink", "os.rmdir"):
        for nth in range(4):
            _restore(root, before)
            again = Life(root, tmp_path / "kept", list(changed[:0]))
            for path in ("a", "b", "d/c"):
                again.call("write_file", path=path, content=f"new {path}")
            died = _dies_at(again, step, nth)
            steps.append(f"{step} {nth} {died}")
            after = Life(root, tmp_path / "kept", again.facts)
            if died:
                assert isinstance(done(after.settle())[0], str)
            assert (before, ()) == (tree(root), after.box.checkpoints.pending()), steps[-1]
            assert NOTHING == done(after.call("rollback") or ("", {}))[0]
            for each in (again, after):
                each.box.close()
    assert sum(step.endswith("True") for step in steps) > 8
    life.box.close()


class _Died(BaseException):
    """The process ends here."""


def _dies_at(life: Life, step: str, nth: int) -> bool:
    """Roll back, and die just before the nth call of a system function beside the one that only looks."""
    import plait.hands.editing.atomic as atomic
    import plait.tools.undo as undo

    module, name = (undo, "rmdir") if step == "os.rmdir" else (atomic, step.removeprefix("os."))
    real, seen = getattr(os, name), iter(range(10_000))

    def dying(*args: object, **keywords: object) -> object:
        if next(seen) == nth:
            raise _Died
        return real(*args, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.os, name, dying)
        # What cleans up after an error does not run in a process that is killed.
        patch.setattr(atomic.AtomicWrite, "_take_back", lambda self: None)
        try:
            life.call("rollback")
        except _Died:
            return True
    return False


def _restore(root: Path, before: dict[str, tuple[object, int]]) -> None:
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for name, (content, mode) in before.items():
        assert isinstance(content, bytes)
        (root / name).write_bytes(content)
        (root / name).chmod(mode)


def test_what_is_pending_is_read_off_the_facts(root: Path, tmp_path: Path) -> None:
    """Another process knows what was changed, rolls back what an earlier one did, and records that it did."""
    (root / "a").write_text("a")
    first = Life(root, tmp_path / "kept", [])
    first.call("write_file", path="a", content="one")
    first.call("write_file", path="b/c", content="two", dies=True)
    first.box.close()
    second = Life(root, tmp_path / "kept", first.facts)
    second.settle()
    assert ("b/c", "a") == second.box.checkpoints.pending()
    second.call("rollback")
    second.box.close()
    third = Life(root, tmp_path / "kept", second.facts)
    assert (["a"], ()) == ([str(path.relative_to(root)) for path in root.rglob("*")], third.box.checkpoints.pending())
    third.box.close()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["write", "edit", "delete", "move", "rollback", "theirs"]),
            st.sampled_from(["a", "b", "d/c", "link"]),
            st.sampled_from("xyz"),
        ),
        max_size=12,
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_was_done_a_rollback_leads_back(tmp_path: Path, steps: list[tuple[str, str, str]]) -> None:
    """After any changes by tools a rollback gives every file its content of the last one, or names what it leaves."""
    root = Path(os.path.realpath(tmp_path)) / "w"
    if root.exists():
        _restore_links(root)
    root.mkdir(exist_ok=True)
    (root / "a").write_text("a")
    (root / "link").symlink_to("a")
    box = Toolbox(root, ToolboxOptions(policy="inside_only"))
    box.keep_checkpoints()
    before, theirs = tree(root), False
    for what, path, text in steps:
        if what == "write":
            box.write_file(path, text)
        elif what == "edit" and (root / path).exists():
            box.files.str_replace(path, Replacement((root / path).read_text(), text + "!", "first"))
        elif what == "delete":
            box.patching.apply_patch(f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch")
        elif what == "move":
            box.patching.apply_patch(f"*** Begin Patch\n*** Update File: {path}\n*** Move to: m{text}\n*** End Patch")
        elif what == "theirs" and (root / path).exists():
            (root / path).write_text(f"theirs {text}")
            theirs = True
        elif what == "rollback":
            box.checkpoints.tool()
            if theirs:
                break
            assert before == tree(root)
    data = done(box.checkpoints.tool())[1]
    box.close()
    assert theirs or (before, {}) == (tree(root), data["left"])


def _restore_links(root: Path) -> None:
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_changes_that_come_to_nothing_are_none() -> None:
    """A fold of no facts, and of a call that failed, has nothing to take back."""
    changes = Changes()
    intent = {"path": "a", "before": None, "after": "0" * 64, "temporary": "", "root": "r"}
    changes.take(ToolStart("c", intent=intent))
    changes.take(ToolEnd(ToolResult("c", "no", is_error=True, status="error")))
    assert [] == changes.net
