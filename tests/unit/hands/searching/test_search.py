"""Search: the same results with ripgrep and without it, from inside the base only, in bounded time and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from plait.core.cancel import Cancel
from plait.core.errors import Refusal, ToolFault
from plait.hands.reach import OutsidePolicy, Reach
from plait.hands.searching import regex_worker
from plait.hands.searching.listing import find_paths, list_entries
from plait.hands.searching.patterns import compile_pattern
from plait.hands.searching.python_search import PythonSearch, SearchStopped
from plait.hands.searching.ripgrep import Ripgrep
from plait.hands.searching.search import SearchQuery, SearchResult, search
from plait.hands.searching.walk import WalkRules
from plait.hands.secret_places import SecretPlaces
from plait.hands.workspace import Workspace
from tests.unit.hands.ground import Ground


@pytest.fixture(params=["ripgrep", "python"])
def engine(request: pytest.FixtureRequest) -> Ripgrep | None:
    """Each engine in turn."""
    return request.getfixturevalue("ripgrep") if request.param == "ripgrep" else None


def lines(result: SearchResult) -> list[str]:
    """Matches as a tool would print them."""
    return [f"{match.path}:{match.line}:{match.text}" for match in result.matches]


def outcome(workspace: Workspace, query: SearchQuery, ripgrep: Ripgrep | None = None) -> SearchResult | str:
    """The result without the engine's name, or the words of the refusal."""
    try:
        return replace(search(workspace, query, ripgrep=ripgrep), engine="python")
    except Refusal as refusal:
        return refusal.message


