"""Patches in both notations, applied to text: what they say, and every byte beside it."""

from __future__ import annotations

import difflib
import re

import pytest
from hypothesis import given, settings, strategies as st

from plait.core.errors import Refusal
from plait.hands.patches.parts import FilePatch
from plait.hands.patches.patch import parse_patch
from plait.hands.patches.patched import Patched, patched

LINES = st.sampled_from(
    ["", "a", "b", "\tb", "  b", "c\r", "-- c", "++ d", "é", "\ufeff", "@@ x", "\\ y", "a\x0bb\u2028"]
)
ENDS = st.sampled_from(["\n", "\n", "\r\n", "\r\n", "\n\n"])
TEXTS = st.builds(
    lambda pairs, last: "".join(line + end for line, end in pairs) + last, st.lists(st.tuples(LINES, ENDS)), LINES
)


def split(text: str) -> list[str]:
    """Return the lines of a text, at line feeds only."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def unified(before: str, after: str) -> str:
    """Return the difference as git writes it."""
    pieces = difflib.unified_diff(split(before), split(after), "a/f", "b/f")
    return "".join(piece if piece.endswith("\n") else f"{piece}\n\\ No newline at end of file\n" for piece in pieces)


def v4a(before: str, after: str) -> str:
    """Return the difference as one hunk with all lines."""
    body = "".join(
        piece if piece.endswith("\n") else f"{piece}\n\\ No newline at end of file\n"
        for piece in difflib.ndiff(split(before), split(after))
        if not piece.startswith("?")
        for piece in [piece[0] + piece[2:]]
    )
    return f"*** Begin Patch\n*** Update File: f\n@@\n{body}*** End Patch\n"


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_the_difference_of_two_texts_makes_one_of_the_other(before: str, after: str) -> None:
    """`apply(diff(a, b), a) == b`, character by character, for any line ends, with or without a last one."""
    if before == after:
        return
    for notation in (unified, v4a):
        patch = notation(before, after)
        (file,) = parse_patch(patch)
        assert after == patched(before, file.hunks, "f").text, patch


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), unique=True), st.lists(st.integers(0, 40), unique=True), st.integers(1, 3))
def test_a_few_lines_of_context_are_enough_where_lines_differ(
    before: list[int], after: list[int], context: int
) -> None:
    """With some lines around each change, out of any order and with wrong numbers, every hunk finds its place."""
    one, other = ("".join(f"line {number}\n" for number in numbers) for numbers in (before, after))
    if one == other:
        return
    pieces = list(difflib.unified_diff(split(one), split(other), "a/f", "b/f", n=context))
    hunks = "".join(pieces[2:]).split("@@ -")[1:]
    bodies = [hunk.partition(" @@\n")[2] for hunk in hunks]
    if not all(re.search("^[ -]", body, re.MULTILINE) for body in bodies):
        return  # what only adds lines says nothing of where
    for patch in (
        "*** Begin Patch\n*** Update File: f\n" + "".join(f"@@\n{body}" for body in reversed(bodies)) + "*** End Patch",
        "--- f\n+++ f\n" + "".join(f"@@ -{number + 50},9 +1,2 @@\n{body}" for number, body in enumerate(bodies)),
    ):
        (file,) = parse_patch(patch)
        assert other == patched(one, file.hunks, "f").text, patch


HEADERS = """*** Begin Patch|*** End Patch|*** Update File: f|*** Add File: f|*** Delete File: f|*** Move to: g|@@|@@ a
*** End of File|@@ -1,2 +1,2 @@|@@ -9 +9 @@ x|--- a/f|+++ b/f|diff --git a/f b/f|rename from f|@@@ -1 -1 +1 @@@
new file mode 100644|GIT binary patch|--- /dev/null|+++ /dev/null|\\ No newline at end of file"""
BODIES = ["+", " a", "-a", "+a", " b", "-b", "", "a", "- \u2019", "-\ta", "\ufeff", "\r"]
PIECES = st.sampled_from([*HEADERS.replace("\n", "|").split("|"), *BODIES])


@settings(deadline=None)
@given(
    st.lists(PIECES, max_size=14), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "a\nb\n", "a\r\nb", "b\nb\na"])
)
def test_whatever_is_sent_is_applied_or_refused(pieces: list[str], end: str, text: str) -> None:
    """No text makes the reading of a patch fail in any other way than with a reason."""
    try:
        for file in parse_patch(end.join(pieces)):
            patched(text, file.hunks, "f")
    except Refusal as refusal:
        assert refusal.hint  # noqa: PT017 -- what comes out otherwise is no refusal, and fails


def test_many_hunks_in_a_file_of_lines_that_are_alike() -> None:
    """A thousand hunks in a hundred thousand lines are placed by the lines that tell them apart."""
    lines = [f"x\nx\nmark {number}\n" for number in range(35_000)]
    body = "".join(f"@@\n x\n-mark {number}\n+done {number}\n" for number in range(0, 35_000, 35))

    found = applied("".join(lines), body)

    assert [f"done {number}" for number in range(0, 35_000, 35)] == re.findall("done .*", found.text)
    with pytest.raises(Refusal, match="has 10001 hunks"):
        applied("a\n", "@@\n-a\n+b\n" * 10_001)


def update(body: str) -> FilePatch:
    """Read a V4A patch of one file."""
    (file,) = parse_patch(f"*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")
    return file


def applied(text: str, body: str) -> Patched:
    """Apply hunks in V4A to a text."""
    return patched(text, update(body).hunks, "f")


TWICE = "class A:\n  def f():\n    x\n\nclass B:\n  def f():\n    x\n"


@pytest.mark.parametrize(
    "text, body, expected",
    [
        ("a\r\nb\r\nc\r\n", "-b\n+B\n+B2", "a\r\nB\r\nB2\r\nc\r\n"),
        ("a\nb\r\nc\r\n", " a\n-b\n+B\n c", "a\nB\r\nc\r\n"),
        ("a\nb", "-b\n+c", "a\nc"),
        ("a\nb", " b\n+c", "a\nb\nc"),
        ("a\nb\n", "-b\n+c\n\\ No newline at end of file", "a\nc"),
        ("\ufeffa\nb\n", "-a\n+A", "\ufeffA\nb\n"),
        (TWICE, "@@ class B:\n-    x\n+    y", TWICE[:-2] + "y\n"),
        (TWICE, "@@ class B\n@@ def f\n-    x\n+    y", TWICE[:-2] + "y\n"),
        (TWICE, "@@ class B:\n+  z = 1", TWICE.replace("B:\n", "B:\n  z = 1\n")),
        (TWICE, "-    x\n+    y\n*** End of File", TWICE[:-2] + "y\n"),
        (TWICE, " class B:\n   def f():\n-    x\n+    y", TWICE[:-2] + "y\n"),
        ("a\n\nb\n", " a\n\n-b\n+c\n\n", "a\n\nc\n"),
        ("a\nb\n", "+c", "a\nb\nc\n"),
        ("", "+a\n+b", "a\nb\n"),
        ("a\nb\nc\nd\n", "-d\n+D\n@@\n-a\n+A", "A\nb\nc\nD\n"),
        ("a\nb\nc\nd\ne\n", " a\n-b\n+B\n c\n d\n@@\n c\n-d\n+D\n e", "a\nB\nc\nD\ne\n"),
        ("\ufeffa\nb\n", " a\n-b\n+B", "\ufeffa\nB\n"),
        ("\ufeffa\nb\n", "@@ -0,0 +1 @@\n+x", "\ufeffx\na\nb\n"),
        ("a\nb\nc\n", "@@ -2,1 +2,1 @@ whatever\n-b\n+B", "a\nB\nc\n"),
        ("x\nx\nx\n", "@@ -2,1 +2,1 @@\n-x\n+y", "x\ny\nx\n"),
        ("a\n", "-a\n", ""),
    ],
)
def test_hunks_in_v4a(text: str, body: str, expected: str) -> None:
    """A hunk goes where its lines are, new lines end like those around them, and the rest stays as it is."""
    assert Patched(expected) == applied(text, body)


@pytest.mark.parametrize(
    "text, body, expected, note",
    [
        ("a  \nb\n", " a\n-b\n+c", "a  \nc\n", "blanks"),
        ("if x:\n\tfoo()\n\tbar()\n", "     foo()\n-    bar()\n+    baz()", "if x:\n\tfoo()\n\tbaz()\n", "indentation"),
        ("  a\n    b\n", " a\n-  b\n+  c\n+d", "  a\n    c\n  d\n", "indentation"),
        ("don\u2019t\nx\n", " don't\n-x\n+\u201cy\u201d", "don\u2019t\n\u201cy\u201d\n", "characters"),
    ],
)
def test_near_hunks(text: str, body: str, expected: str, note: str) -> None:
    """Lines that are off by blanks, indentation or typography have one place, and that is said."""
    found = applied(text, body)

    assert expected == found.text
    assert note in found.notes[0]


@pytest.mark.parametrize(
    "text, body, words",
    [
        (TWICE, "-    x\n+    y", "could be at any of the lines 3, 7"),
        ("\tx\n\tx\n", "-x\n+y", "could be at any of the lines 1, 2"),
        (TWICE, "@@ class C:\n-    x\n+    y", "names a line that is not there: 'class C:'"),
        (TWICE, "@@ def f():\n-    x\n+    y", "could be at any of the lines 3, 7"),
        ("a\nb\nc\n", " a\n-B\n+c", "does not match"),
        ("a\nb\nc\n", " a\n-b\n+B\n@@\n-b\n+C", "hunks 1 and 2 for 'f' change the same lines"),
        ("a\n", "@@ -9,0 +9,1 @@\n+x", "adds lines after line 9"),
        ("  a\n\t b\n", " a\n-b\n+c", "does not match"),
    ],
)
def test_hunks_that_have_no_place(text: str, body: str, words: str) -> None:
    """A hunk that fits nowhere, or in two places, is refused with its number and the lines; nothing is guessed."""
    with pytest.raises(Refusal) as caught:
        applied(text, body)

    assert words in caught.value.message
    assert "CONFLICT" == caught.value.refusal


def test_a_refusal_shows_the_nearest_lines() -> None:
    """What is in the file stands beside what the hunk says, with line numbers and the hunk's place in the patch."""
    with pytest.raises(Refusal) as caught:
        applied("a\nb\nc\nd\ne\n", "-a\n+A\n@@\n c\n-D\n+x\n e")

    assert "hunk 2 of 2 for 'f' (line 5 of the patch) does not match" == caught.value.message
    assert caught.value.hint.endswith("Nearest there:\n  3: c\n> 4: d\n    the hunk says: D\n  5: e")
    assert {"path": "f", "hunk": 2, "patch_line": 5} == caught.value.details


