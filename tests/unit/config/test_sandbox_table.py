"""The table `[sandbox]`: what it may say, and what of a repository's own counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from plait.config.sandbox_table import MODES, SandboxTable, table_in
from plait.core.errors import ConfigError


def written(folder: Path, text: str) -> Path:
    """Write a plait.toml."""
    path = folder / "plait.toml"
    path.write_text(text)
    return path


def test_a_table_is_read_whole(tmp_path: Path) -> None:
    """Every key has its value; a file without the table, and no file, say nothing."""
    path = written(
        tmp_path,
        '[sandbox]\nmode = "on"\nnetwork = ["example.org"]\nwritable = ["src"]\nread_only = ["vendor", "/opt/x"]\n'
        'environment = { CI = "1" }\nlandlock_alone = true\n',
    )

    assert table_in(path) == SandboxTable(
        mode="on",
        network=("example.org",),
        writable=("src",),
        read_only=("vendor", "/opt/x"),
        environment={"CI": "1"},
        landlock_alone=True,
    )
    assert SandboxTable(network=()) == table_in(written(tmp_path, '[sandbox]\nnetwork = "none"\n'))
    assert None is table_in(written(tmp_path, "[permissions]\n"))
    assert None is table_in(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "text, place, advice",
    [
        ("# one\n[sandbox]\nnetwerk = []\n", ":3: [sandbox] knows no 'netwerk'", "did you mean 'network'?"),
        ("[other]\nmode = 1\n\n[ sandbox ]\nmode = 'of'\n", ":5: 'mode' is 'of'", "did you mean 'off'?"),
        ("sandbox.writable = 'src'\n", ":1: 'writable' is 'src'", "list of texts"),
        ("[sandbox]\nread_only = ['']\n", ":2: 'read_only' is ['']", "list of texts"),
        ('[sandbox]\nread_only = ["a\\u0000b"]\n', ":2: 'read_only' is", "zero byte"),
        (f"[sandbox]\nwritable = {['a'] * 501}\n", ":2: 'writable' is", "more than 500"),
        ("[sandbox.environment]\nCI = 1\n", ":1: 'environment' is {'CI': 1}", "table of texts"),
        ("[sandbox]\nlandlock_alone = 'yes'\n", ":2: 'landlock_alone' is 'yes'", "true or false"),
        ("sandbox = 'on'\n", "' is no table", "[sandbox]"),
    ],
)
def test_what_means_nothing_is_refused_with_its_place(text: str, place: str, advice: str, tmp_path: Path) -> None:
    """The message names the file, the line and the value, the advice what was meant."""
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        table_in(path)

    assert f"{path}{place}" in caught.value.message
    assert advice in str(caught.value.hint)


def test_a_repository_may_only_tighten() -> None:
    """Less network, fewer writable paths and more read-only ones count; what would loosen is named and left out."""
    own = SandboxTable(network=("a.org", "b.org"), writable=("src", "docs"), environment={"A": "1"})
    theirs = SandboxTable(
        mode="on",
        network=("b.org", "evil.org"),
        writable=("src/app", "."),
        read_only=("vendor", "/home", "../up"),
        environment={"B": "2"},
        landlock_alone=True,
    )
    table, unused = own.tightened_by(theirs)

    assert ("on", ("b.org",), ("vendor",)) == (table.mode, table.network, table.read_only)
    assert {"src", "src/app", "docs"} == set(table.writable or ())
    assert ({"A": "1"}, None) == (table.environment, table.landlock_alone)
    assert ("network", "read_only", "environment", "landlock_alone") == unused
    looser, left = own.tightened_by(SandboxTable(mode="off"))
    assert ("auto", ("mode",)) == (looser.mode, left)


PATHS = st.lists(st.sampled_from([".", "a", "a/b", "c", "/x", "..", "~/y"]), max_size=3).map(tuple)
TABLES = st.builds(
    SandboxTable,
    mode=st.none() | st.sampled_from(MODES),
    network=st.none() | st.lists(st.sampled_from(["a.org", "b.org"]), max_size=2).map(tuple),
    writable=st.none() | st.lists(st.sampled_from([".", "a", "a/b", "c"]), max_size=3).map(tuple),
    read_only=st.none() | PATHS,
    landlock_alone=st.none() | st.booleans(),
)


@given(own=TABLES, theirs=TABLES)
def test_nothing_is_wider_for_a_repository(own: SandboxTable, theirs: SandboxTable) -> None:
    """Whatever a repository says, what its user has closed stays closed."""
    table, _ = own.tightened_by(theirs)

    def covers(paths: tuple[str, ...] | None, path: str) -> bool:
        return any(
            each == "." or path == each or path.startswith(f"{each}/") for each in ((".",) if paths is None else paths)
        )

    assert MODES.index(table.mode or "auto") >= MODES.index(own.mode or "auto")
    assert set(table.network or ()) <= set(own.network or ())
    assert all(covers(own.writable, path) for path in ((".",) if table.writable is None else table.writable))
    assert set(own.read_only or ()) <= set(table.read_only or ())
    assert (table.landlock_alone, table.environment) == (own.landlock_alone, own.environment)


def test_paths_mean_the_same_from_a_folder_of_the_repository(tmp_path: Path) -> None:
    """What lies in the folder is meant as it is, what lies around it is all of it, what lies beside it is nothing."""
    folder = tmp_path / "docs"
    folder.mkdir()
    table = SandboxTable(writable=("docs/en", "src"), read_only=(".", "docs/vendor", "src", "/opt/x"))
    seen = table.seen_from(str(tmp_path), str(folder))

    assert (("en",), (".", "vendor", "/opt/x")) == (seen.writable, seen.read_only)
    assert table == table.seen_from(str(tmp_path), os.path.realpath(tmp_path))
