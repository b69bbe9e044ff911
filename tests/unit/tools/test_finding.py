"""Finding files and lines over real trees."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from plait.core.cancel import Cancel
from plait.core.messages import ToolResult
from plait.kernel.tools import ToolContext
from plait.tools.toolbox import Toolbox

from .conftest import MakeToolbox
from .replies import text_of


@pytest.fixture
def tree(root: Path) -> Path:
    """Fill the workspace with a small project."""
    files = {
        "README.md": "# Title\nhello world\n",
        "src/app.py": "import os\n\ndef main():\n    return 'Hello'\n",
        "src/deep/er/mod.py": "x = 1\ny = 2\nz = x + y\n",
        "src/__pycache__/app.pyc.py": "hello\n",
        ".git/config": "hello\n",
        "odd:name.txt": "a:hello:b\n",
        "blob.bin": "hello\0world\n",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


@pytest.mark.usefixtures("tree")
def test_kernel_e3_files_are_found_by_name_at_any_depth(box: Toolbox) -> None:
    """`**` goes through directories, caches and version control are passed over, and nothing found is no error."""
    assert "src/app.py\nsrc/deep/er/mod.py" == text_of(box.glob("**/*.py"))
    assert "src/deep/" == text_of(box.find_files("*", "src")).splitlines()[1]
    assert ("(no matches)", "(no files match '*.rs')") == (text_of(box.glob("*.rs")), text_of(box.find_files("*.rs")))
    reply = box.find_files("*.rs")
    assert not isinstance(reply, ToolResult)
    assert reply[1].get("ok") is not False


@pytest.mark.usefixtures("tree")
def test_a_pattern_may_say_where_to_begin(box: Toolbox, root: Path, home: Path) -> None:
    """Absolute patterns, `~` and `..` begin where they say, as far as policy reaches."""
    (home / "notes").mkdir()
    (home / "notes/a.md").touch()
    (root.parent / "beside").mkdir()
    (root.parent / "beside/b.md").touch()
    assert f"{home}/notes/a.md" == text_of(box.glob("~/notes/*.md"))
    assert f"{root.parent}/beside/b.md" == text_of(box.glob(f"{root.parent}/be*/*.md"))
    assert f"{root.parent}/beside/b.md" == text_of(box.glob("../*/b.md"))
    assert "src/app.py" == text_of(box.glob(f"{root}/src/*.py"))


@pytest.mark.usefixtures("tree")
def test_kernel_e4_lines_are_found_by_pattern(box: Toolbox) -> None:
    """A match is `path:line:text`; a filter, ignored case and a maximum narrow it; a bad pattern is an error."""
    assert text_of(box.search_files("hello")).startswith("README.md:2:hello world")
    assert "odd:name.txt:1:a:hello:b" in text_of(box.search_files("hello"))
    assert "blob.bin" not in text_of(box.search_files("hello"))
    assert "src/app.py:4:    return 'Hello'" == text_of(box.search_files("HELLO", glob="*.py", ignore_case=True))
    assert "src/app.py:4:    return 'Hello'" == text_of(box.search_files("Hello", include="src/**"))
    assert "(no matches for 'nope')" == text_of(box.search_files("nope"))
    bad = box.search_files("a(b")
    assert isinstance(bad, ToolResult)
    assert "a(b" in bad.content


def test_kernel_e4_a_maximum_of_matches_is_said(box: Toolbox, root: Path) -> None:
    """Five of fifty matches are shown, and that there are more."""
    (root / "many.txt").write_text("hit\n" * 50)
    lines = text_of(box.search_files("hit", max_results=5)).splitlines()
    assert [f"many.txt:{number}:hit" for number in range(1, 6)] == lines[:5]
    assert ["[stopped at 5 matches; there are more]"] == lines[5:]


@pytest.mark.usefixtures("tree")
def test_context_is_shown_once_and_gaps_are_marked(box: Toolbox, root: Path) -> None:
    """Lines around matches are printed once, and `--` stands where lines were left out or a file ends."""
    (root / "a.txt").write_text("1\nhit\n3\nhit\n5\n6\n7\n8\nhit\n")
    (root / "b.txt").write_text("hit\n2\n")
    expected = "1 2* 3 4* 5 -- 8 9* -- 1* 2"
    lines = text_of(box.search_files("hit", glob="[ab].txt", context=1)).splitlines()
    shown = [line if line == "--" else line[6:7] + ("*" if line[5] == ":" else "") for line in lines]
    assert expected == " ".join(shown)


def test_kernel_e5_nothing_outside_the_workspace_appears(make: MakeToolbox, root: Path) -> None:
    """Neither `..` in a pattern nor a link brings a name or a line from outside, where policy says inside only."""
    (root.parent / "secret.txt").write_text("password\n")
    (root / "link").symlink_to(root.parent)
    (root / "direct.txt").symlink_to(root.parent / "secret.txt")
    box = make(policy="inside_only")
    for reply in (
        box.search_files("password", glob="../*"),
        box.search_files("password"),
        box.search_files("password", path="link"),
        box.search_files("password", path="direct.txt"),
        box.find_files("../*"),
        box.find_files("link/*"),
        box.find_files("**/../../*"),
        box.find_files(f"{root.parent}/*"),
    ):
        assert "secret.txt" not in text_of(reply)
        assert "password\n" not in text_of(reply)


def test_secret_places_are_not_searched(box: Toolbox, home: Path) -> None:
    """A search above a secret place does not read it."""
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("the key\n")
    (home / "notes").write_text("the notes\n")
    assert f"{home}/notes:1:the notes" == text_of(box.search_files("^the", path=str(home)))
    assert ".ssh/id" not in text_of(box.glob(f"{home}/**"))


@pytest.mark.skipif(shutil.which("rg") is None, reason="needs ripgrep")
@pytest.mark.usefixtures("tree")
def test_ripgrep_and_python_find_the_same(make: MakeToolbox, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Without ripgrep on the PATH every answer is the same text."""
    (root / ".gitignore").write_text("*.md\n")
    searches = [
        {"pattern": r"\w+ = [0-9]", "context": 1},
        {"pattern": "hello|Hello"},
        {"pattern": "^x", "glob": "src/**/*.py"},
        {"pattern": "nothing at all"},
        {"pattern": "Title"},
    ]
    with_it = [text_of(make().search_files(**search)) for search in searches]  # type: ignore[arg-type]
    assert make().finding.ripgrep is not None
    monkeypatch.setenv("PATH", os.devnull)
    without = make()
    assert without.finding.ripgrep is None
    assert with_it == [text_of(without.search_files(**search)) for search in searches]  # type: ignore[arg-type]
    assert "passed over" in with_it[-1]


