"""Where a call leads is known by the function behind it, whatever a spec calls the tool and its arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plait.core.messages import ToolCall
from plait.session.defaults import LIBRARY
from plait.tools.behind import built_in_behind
from plait.tools.call_paths import named_paths
from plait.tools.toolbox import Toolbox, ToolboxOptions

PATCH = "*** Begin Patch\n*** Add File: ../new\n+x\n*** End Patch"


def spec_of(function: str, names: dict[str, str]) -> tuple[list[dict[str, object]], dict[str, dict[str, object]]]:
    """Return schemas and dispatch of one tool that is called `put`."""
    parameters = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    schema = {"type": "function", "function": {"name": "put", "description": "", "parameters": parameters}}
    return [schema], {"put": {"python_function": function, "param_map": names}}


@pytest.mark.parametrize(
    "function, given, mapped",
    [
        ("t_write", {"file": "../a", "text": "x"}, {"file": "path", "text": "content"}),
        ("t_read", {"file": "../a"}, {"file": "path"}),
        ("t_update", {"file": "../a", "b": "x", "c": "y"}, {"file": "path", "b": "old", "c": "new"}),
        ("t_update_file", {"file": "../a", "b": "x", "c": "y"}, {"file": "path", "b": "old", "c": "new"}),
        ("t_edit_file", {"file": "../a", "b": "x", "c": "y"}, {"file": "path", "b": "old", "c": "new"}),
        ("t_list_directory", {"where": ".."}, {"where": "path"}),
        ("t_search", {"what": "x", "where": ".."}, {"what": "pattern", "where": "path"}),
        ("t_file_info", {"what": "../a"}, {"what": "path"}),
        ("t_apply_patch", {"diff": PATCH}, {"diff": "input"}),
        ("t_write", {"path": "x", "content": "../a"}, {"path": "content", "content": "path"}),
    ],
)
def test_a_tool_of_a_spec_is_seen_to_lead_outside(
    function: str, given: dict[str, str], mapped: dict[str, str], tmp_path: Path
) -> None:
    """Under a name and arguments of a spec's own, swapped ones too, the path is the one that the function gets."""
    root = tmp_path / "root"
    root.mkdir()
    box = Toolbox(root, ToolboxOptions(policy="cli"))
    schemas, table = spec_of(function, mapped)
    [tool] = LIBRARY.tools_of(schemas, table, box)  # type: ignore[arg-type]
    call = ToolCall("c", "put", json.dumps(given))

    assert (("inside", ()), "outside") == ((box.leads(call), named_paths(call)), box.leads(call, tool))
    box.close()


@pytest.mark.parametrize(
    "function, name",
    [("t_run", "exec_shell"), ("t_execute_async", "nohup"), ("t_nohup", "nohup"), ("t_search_files", "glob")],
)
def test_every_function_of_the_library_is_known(function: str, name: str, tmp_path: Path) -> None:
    """Background jobs and superseded names among them."""
    box = Toolbox(tmp_path)
    [tool] = LIBRARY.tools_of(*spec_of(function, {}), box)  # type: ignore[arg-type]

    assert name == built_in_behind(tool)
    box.close()
