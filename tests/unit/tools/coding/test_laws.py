"""Laws of the strict tools over random trees, calls and refusals."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.kernel.tools import Tool, as_result
from plait.tools.coding import CodingRequest, coding_tools

NAMES = st.sampled_from(["a", "b", "secret", "secrets", ".hidden"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
ODD = st.sampled_from(["../a", "/a", "a//b", "", ".", "a/../b", "a\\b", "~/a"])
WRITES = st.tuples(
    st.sampled_from(["write_file", "edit_file"]),
    st.one_of(PATHS, ODD),
    st.sampled_from(["x", "xx", "y"]),
    st.booleans(),
)


def tools_of(root: Path, **options: Any) -> dict[str, Tool]:
    return {tool.name: tool for tool in coding_tools(root, **{"authorize": lambda _: True, **options})}


def tree(root: Path) -> dict[str, str | None]:
    """Return every path below a directory, with what a file holds."""
    found = sorted(root.rglob("*"))
    return {str(path.relative_to(root)): None if path.is_dir() else path.read_text() for path in found}


@given(st.lists(WRITES, max_size=12))
def test_p_cod_3_what_was_asked_about_is_what_changes(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, str, str, bool]]
) -> None:
    """After each call the tree differs only in the path and the directories that the host was shown."""
    root = tmp_path_factory.mktemp("law")
    asked: list[CodingRequest] = []
    tools = tools_of(root, authorize=lambda request: asked.append(request) is None)
    for name, path, text, flag in calls:
        before = tree(root)
        asked.clear()
        more = {"content": text, "overwrite": flag} if name == "write_file" else {"old_text": "x", "new_text": text}
        result = as_result("1", tools[name].fn(path=path, **more))
        after = tree(root)
        changed = {each for each in {*before, *after} if before.get(each, "") != after.get(each, "")}
        if result.is_error:
            assert not changed
            continue
        (request,) = asked
        created: Any = request.details["created_directories"]
        assert path == request.details["path"]
        assert set(created) == {each for each in after if each not in before and after[each] is None}
        assert changed <= {path, *created}
        assert request.details["created"] == (path not in before)
    shutil.rmtree(root)


@contextmanager
def opened_below(folder: Path) -> Iterator[list[str]]:
    """Note every file and directory in `folder` that is opened."""
    found: list[str] = []
    original = os.open

    def watching(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        fd = original(path, flags, *args, **kwargs)
        where = os.readlink(f"/proc/self/fd/{fd}")
        if where == str(folder) or where.startswith(f"{folder}/"):
            found.append(where)
        return fd

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", watching)
        yield found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="what was opened is read from /proc")
@given(st.sets(PATHS, max_size=8), st.one_of(PATHS, st.just("secret")))
def test_p_cod_2_below_a_refused_path_nothing_is_opened_counted_or_told(
    tmp_path_factory: pytest.TempPathFactory, files: set[str], refused: str
) -> None:
    """What a refused tree holds makes no difference to any answer, and is neither asked about nor opened."""
    root = tmp_path_factory.mktemp("law").resolve()
    for path in sorted(files, key=len):
        if not any((root / parent).is_file() for parent in Path(path).parents) and not (root / path).exists():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"needle in {path}\n")
    asked: list[str] = []

    def authorize_path(path: str) -> bool:
        asked.append(path)
        return path != refused

    tools = tools_of(root, authorize_path=authorize_path)
    attempts: list[tuple[str, dict[str, Any]]] = [
        *(("list_directory", {"path": path}) for path in (".", refused)),
        *(("glob", {"pattern": pattern}) for pattern in ("**", "**/*", f"{refused}/**", f"{refused}/*")),
        *(("search_files", {"pattern": "needle", "path": path}) for path in (".", refused)),
        ("read_file", {"path": f"{refused}/a"}),
        ("write_file", {"path": f"{refused}/new", "content": ""}),
    ]

    def answers() -> list[str]:
        results = [as_result("1", tools[name].fn(**arguments)) for name, arguments in attempts]
        return [json.dumps([result.content, dict(result.data or {})]) for result in results]

    with opened_below(root / refused) as opened:
        first = answers()
    assert [] == opened
    assert [] == [path for path in asked if path.startswith(f"{refused}/")]
    if (root / refused).is_dir():
        shutil.rmtree(root / refused)
        (root / refused).mkdir()
        assert answers() == first
    shutil.rmtree(root)
