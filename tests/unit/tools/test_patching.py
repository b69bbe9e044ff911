"""`apply_patch`: several files at once or none of them, inside the workspace, told before it is done."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.core.messages import ToolCall, ToolResult
from plait.hands.patches.file_patch import planned_patch
from plait.hands.patches.patch import parse_patch
from plait.hands.workspace import Workspace
from plait.kernel.tools import Recovery, ToolContext
from plait.tools.aliases import patch_tool
from plait.tools.toolbox import Toolbox, ToolboxOptions
from tests.helpers.deaths import die_before

from .conftest import MakeToolbox
from .replies import code_of, done, refusal, text_of

PATCH = """*** Begin Patch
*** Update File: src/a.py
@@ def f():
-    return 1
+    return 2
*** Add File: new/deep/n.txt
+one
+two
*** Update File: run.sh
*** Move to: bin/run.sh
-echo old
+echo new
*** Delete File: gone.txt
*** Update File: plain.txt
@@
-b
+B
*** End Patch
"""
BEFORE: Mapping[str, bytes] = {
    "src/a.py": b"def f():\r\n    return 1\r\n\r\ndef g():\r\n    return 1\r\n",
    "run.sh": b"#!/bin/sh\necho old\n",
    "gone.txt": b"bye\n",
    "plain.txt": b"a\nb",
    "other.bin": b"\0\1",
}
AFTER: Mapping[str, bytes] = {
    "src/a.py": b"def f():\r\n    return 2\r\n\r\ndef g():\r\n    return 1\r\n",
    "new/deep/n.txt": b"one\ntwo\n",
    "bin/run.sh": b"#!/bin/sh\necho new\n",
    "plain.txt": b"a\nB",
    "other.bin": b"\0\1",
}


def fill(root: Path) -> None:
    """Put the files there that the patch is about."""
    for name, content in BEFORE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    (root / "run.sh").chmod(0o755)


def files_in(root: Path) -> dict[str, bytes]:
    """Return the content of every file."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_patch_of_many_files(box: Toolbox, root: Path) -> None:
    """Files are changed, added, moved with their mode and deleted in one call, and the answer tells each of them."""
    fill(root)

    text, data = done(box.patching.apply_patch(PATCH))

    assert dict(AFTER) == files_in(root)
    assert 0o755 == (root / "bin/run.sh").stat().st_mode & 0o777
    assert [
        "OK: 5 files changed",
        "M src/a.py (+1 -1)",
        "A new/deep/n.txt (+2)",
        "R run.sh -> bin/run.sh (+1 -1)",
        "D gone.txt (-1)",
        "M plain.txt (+1 -1)",
    ] == text.split("\n")
    assert {"path": "6 files", "added": 5, "removed": 4} == data["diff_summary"]
    assert ["src/a.py", "new/deep/n.txt", "run.sh", "bin/run.sh", "gone.txt", "plain.txt"] == data["files"]
    assert ["new", "new/deep", "bin"] == data["created_directories"]
    assert "-    return 1\r\n+    return 2\r\n" in str(data["diff"])


@pytest.mark.parametrize(
    "edit, words",
    [
        (("-b\n", "-x\n"), "the hunk for 'plain.txt' (line 15 of the patch) does not match"),
        (("gone.txt", "never.txt"), "deletes 'never.txt' (line 13), which does not exist"),
        (("new/deep/n.txt", "src/a.py"), "the patch says two things of 'src/a.py'"),
        (("new/deep/n.txt", "./other.bin"), "'./other.bin' exists already"),
        (("bin/run.sh", "other.bin"), "moves 'run.sh' there"),
        (("new/deep/n.txt", "src/a.py/n.txt"), "a part of the path is a file"),
        (("*** Delete File: gone.txt", "*** Update File: other.bin\n-a\n+b"), "is a binary file"),
        (("new/deep/n.txt", "../n.txt"), "escapes working directory"),
        (("new/deep/n.txt", ".git/hooks/pre-commit"), ".git"),
    ],
)
def test_all_of_it_or_nothing(make: MakeToolbox, root: Path, edit: tuple[str, str], words: str) -> None:
    """When one part of a patch cannot be done nothing is, and the answer says which part and why."""
    fill(root)
    (root / ".git").mkdir()

    answer = refusal(make().patching.apply_patch(PATCH.replace(*edit)))

    assert words.lower() in answer.content.lower()
    assert "nothing was changed" in answer.content
    assert dict(BEFORE) == files_in(root)
    assert not (root / "new").exists()