GIT = """From 123 Mon Sep 17 00:00:00 2001
Subject: several files
---
 5 files changed

diff --git a/src/old name.py b/src/new name.py
similarity index 90%
rename from src/old name.py
rename to src/new name.py
index 1..2 100644
--- a/src/old name.py
+++ b/src/new name.py
@@ -1,2 +1,2 @@ def f():
 a
--- b
+++ c
diff --git a/run.sh b/run.sh
new file mode 100755
--- /dev/null
+++ b/run.sh
@@ -0,0 +1,1 @@
+#!/bin/sh
\\ No newline at end of file
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git "a/f\\303\\274r" "b/f\\303\\274r"
old mode 100644
new mode 100755
diff --git a/empty b/empty
new file mode 100644
index 0..0
--\x20
2.40
"""


def test_what_git_writes() -> None:
    """Names with blanks and quotes, moves, modes, new, empty and deleted files, and mail around them are understood."""
    moved, added, gone, mode, empty = parse_patch(GIT)

    assert ("update", "src/old name.py", "src/new name.py") == (moved.kind, moved.path, moved.move_to)
    assert [(" ", "a"), ("-", "-- b"), ("+", "++ c")] == [(line.mark, line.text) for line in moved.hunks[0].lines]
    assert ("add", "run.sh", "#!/bin/sh", True) == (added.kind, added.path, added.content, added.is_executable)
    assert ("delete", "gone", 1) == (gone.kind, gone.path, len(gone.hunks))
    assert ("update", "f\u00fcr", True, None) == (mode.kind, mode.path, mode.is_executable, mode.move_to)
    assert ("add", "empty", "") == (empty.kind, empty.path, empty.content)


