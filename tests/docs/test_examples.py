"""Every example of the README and of docs/ works, and what runs them notices when one does not."""

from __future__ import annotations

import os
import re
import traceback
from pathlib import Path

import pytest

from tests.docs.examples import REPOSITORY, run_page

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
PAGES_WITH_LINKS = sorted({*PAGES, *REPOSITORY.glob("*.md")})


def name_of(page: Path) -> str:
    """Return a page's path inside the repository."""
    return page.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_of_a_page_work(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in order, in an empty folder, each example does what the page says."""
    monkeypatch.chdir(tmp_path)

    run_page(page, name_of(page))


@pytest.mark.parametrize("page", PAGES_WITH_LINKS, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    """A relative link names a file or folder of the repository."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)

    assert [] == [t for t in targets if not t.startswith(("http", "mailto:")) and not (page.parent / t).exists()]


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("```console\n$ false\n```\n", "page.md:2: $ false\n[exit 1, not 0]"),
        ("```console\n$ true  # exit 2\n```\n", "page.md:2: $ true\n[exit 0, not 2]"),
        ("```console\n$ true\n\n$ echo one\ntwo\n```\n", "page.md:4: $ echo one\none\n[is not what the page shows]"),
        ("```sh\nmake coffee\n```\n", "page.md:2: there is no `make coffee`"),
        ("```\nx\n```\n", "page.md:2: a block tagged ''; see tests/docs"),
        ("Text.\n\n```python\n\nassert 1 == 2\n```\n", 'File "page.md", line 5'),
    ],
)
def test_an_example_that_does_not_hold_is_found(tmp_path: Path, text: str, complaint: str) -> None:
    """The complaint names the page, the line and what happened."""
    page = tmp_path / "page.md"
    page.write_text(text)

    with pytest.raises(AssertionError) as caught:
        run_page(page, "page.md")

    assert complaint in "".join(traceback.format_exception(caught.value))


def test_examples_share_a_namespace_a_folder_and_an_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hidden set-up, Python and commands of one page build on one another; `…` matches what varies."""
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- python\nimport os, pathlib\nos.environ['WHO'] = 'you'\ncleanup.callback(pathlib.Path('end').touch)\n-->\n"
        "```python\npathlib.Path('greeting').write_text(f\"hello {os.environ['WHO']}\")\n```\n"
        "```console\n$ cat \\\n  greeting && date\nhello you…\n$ sh -c 'exit 3'  # exit 3\n```\n"
        "```text\n$ false\n```\n"
    )

    run_page(page, "page.md")

    assert ("you", True) == (os.environ["WHO"], (tmp_path / "end").exists())