def test_a_file_that_is_deleted_and_added_is_written_anew(box: Toolbox, root: Path) -> None:
    """Both in one patch are a new content for the same file, in the form of the old one; a third part is too much."""
    fill(root)
    (root / "run.sh").write_bytes(b"a\r\n")
    both = "*** Delete File: run.sh\n*** Add File: run.sh\n+one\n+two\n"

    text, _ = done(box.patching.apply_patch(f"*** Begin Patch\n{both}*** End Patch"))

    assert "OK: 1 file changed\nM run.sh (+2 -1)" == text
    assert (b"one\r\ntwo\r\n", 0o755) == ((root / "run.sh").read_bytes(), (root / "run.sh").stat().st_mode & 0o777)
    more = f"*** Begin Patch\n{both}*** Add File: ./run.sh\n+x\n*** End Patch"
    assert "two things of './run.sh'" in refusal(box.patching.apply_patch(more)).content


def test_every_part_that_does_not_fit_is_told(box: Toolbox, root: Path) -> None:
    """Several faults come in one answer, each with its own advice, so that one more try can mend them all."""
    fill(root)

    answer = refusal(box.patching.apply_patch(PATCH.replace("-b\n", "-x\n").replace("    return 1", "    return 7")))

    assert "2 parts of the patch do not fit:" in answer.content
    assert "Nearest there" in answer.content
    assert "'src/a.py' (line 3 of the patch)" in answer.content
    assert "'plain.txt' (line 15 of the patch)" in answer.content
    assert "Nothing was changed." in answer.content


@pytest.mark.parametrize("fails_at", range(3, 40, 4))
def test_a_write_that_fails_takes_the_others_back(root: Path, fails_at: int) -> None:
    """A disk that fails half-way leaves every file and directory as it was, or everything is done."""
    fill(root)
    steps: list[str] = []

    def before(step: str) -> None:
        steps.append(step)
        if len(steps) == fails_at:
            raise OSError(28, "no space")

    workspace = Workspace(root)
    fault: Refusal | None = None
    try:
        with planned_patch(workspace, parse_patch(PATCH)) as plan:
            plan.apply(workspace, before=before)
    except Refusal as refused:
        fault = refused
    finally:
        workspace.close()
    assert dict(AFTER if fault is None else BEFORE) == files_in(root)
    assert (fault is None) == (root / "new").exists()
    assert fault is None or "space" in fault.message


def context(intent: Mapping[str, object] | None = None) -> ToolContext:
    """Return what the tool may know of its call."""
    return ToolContext("c1", "s/r/c1", Cancel(), "s", intent)


def recovery_of(box: Toolbox) -> Recovery:
    """Return how a patch finds out what became of it."""
    found = patch_tool(box).recovery
    assert found is not None
    return found


def die_at(root: Path, step: int, intent: Mapping[str, object]) -> int:
    """Apply the patch in a process that is gone before its nth step; return how that process ended."""

    def live(before: Callable[[str], None]) -> None:
        workspace = Workspace(root)
        names = {each["path"]: each["temporary"] for each in intent["files"]}  # type: ignore[attr-defined]
        with planned_patch(workspace, parse_patch(PATCH)) as plan:
            plan.under(names).apply(workspace, before=before)

    return die_before(step, live)


def test_a_kill_in_the_middle_is_told_file_by_file(make: MakeToolbox, root: Path) -> None:
    """Wherever the process dies, each file is as before or as after, and the resume says which of both it is."""
    outcomes: set[str] = set()
    step, exit_code = 0, 9
    while exit_code == 9:
        step += 3
        subprocess.run(["rm", "-rf", *(str(path) for path in root.iterdir())], check=True, timeout=20)
        fill(root)
        box = make()
        recovery = recovery_of(box)
        intent = recovery.intend({"input": PATCH}, context())
        assert intent is not None
        exit_code = die_at(root, step, intent)

        result = recovery.settle({"input": PATCH}, context(intent))

        assert isinstance(result, ToolResult)
        assert result.data is not None
        found = files_in(root)
        for path, outcome in result.data["outcomes"].items():  # type: ignore[attr-defined]
            assert outcome in ("applied", "not_applied")
            assert (AFTER if outcome == "applied" else BEFORE).get(path) == found.get(path), path
            assert f"- {path}: {str(outcome).replace('_', ' ')}" in result.content
        assert not [name for name in found if name.endswith(".tmp")]
        outcomes.add(str(result.data["recovered"]))

    assert {"not_applied", "partly", "applied"} == outcomes
    assert dict(AFTER) == files_in(root)


def test_who_else_has_changed_a_file_since_is_told(make: MakeToolbox, root: Path) -> None:
    """A file that holds neither of both contents is told apart, and another workspace is not looked into."""
    fill(root)
    recovery = recovery_of(make())
    intent = recovery.intend({"input": PATCH}, context())
    assert intent is not None
    (root / "plain.txt").write_text("mine")

    result = recovery.settle({}, context(intent))
    elsewhere = recovery.settle({}, context({**intent, "root": "another"}))

    assert "- plain.txt: changed by somebody else since" in result.content
    assert "unknown" == result.status == elsewhere.status
    assert "another workspace" in elsewhere.content