def fill(ground: Ground, **files: str | bytes) -> None:
    """Write files; `__` in a name is a slash, and a last `_x` its extension."""
    for name, content in files.items():
        path = ground.root / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_lines_are_found(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """Every matching line once, in order of path and line, with its path below the workspace."""
    fill(ground, README_md="# demo\nTODO one\n", src__a_py="x\n", src__b_py="TODO two TODO\r\nno\nTODO three")
    result = search(workspace, SearchQuery("TODO"), ripgrep=engine)
    assert ["README.md:2:TODO one", "src/b.py:1:TODO two TODO", "src/b.py:3:TODO three"] == lines(result)
    assert (3, False, "") == (result.scanned_files, result.is_truncated, result.stopped)
    below = search(workspace, SearchQuery("TODO"), path="src", ripgrep=engine)
    assert ["src/b.py:1:TODO two TODO", "src/b.py:3:TODO three"] == lines(below)


def test_one_file_is_searched(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """A path may be a file, ignored or not."""
    fill(ground, _gitignore="*.log\n", d__a_log="hit\n")
    assert ["d/a.log:1:hit"] == lines(search(workspace, SearchQuery("h.t"), path="d/a.log", ripgrep=engine))


def test_files_can_be_filtered(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """A filter without a slash fits a name at any depth, unless it is anchored; what it leaves out is counted."""
    fill(ground, a_py="hit", src__b_py="hit", src__c_md="hit")
    anywhere = search(workspace, SearchQuery("hit", include="*.py"), ripgrep=engine)
    assert (["a.py:1:hit", "src/b.py:1:hit"], 1) == (lines(anywhere), anywhere.filtered_files)
    anchored = search(workspace, SearchQuery("hit", include="*.py", include_anchored=True), ripgrep=engine)
    assert ["a.py:1:hit"] == lines(anchored)
    either = search(workspace, SearchQuery("HIT", include="src/*.{py,md}", ignores_case=True), ripgrep=engine)
    assert ["src/b.py:1:hit", "src/c.md:1:hit"] == lines(either)


def test_results_are_limited(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """No more than asked for come back, and it is told that there are more."""
    fill(ground, a="hit\n" * 3, b="hit\n" * 50, c="hit\n")
    result = search(workspace, SearchQuery("hit", results_max=5), ripgrep=engine)
    assert (5, True, 2) == (len(result.matches), result.is_truncated, result.scanned_files)
    exact = search(workspace, SearchQuery("hit", results_max=54), ripgrep=engine)
    assert (54, False, 3) == (len(exact.matches), exact.is_truncated, exact.scanned_files)


def test_context_is_given(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """Lines before and after, as many as there are."""
    fill(ground, f="1\n2\nhit\n4\n5\n6\nhit\n")
    first, second = search(workspace, SearchQuery("hit", context=2), ripgrep=engine).matches
    assert (("1", "2"), ("4", "5")) == (first.before, first.after)
    assert (("5", "6"), ()) == (second.before, second.after)


def test_nothing_outside_is_found(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """Neither links nor filters nor patterns nor paths lead to what is beside the workspace."""
    (ground.root / "link").symlink_to(ground.outside)
    (ground.root / "file").symlink_to(ground.outside / "canary")
    (ground.root / "hard").mkdir()
    assert [] == lines(search(workspace, SearchQuery("outside"), ripgrep=engine))
    refused: list[Callable[[], object]] = [
        lambda: search(workspace, SearchQuery("outside", include="../*"), ripgrep=engine),
        lambda: search(workspace, SearchQuery("outside"), path="../outside", ripgrep=engine),
        lambda: search(workspace, SearchQuery("outside"), path="link", ripgrep=engine),
        lambda: search(workspace, SearchQuery("outside"), path="file", ripgrep=engine),
        lambda: find_paths(workspace, "../*"),
        lambda: find_paths(workspace, "../outside/*"),
        lambda: find_paths(workspace, "link/*"),
    ]
    for call in refused:
        with pytest.raises(Refusal):
            call()
    assert ("file", "hard/", "link") == find_paths(workspace, "*").paths
    assert ("file", "hard/", "link") == find_paths(workspace, "**/*").paths


def test_a_link_swapped_in_brings_nothing(ground: Ground, workspace: Workspace, ripgrep: Ripgrep) -> None:
    """What ripgrep saw through a link that was swapped in is not in the result: lines are read again, beneath."""
    fill(ground, d__canary="inside\n")

    class Swapping(Ripgrep):
        """Exchanges the directory for a link to the outside before ripgrep runs, and back after."""

        def search(self, *arguments: object, **options: object):  # type: ignore[no-untyped-def,override]
            (ground.root / "d").rename(ground.root / "away")
            (ground.root / "d").symlink_to(ground.outside)
            try:
                return list(super().search(*arguments, **options))  # type: ignore[arg-type]
            finally:
                (ground.root / "d").unlink()
                (ground.root / "away").rename(ground.root / "d")

    result = search(workspace, SearchQuery("side"), ripgrep=Swapping(ripgrep.executable))
    assert ["d/canary:1:inside"] == lines(result)


def test_odd_names_are_right(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """Colons, newlines, leading dashes and bytes that are no text in a name confuse nothing."""
    for name in (b"a:1:b", b"x\ny:2:z", b"-rf", b"\xff", b"with space"):
        (ground.root / os.fsdecode(name)).write_text("hit\n")
    found = {(match.path, match.line) for match in search(workspace, SearchQuery("hit"), ripgrep=engine).matches}
    assert {("a:1:b", 1), ("x\ny:2:z", 1), ("-rf", 1), ("\ufffd", 1), ("with space", 1)} == found


def test_binary_and_large_files_are_passed_over(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """A NUL near the start, UTF-16, and more bytes than allowed: not searched, the large ones counted."""
    fill(ground, a=b"hit\0\n", b="hit".encode("utf-16"), c="hit\n" * 2_000, d="hit\n")
    result = search(workspace, SearchQuery("hit", file_bytes_max=1_000), ripgrep=engine)
    assert (["d:1:hit"], 1) == (lines(result), result.skipped_large)


def test_long_lines_are_cut_around_the_match(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """A line of 5 MB costs a few hundred characters, with the match among them and its column told."""
    fill(ground, f="x" * 2_000_000 + "\u00e9hit" + "x" * 3_000_000)
    (match,) = search(workspace, SearchQuery("hit"), ripgrep=engine).matches
    assert (2_000_002, True, 502) == (match.column, "\u00e9hit" in match.text, len(match.text))


def test_text_that_is_not_utf8_is_found(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """Broken bytes match nothing and hide nothing."""
    fill(ground, f=b"caf\xe9 hit\n")
    assert ["f:1:caf\ufffd hit"] == lines(search(workspace, SearchQuery("hit"), ripgrep=engine))
    assert [] == lines(search(workspace, SearchQuery("caf. hit"), ripgrep=engine))


def test_a_byte_order_mark_is_not_in_the_way(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """The first line begins after the mark."""
    fill(ground, f=b"\xef\xbb\xbfimport os\n")
    (match,) = search(workspace, SearchQuery("^import"), ripgrep=engine).matches
    assert ("import os", 1) == (match.text, match.column)


def test_ignore_files_above_the_base_hold(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """A part of the tree leaves out what the whole would; a base that is itself ignored is searched whole."""
    fill(
        ground, _gitignore="*.log\n/build/\n/src/x\n", src__a_log="hit", src__x="hit", src__b="hit", build__c_log="hit"
    )
    assert ["src/b:1:hit"] == lines(search(workspace, SearchQuery("hit"), path="src", ripgrep=engine))
    assert ["build/c.log:1:hit"] == lines(search(workspace, SearchQuery("hit"), path="build", ripgrep=engine))


def test_the_host_admits_by_the_path_as_shown(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """`admit` hears paths below the workspace, also when a part of it is searched."""
    fill(ground, src__a="hit", src__b="hit")
    rules = WalkRules(admit=lambda path, _: path != "src/a")
    assert ["src/b:1:hit"] == lines(search(workspace, SearchQuery("hit"), path="src", rules=rules, ripgrep=engine))
    assert ("src/b",) == find_paths(workspace, "src/*", rules=rules).paths
    assert ["b"] == [entry.name for entry in list_entries(workspace, "src", rules).entries]


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", ".*.*.*=.*"])
def test_a_pattern_that_explodes_is_ended(ground: Ground, workspace: Workspace, pattern: str) -> None:
    """Python's engine is killed at the deadline, while this process goes on; nothing hangs."""
    fill(ground, f="a" * 3_000 + "!\n")
    begun = time.monotonic()
    result = search(workspace, SearchQuery(pattern), rules=WalkRules(deadline_s=0.3))
    assert time.monotonic() - begun < 5
    assert result.stopped in {"", "deadline"}


def test_ripgrep_is_linear(ground: Ground, workspace: Workspace, ripgrep: Ripgrep) -> None:
    """The same pattern is no effort for ripgrep."""
    fill(ground, f="a" * 3_000 + "!\n")
    assert "" == search(workspace, SearchQuery("(a+)+$"), ripgrep=ripgrep).stopped


def test_a_cancel_ends_a_search(ground: Ground, workspace: Workspace, engine: Ripgrep | None) -> None:
    """A signal that was given ends the search with what it has."""
    fill(ground, f="a" * 3_000 + "!\n")
    cancel = Cancel()
    cancel.cancel("user")
    result = search(workspace, SearchQuery("(a+)+$"), rules=WalkRules(cancel=cancel), ripgrep=engine)
    assert ("cancelled", ()) == (result.stopped, result.matches)


def test_an_absolute_pattern_is_about_its_place(ground: Ground, workspace: Workspace) -> None:
    """A glob may name the workspace by its absolute path; what is elsewhere stays out of reach."""
    fill(ground, src__a_py="", b_py="")
    assert ("src/a.py",) == find_paths(workspace, f"{ground.root}/src/*.py").paths
    assert ("b.py", "src/a.py") == find_paths(workspace, f"{ground.root}/**/*.py").paths
    for pattern in (f"{ground.outside}/*", "/*", "~/*"):
        with pytest.raises(Refusal):
            find_paths(workspace, pattern)


def test_a_search_passes_secrets_over(ground: Ground, engine: Ripgrep | None) -> None:
    """With secret places known, neither a search nor a glob enters them, whatever they are called here."""
    fill(ground, home__notes="hit\n")
    (ground.root / "home/.ssh").mkdir()
    (ground.root / "home/.ssh/key").write_text("hit\n")
    (ground.root / "home/copy").hardlink_to(ground.root / "home/.ssh/key")
    secrets = SecretPlaces.usual(str(ground.root / "home"))
    reach = Reach(ground.workspace(), OutsidePolicy(secrets=secrets))
    assert ["home/notes:1:hit"] == lines(search(reach, SearchQuery("hit"), ripgrep=engine))
    assert ("home/notes",) == find_paths(reach, "home/**").paths


def test_what_is_not_there_is_refused(ground: Ground, workspace: Workspace) -> None:
    """A missing path and a bad pattern are refusals; a pattern in a missing directory finds nothing."""
    with pytest.raises(Refusal, match="no such path"):
        search(workspace, SearchQuery("x"), path="no")
    with pytest.raises(Refusal, match="pattern"):
        search(workspace, SearchQuery("("))
    assert () == find_paths(workspace, "no/such/*.py").paths
    with pytest.raises(Refusal):
        find_paths(workspace, "*", path="no")


def test_ripgrep_that_fails_is_replaced(ground: Ground, workspace: Workspace, tmp_path: Path) -> None:
    """When the ripgrep that was found does not work, Python does it."""
    fill(ground, f="hit\n")
    fake = tmp_path / "rg"
    fake.write_text("#!/bin/sh\nkill -SEGV $$\n")
    fake.chmod(0o755)
    assert ["f:1:hit"] == lines(search(workspace, SearchQuery("hit"), ripgrep=Ripgrep(str(fake))))
    assert ["f:1:hit"] == lines(search(workspace, SearchQuery("hit"), ripgrep=Ripgrep("/no/such/rg")))


def test_a_planted_ripgrep_is_never_run(ground: Ground, ripgrep: Ripgrep, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called `rg` in the workspace, in the working directory or does not answer like ripgrep is passed over."""
    planted = ground.root / "bin/rg"
    planted.parent.mkdir()
    planted.write_text(f"#!/bin/sh\ntouch {ground.root}/ran\necho ripgrep 99\n")
    planted.chmod(0o755)
    (ground.outside / "rg").write_text("#!/bin/sh\necho other program\n")
    (ground.outside / "rg").chmod(0o755)
    monkeypatch.chdir(ground.root / "bin")
    path = os.pathsep.join([str(ground.root / "bin"), ".", "", str(ground.outside), os.environ["PATH"]])
    (ground.root / ".git").mkdir()
    (ground.root / "folder").mkdir()
    assert ripgrep == Ripgrep.find(path, avoid=str(ground.root))
    assert ripgrep == Ripgrep.find(path, avoid=str(ground.root / "folder"))
    assert not (ground.root / "ran").exists()


def test_the_helper_survives_what_it_cannot_match() -> None:
    """A content without a match, an empty one and one without a last line end are answered in turn."""
    with PythonSearch(compile_pattern("a*b"), hits_max=10) as engine:
        assert [[], [], [(1, 1)], [(2, 0)]] == [engine.find(data) for data in (b"x\n", b"", b"xab", b"x\nb\n")]


def test_the_helper_can_die(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A helper that dies by itself is a fault of the machinery, not an empty result; one that was stopped says so."""
    broken = tmp_path / "worker.py"
    broken.write_text("raise SystemExit(1)\n")
    monkeypatch.setattr(regex_worker, "__file__", str(broken))
    with PythonSearch(compile_pattern("a*b"), hits_max=10) as engine, pytest.raises(ToolFault):
        engine.find(b"x")
    cancel = Cancel()
    with PythonSearch(compile_pattern("a*b"), hits_max=10, cancel=cancel) as engine:
        cancel.cancel("user")
        with pytest.raises(SearchStopped):
            engine.find(b"x")


def test_a_listing_is_sorted_and_marked(ground: Ground, workspace: Workspace) -> None:
    """Every entry with its kind; noise is marked, not dropped; what is too much is counted."""
    fill(ground, b="", a__x="", node_modules__x="")
    (ground.root / "link").symlink_to("a")
    (ground.root / "node.modules").rename(ground.root / "node_modules")
    entries = list_entries(workspace, ".").entries
    assert [
        ("a", "directory", False),
        ("b", "file", False),
        ("link", "link", False),
        ("node_modules", "directory", True),
    ] == [(entry.name, entry.kind, entry.is_noise) for entry in entries]
    assert 3 == list_entries(workspace, ".", entries_max=1).left_out


PIECES = st.sampled_from(
    [
        *("a", "b", "A", "k", "s", " ", "-", "\u00e9", "\u212a", ".", r"\.", r"\x{e9}", r"\d", r"\w", r"\s"),
        *(r"\S", r"\W", "[a-c]", "[^a]", "[^\u00e9]", "[[:upper:]]", "^", "$", r"\b", "(a|b)", "(?:|a)"),
        *("a*", ".*", "(ab)+", r"\w{2}", "a?", "[^b]+?"),
    ]
)
PATTERNS = st.lists(PIECES, min_size=1, max_size=4).map("".join)
LETTERS = st.sampled_from("a b ab A k S 1 _ . - \u00e9 \u0661 \u2028 \u017f \u212a \ufeff".split(" ")).map(str.encode)
BYTES = st.sampled_from(
    [b" ", b"\t", b"\n", b"\r\n", b"\r", b"\x0b", b"\x85", b"\x1c", b"\xff", b"\xe2\x82", b"\xed\xa0\x80"]
)
CONTENT = st.lists(LETTERS | BYTES, max_size=12).map(b"".join)


@given(
    pattern=PATTERNS,
    contents=st.lists(CONTENT, min_size=1, max_size=4),
    is_literal=st.booleans(),
    ignores_case=st.booleans(),
    results_max=st.integers(1, 4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_engines_find_the_same(
    *,
    ground: Ground,
    workspace: Workspace,
    ripgrep: Ripgrep,
    pattern: str,
    contents: list[bytes],
    is_literal: bool,
    ignores_case: bool,
    results_max: int,
) -> None:
    """For any pattern of the shared syntax and files of any bytes, every field of the result is the same."""
    for path in ground.root.iterdir():
        path.unlink()
    for number, content in enumerate(contents):
        (ground.root / f"f{number}").write_bytes(content)
    query = SearchQuery(pattern, is_literal, ignores_case, results_max=results_max, context=1)
    assert outcome(workspace, query) == outcome(workspace, query, ripgrep)
