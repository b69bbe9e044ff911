"""The kernel face's tools, and names that are only understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.core.messages import ToolCall, ToolResult
from plait.kernel.tools import Tool, ToolTable
from plait.tools.aliases import alias_tools, default_tools, kernel_options
from plait.tools.renames import canonical, names_of
from plait.tools.toolbox import Toolbox

KERNEL_NAMES = ["read_file", "write_file", "list_dir", "edit_file", "find_files", "search_text", "file_info", "bash"]


def call(tool: Tool, **arguments: object) -> object:
    """Call a tool the way a host does."""
    return tool.fn(**tool.keywords(arguments))


def test_the_kernels_tools_come_in_its_order_with_its_parameters(root: Path) -> None:
    """Names, order, parameters and gates are the kernel face's, and no other argument is taken."""
    box = Toolbox(root, kernel_options())
    tools = {tool.name: tool for tool in default_tools(box)}
    assert KERNEL_NAMES == list(tools)
    assert ["path", "old", "new", "replace_all", "expected_sha256"] == list(tools["edit_file"].resolved_param_map)
    assert ["write_file", "edit_file", "bash"] == [name for name, tool in tools.items() if tool.gated]
    assert all(tool.resolved_parameters["additionalProperties"] is False for tool in tools.values())
    assert ["bash"] == [name for name, tool in tools.items() if tool.runs_code]
    assert {name for name, tool in tools.items() if not tool.gated} == {
        name for name, tool in tools.items() if tool.parallel_safe
    }
    assert (4_096, 60.0) == (box.options.result_tokens_max, box.options.timeout_s)


def test_the_kernels_tools_work_under_their_names(root: Path) -> None:
    """Each of the kernel's tools does its work when it is called with its own parameters."""
    tools = {tool.name: tool for tool in default_tools(Toolbox(root, kernel_options()))}
    call(tools["write_file"], path="d/a.py", content="one = 1\n")
    call(tools["edit_file"], path="d/a.py", old="one", new="two")
    assert "two = 1\n" == call(tools["read_file"], path="d/a.py")[0]  # type: ignore[index]
    assert "d/" == call(tools["list_dir"])[0]  # type: ignore[index]
    assert "d/a.py" == call(tools["find_files"], pattern="**/*.py", path=".")[0]  # type: ignore[index]
    assert "d/a.py:1:two = 1" == call(tools["search_text"], pattern="TWO", glob="**/*", ignore_case=True)[0]  # type: ignore[index]
    assert "type: file" in call(tools["file_info"], path="d/a.py")[0]  # type: ignore[index]
    assert "hi\n[exit code 2]" == call(tools["bash"], command="echo hi; exit 2")[0]  # type: ignore[index]


def test_e13_aliases_are_callable_guarded_alike_and_not_shown(box: Toolbox, root: Path) -> None:
    """Every alias reaches its tool with that tool's gates, and the model sees the tool once."""
    tools = box.tools()
    aliases = alias_tools(box, tools)
    table = ToolTable([*tools, *aliases])
    assert [tool.name for tool in tools] == [schema.name for schema in table.schemas]
    for alias in aliases:
        own = table.get(str(alias.alias_of))
        assert own is not None
        assert (own.mutates, own.runs_code, own.parallel_safe) == (alias.mutates, alias.runs_code, alias.parallel_safe)
        assert table.check(ToolCall.of("1", alias.name, {})) is None
    (root / "a.txt").write_text("x\nx\n")
    legacy, edit = table.get("execute_shell_command"), table.get("edit_file")
    assert legacy is not None
    assert edit is not None
    assert "hi" == call(legacy, command="echo hi")[0]  # type: ignore[index]
    assert isinstance(call(edit, path="a.txt", old="x", new="y"), ToolResult)
    call(edit, path="a.txt", old="x", new="y", replace_all=True)
    assert "y\ny\n" == (root / "a.txt").read_text()


def test_an_alias_needs_its_tool(box: Toolbox) -> None:
    """Without the tool there is no alias, whether it is missing, not allowed, or the name is taken."""
    tools = box.tools()
    without = [tool for tool in tools if tool.name != "exec_shell"]
    assert "bash" not in {tool.name for tool in alias_tools(box, without)}
    table = ToolTable([*tools, *alias_tools(box, tools)], allowed=["read_file"])
    refused = table.check(ToolCall.of("1", "bash", {"command": "ls"}))
    assert refused is not None
    assert "not permitted" in refused.content
    mine = Tool("bash", "mine", lambda command: command)
    assert "bash" not in {tool.name for tool in alias_tools(box, [*tools, mine])}


def test_an_alias_of_somebody_elses_tool_renames_its_parameters() -> None:
    """Under another name, a program's own `str_replace` is called with its own parameters."""

    def swap(path: str, old_str: str, new_str: str) -> str:
        return f"{path}: {old_str} -> {new_str}"

    own = Tool("str_replace", "swap", swap)
    (alias,) = [tool for tool in alias_tools(Toolbox("."), [own]) if tool.name == "edit_file"]
    assert ["path", "old", "new"] == alias.resolved_parameters["required"]
    assert "f: a -> b" == call(alias, path="f", old="a", new="b")


@pytest.mark.parametrize("name, own", [("bash", "exec_shell"), ("edit_file", "str_replace"), ("mine", "mine")])
def test_rules_can_ask_for_every_name_of_a_tool(name: str, own: str) -> None:
    """A rule or hook that names a tool by any of its names can find the others."""
    assert own == canonical(name)
    assert own == names_of(name)[0]
    assert name in names_of(own)