@pytest.mark.parametrize(
    "content, mode, patch, expected",
    [
        (b"\xef\xbb\xbfa\r\nb\r\n", 0o640, "-b\n+c", b"\xef\xbb\xbfa\r\nc\r\n"),
        ("a\r\nb".encode("utf-16"), 0o444, "-b\n+\u00fc", "a\r\n\u00fc".encode("utf-16")),
        (b"caf\xe9\nb\n", 0o755, "-b\n+c", b"caf\xe9\nc\n"),
        (b"a\rx\nb\r\nc\n", 0o600, " b\n-c\n+C", b"a\rx\nb\r\nC\n"),
        (b"", 0o600, "+a", b"a\n"),
    ],
)
def test_what_a_patch_does_not_name_stays(
    box: Toolbox, *, root: Path, content: bytes, mode: int, patch: str, expected: bytes
) -> None:
    """Byte order marks, encodings, line ends, odd bytes, modes and links to the file are what they were."""
    (root / "f").write_bytes(content)
    (root / "f").chmod(mode)
    (root / "link").symlink_to("f")

    done(box.patching.apply_patch(f"*** Begin Patch\n*** Update File: link\n{patch}\n*** End Patch"))

    assert expected == (root / "f").read_bytes()
    assert mode == (root / "f").stat().st_mode & 0o777
    assert (root / "link").is_symlink()


def test_a_git_diff_makes_of_one_tree_the_other(box: Toolbox, root: Path, tmp_path: Path) -> None:
    """What git writes of two trees is applied to the byte: renames, modes, odd names, files without a last line."""
    after = {**AFTER, 'na\u00efve "q".txt': b"\xef\xbb\xbfx\r\ny", "empty": b"", "src/a.py": BEFORE["src/a.py"] * 9}
    repository = tmp_path / "repository"
    for tree in (BEFORE, after):
        subprocess.run(["rm", "-rf", *(str(path) for path in repository.glob("[!.]*"))], check=True, timeout=20)
        for name, content in tree.items():
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            (repository / name).write_bytes(content)
        if tree is after:
            (repository / "bin/run.sh").chmod(0o755)
        git(repository, "init", "-q")
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "-m", "x")
    patch = git(repository, "diff", "-M", "HEAD~1", "HEAD")
    fill(root)
    (root / "run.sh").chmod(0o644)

    done(box.patching.apply_patch(patch))

    assert dict(sorted(after.items())) == files_in(root)
    assert 0o755 == (root / "bin/run.sh").stat().st_mode & 0o777


def git(folder: Path, *words: str) -> str:
    """Run git and return what it prints."""
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.autocrlf=false"]
    return subprocess.run(
        ["git", *own, *words], cwd=folder, check=True, capture_output=True, timeout=30
    ).stdout.decode()


PATHS = st.sampled_from(
    [
        "a.txt",
        "../out/a.txt",
        "link/a.txt",
        "/etc/plait-x",
        "~/x",
        "a/../../out/a.txt",
        "d",
        ".",
        "",
        "d/../a.txt",
        "a.txt/x",
        ".git/config",
        "d/.git/hooks/x",
        "x" * 300,
        "a\0b",
        "b.txt",
        "/proc/self/mem",
        "link/../a.txt",
    ]
)
SECTIONS = st.one_of(
    st.builds("*** Add File: {}\n+x".format, PATHS),
    st.builds("*** Delete File: {}".format, PATHS),
    st.builds("*** Update File: {}\n-a\n+z".format, PATHS),
    st.builds("*** Update File: {}\n*** Move to: {}\n a\n+z".format, PATHS, PATHS),
    st.builds("--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-a\n+z".format, PATHS),
    st.builds("diff --git a/{0} b/{1}\nrename from {0}\nrename to {1}".format, PATHS, PATHS),
)