def test_plain_diffs_and_wrong_counts() -> None:
    """Times behind names, counts that are wrong and hunks without numbers do not matter; where lines are, does."""
    patch = "--- f.orig\t2026-01-01 00:00:00\n+++ f\t2026-01-02\n@@ -9,7 +9,2 @@\n b\n-c\n+C\n\n@@ ... @@\n-e\n+E\n"

    (file,) = parse_patch(patch)

    assert ("f", None) == (file.path, file.move_to)
    found = patched("a\nb\nc\n\nd\ne\n", file.hunks, "f")
    assert "a\nb\nC\n\nd\nE\n" == found.text
    assert ("hunk 1 was found at line 2, not 9",) == found.notes


def test_a_patch_of_patches_is_read_as_what_it_is() -> None:
    """Marks of the notation inside a file's lines end nothing, in either notation; two patches in a row are one."""
    text = "*** Begin Patch\n*** End Patch\n--- a\n+++ b\nx\n"
    hunk = " *** Begin Patch\n *** End Patch\n --- a\n +++ b\n-x\n+y\n"
    one = f"*** Begin Patch\n*** Update File: f\n@@\n{hunk}*** End Patch\n"

    for patch in (one, f"--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n{hunk}"):
        (file,) = parse_patch(patch)
        assert text.replace("x", "y") == patched(text, file.hunks, "f").text
    assert ["f", "g"] == [file.path for file in parse_patch(f"Two:\n{one}\n{one.replace(': f', ': g')}")]
    with pytest.raises(Refusal, match="line 11 of the patch stands behind"):
        parse_patch(f"{one}*** Update File: h\n-a\n+b\n")


