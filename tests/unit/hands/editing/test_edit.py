"""Edits and writes: exact, whole or not at all, with everything else in the file as it was."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from plait.core.errors import Refusal
from plait.hands.editing.change import WriteIntent, Written, settle
from plait.hands.editing.edit import plan_edit, plan_write
from plait.hands.editing.locks import FileLocks
from plait.hands.editing.snippets import Replacement
from plait.hands.workspace import Workspace
from tests.unit.hands.ground import Ground


def edit(workspace: Workspace, path: str, *replacements: Replacement, **options: object) -> Written:
    """Edit a file."""
    with workspace.pin(path, "write") as target:
        return plan_edit(target, replacements, **options).apply()  # type: ignore[arg-type]


def write(workspace: Workspace, path: str, content: str, **options: object) -> Written:
    """Write a file."""
    with workspace.pin(path, "write") as target:
        return plan_write(target, content, **options).apply()  # type: ignore[arg-type]


def refused(call: Callable[[], object]) -> Refusal:
    """The refusal of a call."""
    with pytest.raises(Refusal) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    "before, old, new, after",
    [
        (b"a\r\nb\r\n", "a\nb", "x\ny", b"x\r\ny\r\n"),
        (b"a\nb\r\nc\rd\n", "a", "A", b"A\nb\r\nc\rd\n"),
        (b"\xef\xbb\xbfimport os\n", "import os", "import sys", b"\xef\xbb\xbfimport sys\n"),
        (b"a\nb", "b", "c", b"a\nc"),
        (b"caf\xe9\nb\n", "b", "c", b"caf\xe9\nc\n"),
        (b"\xff\xfe" + "hi\n".encode("utf-16-le"), "hi", "ho", b"\xff\xfe" + "ho\n".encode("utf-16-le")),
        ("don\u2019t".encode(), "\u2019", "\u2019\u2019", "don\u2019\u2019t".encode()),
        (b"a$1\\1b", "a", "\\g<0>$&", b"\\g<0>$&$1\\1b"),
        (b"a\r\n", "a", "1\n2\n3", b"1\r\n2\r\n3\r\n"),
    ],
)
def test_only_the_snippet_changes(
    *, ground: Ground, workspace: Workspace, before: bytes, old: str, new: str, after: bytes
) -> None:
    """Newlines, byte order marks, encodings, the missing last newline and broken bytes elsewhere stay."""
    (ground.root / "f").write_bytes(before)
    edit(workspace, "f", Replacement(old, new))
    assert after == (ground.root / "f").read_bytes()


@given(st.text(alphabet="ab\n", max_size=30), st.text(alphabet="ab\n", min_size=1, max_size=3), st.text(max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_edit_is_str_replace(ground: Ground, workspace: Workspace, content: str, old: str, new: str) -> None:
    """What an edit makes of a file is what `str.replace` makes of its text, for one and for all."""
    if old == new or "\0" in new or "\r" in new or any("\ud800" <= c <= "\udfff" for c in new):
        return
    (ground.root / "f").write_bytes(content.encode())
    with workspace.pin("f", "write") as target:
        if old not in content:
            assert 0 == refused(lambda: plan_edit(target, [Replacement(old, new, "all")])).details["occurrences"]
            return
        every = plan_edit(target, [Replacement(old, new, "all")])
        first = plan_edit(target, [Replacement(old, new, "first")])
    assert content.replace(old, new).encode() == every.data
    assert content.replace(old, new, 1).encode() == first.data
    assert (content.count(old), content.count(old)) == (every.replaced[0].occurrences, every.replaced[0].replaced)
    assert (content.count(old), 1) == (first.replaced[0].occurrences, first.replaced[0].replaced)


def test_a_literal_edit_changes_no_newline(ground: Ground, workspace: Workspace) -> None:
    """The strict tools insert text literally: LF goes into a CRLF file as LF."""
    (ground.root / "f").write_bytes(b"a\r\nb\r\n")
    edit(workspace, "f", Replacement("a", "1\n2"), newlines="literal")
    assert b"1\n2\r\nb\r\n" == (ground.root / "f").read_bytes()


def test_an_ambiguous_snippet_is_refused_with_its_lines(ground: Ground, workspace: Workspace) -> None:
    """Where the snippet must be unique, the refusal counts and places it, and the file is as it was."""
    (ground.root / "f").write_text("x\ny\nx\n")
    refusal = refused(lambda: edit(workspace, "f", Replacement("x", "z")))
    assert ("CONFLICT", 2, [1, 3]) == (refusal.refusal, refusal.details["occurrences"], refusal.details["lines"])
    assert "not unique" in refusal.message
    assert "x\ny\nx\n" == (ground.root / "f").read_text()


def test_several_edits_are_all_or_none(ground: Ground, workspace: Workspace) -> None:
    """One snippet that is missing leaves the file as it was, and the refusal says which one."""
    (ground.root / "f").write_text("a b")
    refusal = refused(lambda: edit(workspace, "f", Replacement("a", "b"), Replacement("zzz", "y")))
    assert "snippet 2 of 2 is not in 'f'" == refusal.message
    assert "a b" == (ground.root / "f").read_text()
    edit(workspace, "f", Replacement("a", "c"), Replacement("c b", "d"))
    assert "d" == (ground.root / "f").read_text()


@pytest.mark.parametrize(
    "content, replacement, code",
    [
        (b"abc", Replacement("", "X", "all"), "INVALID_INPUT"),
        (b"abc", Replacement("a", "a"), "INVALID_INPUT"),
        (b"abc", Replacement("a", "\ud800"), "INVALID_INPUT"),
        (b"abc", Replacement("a", "\0"), "INVALID_INPUT"),
        (b"abc", Replacement("zzz", "a"), "CONFLICT"),
        (b"a\0c", Replacement("a", "b"), "UNSUPPORTED_CONTENT"),
        (b"caf\xe9", Replacement("c", "\u00e9"), "UNSUPPORTED_CONTENT"),
    ],
)
def test_edits_that_make_no_sense_are_refused(
    ground: Ground, workspace: Workspace, content: bytes, replacement: Replacement, code: str
) -> None:
    """An empty snippet, no change, half a character, a binary file: refused, and the file is as it was."""
    (ground.root / "f").write_bytes(content)
    assert code == refused(lambda: edit(workspace, "f", replacement)).refusal
    assert content == (ground.root / "f").read_bytes()


def test_what_is_no_file_cannot_be_edited(ground: Ground, workspace: Workspace) -> None:
    """Missing files, directories and pipes are refused before anything is opened for writing."""
    os.mkfifo(ground.root / "pipe")
    codes = [refused(lambda p=path: edit(workspace, p, Replacement("a", "b"))).refusal for path in ("no", ".", "pipe")]  # type: ignore[misc]
    assert ["NOT_FOUND", "INVALID_INPUT", "UNSUPPORTED_CONTENT"] == codes
    assert "INVALID_INPUT" == refused(lambda: write(workspace, ".", "x")).refusal


def test_a_huge_file_is_not_loaded(ground: Ground, workspace: Workspace) -> None:
    """A sparse terabyte is refused by its size."""
    with (ground.root / "f").open("wb") as file:
        file.truncate(1 << 40)
    assert "TOO_LARGE" == refused(lambda: edit(workspace, "f", Replacement("a", "b"))).refusal


def test_an_explosion_is_refused(ground: Ground, workspace: Workspace) -> None:
    """A replacement that would make a file enormous is refused before it is made."""
    (ground.root / "f").write_text("a" * 10_000)
    assert "TOO_LARGE" == refused(lambda: edit(workspace, "f", Replacement("a", "b" * 100_000, "all"))).refusal


def test_the_expected_version_is_a_guard(ground: Ground, workspace: Workspace) -> None:
    """With a digest, a change lands only on that version; digests chain from one change to the next."""
    (ground.root / "f").write_text("a")
    first = edit(workspace, "f", Replacement("a", "b"), expected_sha256=hashlib.sha256(b"a").hexdigest())
    second = edit(workspace, "f", Replacement("b", "c"), expected_sha256=first.sha256)
    refusal = refused(lambda: edit(workspace, "f", Replacement("c", "d"), expected_sha256=first.sha256))
    assert ("CONFLICT", second.sha256) == (refusal.refusal, refusal.details["sha256"])
    assert "CONFLICT" == refused(lambda: write(workspace, "new", "x", expected_sha256=first.sha256)).refusal


def test_a_write_makes_its_directories_and_names_them(ground: Ground, workspace: Workspace) -> None:
    """A plan touches nothing; what it makes is known before, and is what is made."""
    (ground.root / "a").mkdir()
    with workspace.pin("a/b/c/f", "write") as target:
        plan = plan_write(target, "text\n")
        assert (("a/b", "a/b/c"), True) == (plan.created_directories, plan.is_new)
        assert [] == os.listdir(ground.root / "a")
        written = plan.apply()
    assert ("text\n", ("a/b", "a/b/c"), 1, 0) == (
        (ground.root / "a/b/c/f").read_text(),
        written.created_directories,
        written.summary.added,
        written.summary.removed,
    )


def test_overwriting_can_be_forbidden(ground: Ground, workspace: Workspace) -> None:
    """`overwrites=False` is for new files only, and the refusal carries the digest of what is there."""
    (ground.root / "f").write_text("old")
    refusal = refused(lambda: write(workspace, "f", "new", overwrites=False))
    assert ("CONFLICT", hashlib.sha256(b"old").hexdigest()) == (refusal.refusal, refusal.details["sha256"])
    write(workspace, "g", "new", overwrites=False)
    assert "new" == (ground.root / "g").read_text()


@pytest.mark.parametrize(
    "before, content, after",
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"a\nb\r\n", "x\n", b"x\n"),
        (b"\xef\xbb\xbfa\n", "x\n", b"\xef\xbb\xbfx\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffx\n", b"\xef\xbb\xbfx\n"),
        (b"\xff\xfea\0", "x", b"\xff\xfex\0"),
        (b"\0binary", "x", b"x"),
        (b"caf\xe9", "\u00e9", "\u00e9".encode()),
        (b"", "x\n", b"x\n"),
    ],
)
def test_a_write_keeps_the_form_of_a_file(
    ground: Ground, workspace: Workspace, before: bytes, content: str, after: bytes
) -> None:
    """New content takes the byte order mark, encoding and CRLF of what it replaces, unless it brings its own."""
    (ground.root / "f").write_bytes(before)
    write(workspace, "f", content)
    assert after == (ground.root / "f").read_bytes()


def test_a_write_can_be_literal(ground: Ground, workspace: Workspace) -> None:
    """Without `keeps_form` the content is written as it is, in UTF-8."""
    (ground.root / "f").write_bytes(b"\xef\xbb\xbfa\r\n")
    write(workspace, "f", "x\n", keeps_form=False)
    assert b"x\n" == (ground.root / "f").read_bytes()


def test_attributes_are_kept(ground: Ground, workspace: Workspace) -> None:
    """Mode, owner and extended attributes survive a change; a new file honours the umask."""
    script = ground.root / "s.sh"
    script.write_text("old")
    script.chmod(0o4751)
    if os.geteuid() == 0:
        os.chown(script, 1234, 4321)
        script.chmod(0o4751)
    try:
        os.setxattr(script, "user.note", b"kept")
        note = b"kept"
    except OSError:
        note = b""  # this file system has none
    write(workspace, "s.sh", "new")
    status = script.stat()
    assert 0o4751 == stat.S_IMODE(status.st_mode)
    assert os.geteuid() != 0 or (1234, 4321) == (status.st_uid, status.st_gid)
    assert note == (os.getxattr(script, "user.note") if note else b"")
    before = os.umask(0o027)
    write(workspace, "new", "x")
    os.umask(before)
    assert 0o640 == stat.S_IMODE((ground.root / "new").stat().st_mode)


def test_a_hard_link_keeps_its_other_name_as_it_was(ground: Ground, workspace: Workspace) -> None:
    """A change replaces the name, not the content that another name may share with the outside."""
    (ground.root / "f").hardlink_to(ground.outside / "canary")
    write(workspace, "f", "changed")
    assert ground.untouched()


def test_a_change_by_somebody_else_is_not_overwritten(ground: Ground, workspace: Workspace) -> None:
    """Between plan and apply the file may change, go, or come to be: the change is refused, and nothing is lost."""
    cases: list[tuple[str | None, Callable[[Path], object]]] = [
        ("old", lambda path: path.write_text("theirs")),
        ("old", lambda path: path.unlink()),
        (None, lambda path: path.write_text("theirs")),
    ]
    for number, (before, meddle) in enumerate(cases):
        path = ground.root / str(number)
        if before is not None:
            path.write_text(before)
        with workspace.pin(str(number), "write") as target:
            plan = plan_write(target, "mine")
            meddle(path)
            assert "CONFLICT" == refused(plan.apply).refusal
        assert (path.read_text() if path.exists() else None) in {"theirs", None}
    assert {"0", "2"} == set(os.listdir(ground.root))


def test_a_file_that_appears_in_the_last_moment_is_kept(ground: Ground, workspace: Workspace) -> None:
    """A new file never replaces one that came to be after the last look."""
    with workspace.pin("f", "write") as target:
        plan = plan_write(target, "mine")
        strike = lambda step: (ground.root / "f").write_text("theirs") if step == "rename" else None  # noqa: E731
        assert "CONFLICT" == refused(lambda: plan.apply(before=strike)).refusal
    assert (["f"], "theirs") == (os.listdir(ground.root), (ground.root / "f").read_text())


def test_a_directory_that_moves_away_is_not_written_into(ground: Ground, workspace: Workspace) -> None:
    """A directory that leaves its path before the rename gets nothing."""
    (ground.root / "d").mkdir()
    with workspace.pin("d/f", "write") as target:
        plan = plan_write(target, "mine")
        strike = lambda step: (ground.root / "d").rename(ground.outside / "d") if step == "check" else None  # noqa: E731
        assert "CONFLICT" == refused(lambda: plan.apply(before=strike)).refusal
    assert [] == os.listdir(ground.outside / "d")


def test_concurrent_edits_are_all_there(ground: Ground, workspace: Workspace) -> None:
    """Threads that edit disjoint snippets of one file under its lock, by two spellings, lose nothing."""
    count = 12
    (ground.root / "d").mkdir()
    (ground.root / "link").symlink_to("d")
    (ground.root / "d/f").write_text("".join(f"<{number}>\n" for number in range(count)))
    locks = FileLocks()

    def change(number: int) -> None:
        with workspace.pin("d/f" if number % 2 else "link/f", "write") as target, locks.hold(target):
            plan_edit(target, [Replacement(f"<{number}>", f"done {number}")]).apply()

    threads = [threading.Thread(target=change, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [f"done {number}" for number in range(count)] == (ground.root / "d/f").read_text().splitlines()


def test_an_intent_tells_what_became_of_a_change(ground: Ground, workspace: Workspace) -> None:
    """From the recorded intent alone: not done yet, done, changed by somebody else; strays are removed."""
    (ground.root / "f").write_text("old")
    with workspace.pin("f", "write") as target:
        plan = plan_write(target, "new")
    intent = WriteIntent.from_dict(json.loads(json.dumps(plan.intent.to_dict())))
    (ground.root / intent.temporary).write_text("ne")
    seen = []
    for content in ("old", "new", "other"):
        (ground.root / "f").write_text(content)
        with workspace.pin("f") as target:
            seen.append(settle(target, intent))
    (ground.root / "f").unlink()
    with workspace.pin("f") as target:
        seen.append(settle(target, intent))
    assert ["not_applied", "applied", "changed", "changed"] == seen
    assert [] == os.listdir(ground.root)


def test_a_plan_shows_its_change(ground: Ground, workspace: Workspace) -> None:
    """The diff and the summary are those of the change; one that changes nothing says so."""
    (ground.root / "f").write_text("a\nb\nc\n")
    with workspace.pin("f", "write") as target:
        plan = plan_edit(target, [Replacement("b", "B\nB")])
        same = plan_write(target, "a\nb\nc\n")
    assert "--- f\n+++ f\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n+B\n c\n" == plan.diff()
    assert {"path": "f", "added": 2, "removed": 1} == plan.summary.to_dict()
    assert (True, False) == (plan.is_change, same.is_change)