@settings(deadline=None)
@given(st.lists(SECTIONS, min_size=1, max_size=4), st.booleans())
def test_hostile_patches_stay_inside_and_are_never_half_applied(sections: list[str], is_v4a: bool) -> None:
    """Whatever paths a patch names, nothing outside the workspace changes, and a refused patch has changed nothing."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder).resolve()
        for name in ("work/d", "work/.git", "out"):
            (top / name).mkdir(parents=True)
        for name in ("work/a.txt", "work/b.txt", "work/.git/config", "out/a.txt"):
            (top / name).write_text("a\n")
        (top / "work/link").symlink_to("../out")
        before = files_in(top)
        box = Toolbox(top / "work", ToolboxOptions(policy="inside_only"))
        body = "\n".join(sections)

        answer = box.patching.apply_patch(f"*** Begin Patch\n{body}\n*** End Patch" if is_v4a else f"{body}\n")

        box.close()
        after = files_in(top)
        kept = ("out/a.txt", "work/.git/config")
        assert [before[name] for name in kept] == [after.get(name) for name in kept]
        assert set(after) - set(before) <= {name for name in after if name.startswith("work/")}
        assert not Path("/etc/plait-x").exists()
        if code_of(answer) != "ok":
            assert before == after, text_of(answer)


def test_a_link_is_no_file_to_take_away(box: Toolbox, root: Path) -> None:
    """What is found through it would be lost, and the link would stay: a patch deletes and moves only files."""
    (root / "f").write_text("a\n")
    (root / "link").symlink_to("f")

    for patch in (
        "*** Begin Patch\n*** Delete File: link\n*** End Patch",
        "*** Begin Patch\n*** Update File: ./link\n*** Move to: g\n-a\n+b\n*** End Patch",
        "--- a/link\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    ):
        refused = refusal(box.patching.apply_patch(patch))
        assert "is a symbolic link, and the patch" in refused.content
        assert "nothing was changed" in refused.content
    assert {"f": b"a\n", "link": b"a\n"} == {name: (root / name).read_bytes() for name in ("f", "link")}


def test_no_new_file_is_a_directory_too(box: Toolbox, root: Path) -> None:
    """A patch that needs one name for both is refused before anything is written."""
    (root / "f").write_text("a\n")

    for first in ("*** Add File: q\n+x", "*** Update File: f\n*** Move to: q\n a\n+b"):
        for second in ("q/r", "q/r/s"):
            patch = f"*** Begin Patch\n*** Add File: {second}\n+y\n{first}\n*** End Patch"
            refused = refusal(box.patching.apply_patch(patch))
            assert "The patch says two things of 'q'; nothing was changed" in refused.content
    assert ["f"] == [path.name for path in root.iterdir()]


def test_str_replace_takes_hunks(box: Toolbox, root: Path) -> None:
    """`patch` in place of a snippet changes that file alone, with or without an envelope around the hunks."""
    (root / "f").write_text("a\nb\nc\n")
    envelope = "*** Begin Patch\n*** Update File: f\n-b\n+B\n*** End Patch"

    text, data = done(box.str_replace("f", patch="@@\n-a\n+A\n@@\n c\n+d"))
    done(box.str_replace(str(root / "f"), patch=envelope))

    assert "A\nB\nc\nd\n" == (root / "f").read_text()
    assert "OK: applied 2 hunk(s) to f" == text
    assert {"path": "f", "added": 2, "removed": 1} == data["diff_summary"]
    for wrong in (
        envelope.replace("f\n", "g\n", 1),
        "*** Begin Patch\n*** Delete File: f\n*** End Patch",
        "@@\n-x\n+y",
    ):
        assert code_of(box.str_replace("f", patch=wrong)) in ("INVALID_INPUT", "CONFLICT")
    assert "CONFLICT" == code_of(box.str_replace("f", patch="-A\n+a", expected_sha256="0" * 64))
    assert "new_str is missing" in refusal(box.str_replace("f", "A")).content.lower()
    assert "A\nB\nc\nd\n" == (root / "f").read_text()


def test_the_grammar_is_what_an_endpoint_gets(box: Toolbox) -> None:
    """As a tool with a grammar it has the patch as its text, and no parameters."""
    tool = patch_tool(box, is_grammar=True)

    assert tool.custom_format is not None
    assert ("grammar", "lark") == (tool.custom_format["type"], tool.custom_format["syntax"])
    assert "begin_patch" in str(tool.custom_format["definition"])
    assert {"input": "*** Begin"} == tool.keywords(ToolCall("1", "apply_patch", "*** Begin", True).arguments)
    assert (True, False, True) == (tool.mutates, tool.parallel_safe, tool.gated)


def test_where_a_patch_leads_is_the_worst_of_its_paths(box: Toolbox) -> None:
    """Somebody who asks only about what is outside learns of it from any path of a patch."""

    def leads(patch: str) -> str:
        return box.leads(ToolCall("1", "apply_patch", patch, True))

    assert "inside" == leads(PATCH)
    assert "outside" == leads(PATCH.replace("bin/run.sh", "/tmp/run.sh"))
    assert "secret" == leads(PATCH.replace("gone.txt", "~/.ssh/id").replace("bin/run.sh", "/tmp/run.sh"))
    assert "inside" == leads("no patch")