def test_tools_35_a_giant_line_is_cut_around_its_match(box: Toolbox, root: Path) -> None:
    """A match inside a line of megabytes comes with some text around it, not with all of it."""
    (root / "min.js").write_text("a" * 3_000_000 + "needle" + "b" * 3_000_000)
    text = text_of(box.search_files("needle"))
    assert "needle" in text
    assert len(text) < 1_000


def test_a_result_that_is_too_large_is_cut_and_kept(make: MakeToolbox, root: Path) -> None:
    """Matches beyond the size of a result are in a file that the answer names."""
    (root / "many.txt").write_text("".join(f"hit {'x' * 200} {number}\n" for number in range(100)))
    box = make(result_tokens_max=1_000)
    reply = box.search_files("hit")
    assert not isinstance(reply, ToolResult)
    text, data = reply
    assert len(text) <= 4_000
    assert str(data["spill"]) in text
    assert "x 57" in text_of(box.search_files("x 57$", path=str(data["spill"])))
    assert 100 == len(Path(str(data["spill"])).read_text().splitlines())


def test_a_cancelled_search_ends(box: Toolbox, root: Path) -> None:
    """A signal that was given stops the descent, and the answer says so."""
    for number in range(200):
        (root / f"{number}.txt").write_text("hit\n")
    cancel = Cancel()
    cancel.cancel("enough")
    assert "[stopped: cancelled]" in text_of(box.search_files("hit", call=ToolContext("1", "k", cancel)))


def test_a_filter_that_fits_nothing_is_said(box: Toolbox, root: Path) -> None:
    """When no file fits the filter, the answer says that, because the pattern is not what is wrong."""
    (root / "a.txt").write_text("hit\n")
    assert "(no matches for 'hit')\n[none of the 1 files there fits '*.py']" == text_of(
        box.search_files("hit", glob="*.py")
    )
