"""The file tools over real files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from plait.tools.answer import Reply, as_answer
from plait.tools.toolbox import Toolbox

from .conftest import MakeToolbox
from .replies import done, refusal


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_kernel_e1_what_is_written_is_read(box: Toolbox, root: Path) -> None:
    """A file that was written reads as the same text, with the digest of its bytes."""
    done(box.write_file("notes.txt", "one\ntwo\n"))
    text, data = done(box.read_file("notes.txt"))
    assert ("one\ntwo\n", sha256(b"one\ntwo\n")) == (text, data["sha256"])
    assert (2, "utf-8", "\n", False) == (data["total_lines"], data["encoding"], data["newline"], data["truncated"])
    assert b"one\ntwo\n" == (root / "notes.txt").read_bytes()


def test_kernel_e1_missing_files_and_escapes_are_refused(make: MakeToolbox, root: Path) -> None:
    """A file that is not there, and a path that leads out of the workspace, are errors that say so."""
    (root.parent / "x").write_text("outside")
    box = make(policy="inside_only")
    missing = refusal(box.read_file("nothing.txt"))
    assert "Not a file: 'nothing.txt'" in missing.content
    assert ("NOT_FOUND", 404) == (missing.data["code"], missing.data["status"])  # type: ignore[index]
    for reply in (box.read_file("../x"), box.write_file("../y", ""), box.str_replace("../x", "o", "i")):
        assert "escapes working directory" in refusal(reply).content
    assert ["work", "x"] == sorted(os.listdir(root.parent))


def test_e27_a_write_names_its_file_and_its_change(box: Toolbox, root: Path) -> None:
    """The data of a write are the file, the lines added and removed, and the change itself; a read has none."""
    (root / "a.txt").write_text("one\ntwo\n")
    _, data = done(box.write_file("a.txt", "one\n2\n3\n"))
    assert (["a.txt"], {"path": "a.txt", "added": 2, "removed": 1}) == (data["files"], data["diff_summary"])
    assert "-two\n+2\n+3\n" in str(data["diff"])
    _, data = done(box.read_file("a.txt"))
    assert data.get("files") is None
    assert data.get("diff_summary") is None


def test_missing_directories_are_created_and_named(box: Toolbox, root: Path) -> None:
    """A write into directories that do not exist makes them, and says which."""
    text, data = done(box.write_file("a/b/new.txt", "é"))
    assert "OK: wrote 2 bytes to a/b/new.txt (new file; new directories: a, a/b)" == text
    assert (["a", "a/b"], True) == (data["created_directories"], data["created"])
    assert "é".encode() == (root / "a/b/new.txt").read_bytes()


def test_a_long_file_says_how_to_go_on(box: Toolbox, root: Path) -> None:
    """A file of more lines than are shown ends with which were, and the rest can be asked for."""
    (root / "long.txt").write_text("".join(f"{number}\n" for number in range(1, 5_001)))
    text, data = done(box.read_file("long.txt"))
    assert "2000\n[lines 1-2000 of 5000; go on with offset=2001]" == text[-51:]
    assert data["truncated"] is True
    text, _ = done(box.read_file("long.txt", 4_999))
    assert "4999\n5000\n" == text
    text, _ = done(box.read_file("long.txt", 3, 2))
    assert "3\n4\n[lines 3-4 of 5000; go on with offset=5]" == text


def test_wide_lines_are_cut_at_whole_lines(make: MakeToolbox, root: Path) -> None:
    """Where size ends a result, it ends with a whole line, and a line that is too long alone is cut and said to be."""
    (root / "wide.txt").write_text(f"{'a' * 300}\n{'b' * 300}\n{'c' * 5_000}\n{'d' * 9}\n")
    box = make(result_tokens_max=200)
    text, _ = done(box.read_file("wide.txt"))
    assert f"{'a' * 300}\n{'b' * 300 if len(text) > 700 else ''}[lines 1-1 of 4; go on with offset=2]" == text
    text, _ = done(box.read_file("wide.txt", 3))
    assert "[line 3 of 4 is too long and was cut; use a shell command to see all of it; go on with offset=4]" in text
    assert len(text) <= 800


@pytest.mark.parametrize(
    "data, words",
    [
        (b"\x7fELF\0\0\1", "is a binary file"),
        (b"\xff\xfe\0\0h\0\0\0", "is UTF-32"),
    ],
)
def test_what_is_no_text_is_refused(box: Toolbox, root: Path, data: bytes, words: str) -> None:
    """A binary file is neither read nor edited, and the refusal says what would show it."""
    (root / "blob").write_bytes(data)
    for reply in (box.read_file("blob"), box.str_replace("blob", "h", "x")):
        result = refusal(reply)
        assert words in result.content
        assert result.data["code"] == "UNSUPPORTED_CONTENT"  # type: ignore[index]
    assert data == (root / "blob").read_bytes()


def test_odd_bytes_are_shown_and_kept(box: Toolbox, root: Path) -> None:
    """A file that is not quite UTF-8 is read with replacements, and an edit keeps its other bytes."""
    (root / "latin.txt").write_bytes(b"caf\xe9 one\n")
    text, data = done(box.read_file("latin.txt"))
    assert ("caf� one\n", "unknown") == (text, data["encoding"])
    done(box.str_replace("latin.txt", "one", "two"))
    assert b"caf\xe9 two\n" == (root / "latin.txt").read_bytes()


def test_a_huge_file_is_refused_with_a_way_to_look_at_it(box: Toolbox, root: Path) -> None:
    """A file beyond what is scanned is refused, whatever its size costs nobody memory."""
    with (root / "huge.log").open("wb") as file:
        file.truncate(3 << 30)
    assert "head, tail, sed -n, grep" in refusal(box.read_file("huge.log")).content


@pytest.mark.parametrize(
    "offset, limit, words", [(10**9, None, "beyond the end"), (-1, None, "does not exist"), (1, 0, "are none")]
)
def test_lines_that_are_not_there_are_refused(
    box: Toolbox, root: Path, offset: int, limit: int | None, words: str
) -> None:
    """A window beyond the end, before the start or of no lines is an error, not an empty answer."""
    (root / "a.txt").write_text("1\n2\n")
    assert words in refusal(box.read_file("a.txt", offset, limit)).content


def test_e13_only_the_first_occurrence_is_replaced_unless_all_are_wanted(box: Toolbox, root: Path) -> None:
    """`str_replace` takes the first occurrence and says how many are left; `replace_all` takes every one."""
    (root / "a.txt").write_text("x x x\n")
    text, data = done(box.str_replace("a.txt", "x", "y"))
    assert text.startswith(
        "OK: replaced 1 of 3 occurrence(s) (1 line(s), 1 character(s)) in a.txt, line 1; 2 remaining"
    )
    assert "y x x\n" == (root / "a.txt").read_text()
    text, data = done(box.str_replace("a.txt", "x", "y", replace_all=True))
    assert "remaining" not in text
    assert (2, 2, sha256(b"y y y\n")) == (data["occurrences"], data["replaced"], data["sha256"])


def test_kernel_e2_an_ambiguous_snippet_is_refused_as_edit_file(box: Toolbox, root: Path) -> None:
    """`edit_file` changes nothing when the snippet is not unique, and says how often and where it is."""
    (root / "a.txt").write_bytes(b"x\r\nx\r\n\xff\n")
    before = (root / "a.txt").read_bytes()
    result = refusal(box.edit_file("a.txt", "x", "y"))
    assert "is not unique: it is 2 times" in result.content
    assert "lines 1, 2" in result.content
    assert ("CONFLICT", 2) == (result.data["code"], result.data["details"]["occurrences"])  # type: ignore[index]
    assert before == (root / "a.txt").read_bytes()
    text, _ = done(box.edit_file("a.txt", "x", "y", replace_all=True))
    assert "Replaced 2 occurrence(s) in a.txt, line 1" == text
    assert b"y\r\ny\r\n\xff\n" == (root / "a.txt").read_bytes()


Edit = Callable[[Toolbox], Reply]


@pytest.mark.parametrize(
    "edit, words",
    [
        (lambda box: box.str_replace("a.txt", "", "X", replace_all=True), "is empty"),
        (lambda box: box.edit_file("a.txt", "b", "b"), "are the same"),
        (lambda box: box.edit_file("a.txt", "nope", "b"), "is not in 'a.txt'"),
        (lambda box: box.str_replace("missing.txt", "a", "b"), "Not a file"),
        (lambda box: box.str_replace("sub", "a", "b"), "is a directory"),
        (lambda box: box.str_replace("a.txt", "b", "c", expected_sha256="0" * 64), "not the version that was expected"),
        (lambda box: box.write_file("a.txt", "c", "0" * 64), "not the version that was expected"),
        (lambda box: box.write_file("sub", "c"), "is a directory"),
        (lambda box: box.write_file("a.txt", "half \ud800"), "lone surrogate"),
        (lambda box: box.write_file("", "c"), "path is empty"),
        (lambda box: box.edit_file("a.txt", "     1\tabc", "x"), "leave out the line numbers"),
    ],
)
def test_an_edit_that_cannot_be_made_changes_nothing(box: Toolbox, root: Path, edit: Edit, words: str) -> None:
    """Every refused edit leaves the file as it was and says what to do instead."""
    (root / "a.txt").write_text("abc\n")
    (root / "sub").mkdir()
    assert words.lower() in refusal(edit(box)).content.lower()
    assert "abc\n" == (root / "a.txt").read_text()
    assert ["a.txt", "sub"] == sorted(os.listdir(root))


@pytest.mark.parametrize(
    "before, change, after",
    [
        (b"a\r\nb\r\n", ("a\nb", "x\ny"), b"x\r\ny\r\n"),
        (b"a\nb\r\nc\rd\n", ("a", "A"), b"A\nb\r\nc\rd\n"),
        (b"\xef\xbb\xbfimport os\n", ("import os", "import re"), b"\xef\xbb\xbfimport re\n"),
        (b"a\nb", ("b", "c"), b"a\nc"),
        ("h\u00e9\n".encode("utf-16"), ("h\u00e9", "ho"), "ho\n".encode("utf-16")),
    ],
    ids=["tools-01-crlf", "tools-03-mixed", "tools-04-bom", "tools-14-no-final-newline", "tools-06-utf16"],
)
def test_an_edit_changes_only_what_it_names(
    box: Toolbox, root: Path, before: bytes, change: tuple[str, str], after: bytes
) -> None:
    """Line ends, byte order mark, encoding and a missing final newline survive an edit."""
    (root / "a.txt").write_bytes(before)
    done(box.str_replace("a.txt", *change))
    assert after == (root / "a.txt").read_bytes()


def test_mode_and_links_survive_an_edit(box: Toolbox, root: Path) -> None:
    """An executable stays one, and a link stays a link whose target is changed."""
    script = root / "run.sh"
    script.write_text("echo a\n")
    script.chmod(0o755)
    (root / "link.sh").symlink_to("run.sh")
    done(box.str_replace("link.sh", "a", "b"))
    assert (True, 0o755, "echo b\n") == (
        (root / "link.sh").is_symlink(),
        script.stat().st_mode & 0o777,
        script.read_text(),
    )


def test_directories_are_listed_before_files(box: Toolbox, root: Path) -> None:
    """`list_dir` gives type and name a line, the kernel's form names with a slash; both say when there is nothing."""
    assert ("(empty)", "(empty)") == (done(box.list_dir())[0], done(box.list_names("."))[0])
    (root / "b").mkdir()
    (root / "a.txt").touch()
    (root / "odd\nname").touch()
    assert "d  b\nf  a.txt\nf  'odd\\nname'" == done(box.list_dir("."))[0]
    assert "a.txt\nb/\n'odd\\nname'" == done(box.list_names())[0]
    assert "Not a directory: 'c'" in refusal(box.list_dir("c")).content
    assert "Not a directory: 'a.txt'" in refusal(box.list_dir("a.txt")).content


def test_a_long_listing_is_cut_and_says_so(box: Toolbox, root: Path) -> None:
    """Of very many entries the first thousand are listed, with how many there are."""
    for number in range(1_005):
        (root / f"{number:05}").touch()
    text, data = done(box.list_dir())
    assert "f  00999\n[1000 of 1005 shown; glob finds by name]" == text[-50:].partition("\n")[2]
    assert 1_005 == data["total"]


def test_file_info_tells_type_size_and_count(box: Toolbox, root: Path) -> None:
    """`file_info` tells files from directories, counts lines or entries, and knows binary from text."""
    (root / "a.txt").write_text("1\n2\n")
    (root / "blob").write_bytes(b"\0\1")
    text, data = done(box.file_info("a.txt"))
    assert ("file", 4, 2) == (data["type"], data["size"], data["lines"])
    assert "type: file\nsize: 4" in text
    assert 2 == done(box.file_info("."))[1]["entries"]
    assert "unknown (binary)" == done(box.file_info("blob"))[1]["lines"]
    assert "No such path: 'nope'" in refusal(box.file_info("nope")).content


def test_concurrent_edits_of_one_file_are_all_there(box: Toolbox, root: Path) -> None:
    """Edits of different places at the same time never lose each other."""
    import threading

    (root / "a.txt").write_text("".join(f"<{number}>\n" for number in range(20)))
    threads = [
        threading.Thread(target=box.edit_file, args=("a.txt", f"<{number}>", f"[{number}]")) for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "".join(f"[{number}]\n" for number in range(20)) == (root / "a.txt").read_text()


def test_a_refusal_is_an_answer_with_its_text_and_data(box: Toolbox) -> None:
    """What programs get of a refusal is its text, the words of the error and its code."""
    text, data = as_answer(box.read_file("nothing"))
    assert text == data["result"]
    assert ("NOT_FOUND", "not a file: 'nothing' does not exist") == (data["code"], data["error"])