@pytest.mark.parametrize(
    "wrapped",
    ["```diff\n{}\n```", "apply_patch <<'EOF'\n{}\nEOF\n", "\n\n{}\n\n", "{crlf}"],
)
def test_what_models_put_around_a_patch(wrapped: str) -> None:
    """A fence, a here-document, empty lines and CRLF on every line are taken away."""
    patch = "*** Begin Patch\n*** Update File: f\n-a\n+b\n*** End Patch"
    (file,) = parse_patch(wrapped.format(patch, crlf=patch.replace("\n", "\r\n") + "\r\n"))

    assert "b\r\n" == patched("a\r\n", file.hunks, "f").text


@pytest.mark.parametrize(
    "text, words",
    [
        ("hello", "there is no patch"),
        ("*** Begin Patch\n*** Update File: f\n-a\n+b\n", "may have been cut off"),
        ("*** Update File: f\n-a\n*** End Patch", "has no line '*** Begin Patch'"),
        ("*** Begin Patch\n*** End Patch", "names no file"),
        ("*** Begin Patch\n*** Update File:\n-a\n*** End Patch", "line 2 of the patch names no file"),
        ("*** Begin Patch\n*** Update File: f\n*** End Patch", "without any"),
        ("*** Begin Patch\n*** Update File: f\na\n-b\n*** End Patch", "line 3 of the patch has no mark"),
        ("*** Begin Patch\n*** Add File: f\nprint()\n*** End Patch", "lacks its '+'"),
        ("*** Begin Patch\n*** Rename File: f\n*** End Patch", "where a file should be named"),
        ("*** Begin Patch\n*** Update File: f\n*** Move to:\n-a\n*** End Patch", "names no file"),
        ("*** Begin Patch\n*** Update File: f\n-a\n+b\n*** Foo\n*** End Patch", "line 5 of the patch is '*** Foo'"),
        ("@@ -1 +1 @@\n-a\n+b\n", "begins a hunk of no file"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n", "begins an empty hunk"),
        ("diff --git a/f b/f\nGIT binary patch\nliteral 3\n", "changes a binary file"),
        ("diff --git a/f b/g\ncopy from f\ncopy to g\n", "copies a file"),
        ("diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+/etc\n", "of mode 120000"),
        ("--- a/f\n+++ /dev/null\n@@@ -1 -1 +1 @@@\n-a\n", "of a merge"),
        ("*** Begin Patch\n*** Update File: f\n-a\n+\ud800\n*** End Patch", "lone surrogate"),
    ],
)
def test_what_is_no_patch_is_refused(text: str, words: str) -> None:
    """What cannot be understood is refused with the line of the patch; one that was cut off is not half taken."""
    with pytest.raises(Refusal) as caught:
        parse_patch(text)

    assert words in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint
