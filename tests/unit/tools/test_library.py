"""The tool library: functions, specifications, dispatch, process-wide settings."""

from __future__ import annotations

import asyncio
import copy
import io
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.core.errors import ConfigError, FatalToolDispatchError
from plait.core.messages import ToolCall
from plait.kernel.tools import Tool, ToolTable
from plait.tools.aliases import alias_tools
from plait.tools.answer import as_answer
from plait.tools.definitions import CANONICAL_TOOLS, SUPERSEDED_TOOLS
from plait.tools.docstrings import extract_tool_specs_from_module, tool_spec_to_schema
from plait.tools.library import Library, default_tool_spec
from plait.tools.spec import build_tool_spec
from plait.tools.toolbox import Toolbox, ToolboxOptions


@pytest.fixture
def here(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the workspace the current directory."""
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def library(here: Path) -> Iterator[Library]:
    """Return a library of its own."""
    found = Library()
    yield found
    found.toolbox().close()


def greet(name: str, times: int = 1) -> tuple[str, dict[str, object]]:
    """Greet somebody.

    Args:
        name: Whom.
    """
    return f"hello {name} x{times}", {"ok": True}


def test_e10_tools_become_schemas_a_table_and_library_functions(library: Library) -> None:
    """A tool's schema and dispatch entry have the documented shapes, and its function is called by its name."""
    schemas, table = build_tool_spec([Tool("greet", "Say hello.", greet)])
    function = schemas[0]["function"]
    assert isinstance(function, dict)
    assert ("function", "greet", "Say hello.") == (schemas[0]["type"], function["name"], function["description"])
    assert ["name"] == function["parameters"]["required"]
    assert {"type": "integer"} == function["parameters"]["properties"]["times"]
    assert {"greet": {"python_function": "greet", "param_map": {"name": "name", "times": "times"}}} == table
    library.register_tools_in_library([Tool("greet", "Say hello.", greet)])
    assert ("hello you x2", {"ok": True}) == library.dispatch("greet", {"name": "you", "times": 2}, table)


def test_e11_a_grammar_is_passed_on_and_its_text_comes_as_input(library: Library) -> None:
    """A tool with a grammar has a custom entry without parameters, and gets the raw text as `input`."""
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}

    def apply(input: str) -> str:
        return f"got {input}"

    tool = Tool("apply_patch", "Patch.", apply, custom_format=grammar)
    schemas, table = build_tool_spec([tool])
    expected = {"type": "custom", "name": "apply_patch", "description": "Patch.", "format": grammar}
    assert expected == schemas[0]
    assert {"input": "input"} == table["apply_patch"]["param_map"]
    (again,) = library.tools_of(schemas, {"apply_patch": {"python_function": tool.fn}}, library.toolbox())
    assert "got *** Begin" == again.fn(**again.keywords(ToolCall("1", "apply_patch", "*** Begin", True).arguments))


def test_e12_arguments_are_renamed_by_the_map(library: Library) -> None:
    """A model-facing name reaches the function's own keyword; a name that is not mapped passes through."""
    table = {"show": {"python_function": lambda path, deep=False: f"{path} {deep}", "param_map": {"file_path": "path"}}}
    assert "a.txt True" == library.dispatch("show", {"file_path": "a.txt", "deep": True}, table)[0]


def test_a_deferred_tool_is_marked() -> None:
    """Deferred tools carry the marker that keeps them out of the prompt."""
    (entry,), _ = build_tool_spec([Tool("greet", "", greet, deferred=True)])
    assert True is entry["function"]["defer_loading"]  # type: ignore[index]


def test_e14_the_tables_of_names_are_as_documented() -> None:
    """Advertised names lead to library functions, superseded functions to their successors."""
    assert "t_search" == CANONICAL_TOOLS["search_files"]
    assert "t_glob" == SUPERSEDED_TOOLS["t_find_files"]
    assert ["read_file", "write_file", "str_replace", "exec_shell", "list_dir", "glob", "search_files"] == list(
        CANONICAL_TOOLS
    )


def test_e15_the_default_specification_can_be_dispatched_and_is_a_copy(library: Library, here: Path) -> None:
    """Four tools come with their table; a missing file is an error answer; a change of one copy is in no other."""
    (here / "README.md").write_text("# Read me\n")
    schemas, table = default_tool_spec()
    assert ["read_file", "write_file", "str_replace", "exec_shell"] == list(table)
    assert "# Read me\n" == library.dispatch("read_file", {"path": "README.md"}, table)[0]
    text, data = library.dispatch("read_file", {"path": "missing"}, table)
    assert text.startswith("ERROR: ")
    assert (False, text) == (data["ok"], data["result"])
    assert data["error"]
    before = copy.deepcopy(schemas)
    schemas[0]["function"]["parameters"]["properties"].clear()  # type: ignore[index]
    assert before == default_tool_spec()[0]


def test_the_spec_of_a_name_that_is_only_understood_is_its_tools() -> None:
    """Whoever asks for one is told the name under which a model is shown the tool."""
    for name, own in (("edit_file", "str_replace"), ("find_files", "glob"), ("read_fil", "read_file")):
        with pytest.raises(ConfigError) as refused:
            default_tool_spec(name)
        assert f"did you mean {own!r}?" == refused.value.hint


def test_e16_a_modules_docstrings_make_a_working_specification(library: Library, here: Path) -> None:
    """Every entry built from the blocks of the library's functions is callable with model-facing arguments."""
    module = types.ModuleType("tool_library")
    vars(module).update(library.own.by_name())
    specs = extract_tool_specs_from_module(module)
    schemas = [tool_spec_to_schema(spec) for spec in specs.values()]
    table = {
        str(spec["name"]): {"python_function": function, "param_map": spec["param_map"]}
        for function, spec in specs.items()
    }
    assert set(CANONICAL_TOOLS) == set(table)
    assert len(CANONICAL_TOOLS) == len(schemas)
    arguments: dict[str, dict[str, object]] = {
        "write_file": {"path": "a.txt", "content": "one\n"},
        "str_replace": {"path": "a.txt", "old_str": "one", "new_str": "two"},
        "read_file": {"path": "a.txt"},
        "search_files": {"pattern": "two", "path": "."},
        "list_dir": {"path": "."},
        "glob": {"pattern": "*.txt"},
        "exec_shell": {"command": "cat a.txt"},
    }
    answers = {name: library.dispatch(name, given, table) for name, given in arguments.items()}
    assert all(data.get("ok") is not False for _, data in answers.values()), answers
    assert ("two\n", "a.txt:1:two", "f  a.txt", "a.txt", "two") == tuple(
        answers[name][0] for name in ("read_file", "search_files", "list_dir", "glob", "exec_shell")
    )


def test_e17_output_goes_where_it_was_told_and_nowhere_else(
    library: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command's output is echoed to the stream that was set; with none, nothing is written anywhere."""
    _, table = default_tool_spec()
    library.dispatch("exec_shell", {"command": "echo silent"}, table)
    library.set_tool_output_stream(sys.stderr)
    assert sys.stderr is library.get_tool_output_stream()
    assert True is library.dispatch("exec_shell", {"command": "echo seen"}, table)[1]["streamed"]
    library.set_tool_output_stream(None)
    library.dispatch("exec_shell", {"command": "echo silent again"}, table)
    assert ("", "seen\n") == tuple(capsys.readouterr())


def test_a_stream_that_cannot_be_written_costs_nothing(library: Library) -> None:
    """A closed stream does not fail the command whose output it should have shown."""
    stream = io.StringIO()
    stream.close()
    library.set_tool_output_stream(stream)
    assert "hi" == library.own.t_run("echo hi")[0]


def test_e18_the_handler_of_questions_is_used_until_it_is_taken_back(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler answers, its exception is a failed call, and without it standard input answers."""
    table = {"ask": {"python_function": "t_ask_user_question"}}
    library.set_ask_user_handler(lambda question, options: "2" if options else question)
    assert "b" == library.dispatch("ask", {"question": "?", "options": ["a", "b"]}, table)[1]["answer"]
    assert ("Name?", {"answer": "Name?"}) == (
        library.own.t_ask_user("Name?")[1]["answer"],
        library.own.t_ask_user("Name?")[1],
    )

    def fails(_question: str, _options: list[str]) -> str:
        raise RuntimeError("no screen")

    library.set_ask_user_handler(fails)
    text, data = library.dispatch("ask", {"question": "?", "options": "a,b"}, table)
    assert "RuntimeError: no screen" in text
    assert data["ok"] is False
    library.set_ask_user_handler(None)
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n"))
    assert "a" == library.dispatch("ask", {"question": "?", "options": "a,b"}, table)[1]["answer"]


def test_e52_the_library_works_in_the_current_directory_and_prints_nothing(
    library: Library, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A host that uses only the specification and dispatch sees its own directory, and no output of ours."""
    _, table = default_tool_spec()
    library.dispatch("write_file", {"path": "a.txt", "content": "x"}, table)
    (here / "sub").mkdir()
    monkeypatch.chdir(here / "sub")
    library.dispatch("write_file", {"path": "b.txt", "content": "x"}, table)
    assert ["a.txt", "sub", "sub/b.txt"] == sorted(str(path.relative_to(here)) for path in here.rglob("*"))
    assert ("", "") == tuple(capsys.readouterr())


def test_superseded_functions_still_work(library: Library, here: Path) -> None:
    """Old function names do what their successors do."""
    (here / "a.txt").write_text("one\n")
    assert set(SUPERSEDED_TOOLS) <= set(library.functions)
    library.functions["t_update_file"]("a.txt", "one", "two")
    assert "f  a.txt" == library.functions["t_list_directory"]()[0]
    assert "a.txt" == library.functions["t_search_files"]("*.txt")[0] == library.functions["t_find_files"]("*.txt")[0]
    assert "two\n" == (here / "a.txt").read_text()


def test_what_goes_wrong_in_a_call_is_told(library: Library) -> None:
    """A name that is unknown is a programming error; everything else is an answer that says what went wrong."""

    def breaks(path: str) -> str:
        raise KeyError(path)

    table = {
        "breaks": {"python_function": breaks},
        "gone": {"python_function": "t_gone"},
        "text": {"python_function": lambda: None},
    }
    with pytest.raises(FatalToolDispatchError, match="no tool is named 'nope'"):
        library.dispatch("nope", {}, table)
    for name, arguments, words in (
        ("breaks", {"path": "x" * 5_000}, "KeyError"),
        ("breaks", {"file": "x"}, "breaks(path) cannot be called with ['file']"),
        ("gone", {}, "'t_gone' behind 'gone' is not in the tool library"),
    ):
        text, data = library.dispatch(name, arguments, table)
        assert text.startswith("ERROR: ")
        assert words in text
        assert data["ok"] is False
        assert len(text) < 8_000 or "…" in text
    assert ("", {}) == library.dispatch("text", {}, table)


def test_an_async_function_is_finished_inside_and_outside_a_loop(library: Library) -> None:
    """A coroutine function gives its result, also where a loop is running already."""

    async def slow(name: str) -> str:
        await asyncio.sleep(0)
        return f"hello {name}"

    table = {"slow": {"python_function": slow}}
    assert "hello a" == library.dispatch("slow", {"name": "a"}, table)[0]

    async def main() -> str:
        return library.dispatch("slow", {"name": "b"}, table)[0]

    assert "hello b" == asyncio.run(main())


def test_e13_an_alias_is_dispatched_to_the_tool_that_is_there(library: Library, here: Path) -> None:
    """Aliases reach what the table holds with renamed arguments, `edit_file` refuses ambiguity, and others fail."""
    (here / "a.txt").write_text("x x\n")
    _, table = default_tool_spec()
    assert "hi" == library.dispatch("execute_shell_command", {"command": "echo hi"}, table)[0]
    text, _ = library.dispatch("edit_file", {"path": "a.txt", "old": "x", "new": "y"}, table)
    assert "not unique" in text
    own = {"str_replace": {"python_function": lambda path, old_str, new_str: f"{path} {old_str} {new_str}"}}
    assert "a b c" == library.dispatch("edit_file", {"path": "a", "old": "b", "new": "c"}, own)[0]
    with pytest.raises(FatalToolDispatchError):
        library.dispatch("find_files", {"pattern": "*"}, table)


def test_a_sessions_tools_use_its_own_workspace(library: Library, tmp_path: Path) -> None:
    """Built-in functions of a spec are done by the session's toolbox; added and replaced ones come from the library."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("session\n")
    library.register_tools_in_library([Tool("greet", "Say hello.", greet)])
    library.functions["t_glob"] = lambda pattern: f"my own {pattern}"
    schemas, table = default_tool_spec()
    extra, more = build_tool_spec([Tool("greet", "Say hello.", greet)])
    schemas += [*extra, {"type": "function", "function": {"name": "glob", "description": "", "parameters": {}}}]
    schemas.append({"type": "function", "function": {"name": "lost", "parameters": {}}})
    box = Toolbox(elsewhere, ToolboxOptions(policy="inside_only"))
    tools = {tool.name: tool for tool in library.tools_of(schemas, {**table, **more}, box)}

    def run(tool_name: str, **arguments: object) -> str:
        tool = tools[tool_name]
        return as_answer(tool.fn(**tool.keywords(arguments)))[0]

    assert "session\n" == run("read_file", path="a.txt")
    assert "OK: replaced 1 of 1" == run("str_replace", path="a.txt", old_str="session", new_str="changed")[:19]
    assert "hello you x1" == run("greet", name="you")
    assert "my own *" == run("glob", pattern="*")
    assert "not in the tool library" in run("lost", anything=1)
    assert (True, True, False) == (tools["exec_shell"].gated, tools["read_file"].parallel_safe, tools["greet"].gated)
    assert "call" == tools["exec_shell"].context_parameter
    assert [*table, "greet", "glob", "lost"] == [schema.name for schema in ToolTable(tools.values()).schemas]
    box.close()


@pytest.mark.parametrize("function", ["t_update", "t_edit_file", "t_update_file", "t_write", "t_run"])
def test_what_a_function_touches_is_known_under_every_name(library: Library, function: str) -> None:
    """A spec that names a function by an older or other name does not get it past an approver."""
    schemas = [{"type": "function", "function": {"name": "change", "parameters": {}}}]
    (tool,) = library.tools_of(schemas, {"change": {"python_function": function}}, library.toolbox())
    assert (True, True, False) == (tool.gated, tool.mutates, tool.parallel_safe)


def test_edit_file_refuses_ambiguity_for_a_specs_own_tools_too(library: Library, here: Path) -> None:
    """The other name of a spec's `str_replace` has its own rule, as everywhere."""
    (here / "a.txt").write_text("x x\n")
    box = library.toolbox()
    aliases = {tool.name: tool for tool in alias_tools(box, library.tools_of(*default_tool_spec(), box))}
    edit = aliases["edit_file"]
    text, data = as_answer(edit.fn(**edit.keywords({"path": "a.txt", "old": "x", "new": "y"})))
    assert "not unique" in text
    assert "CONFLICT" == data["code"]
    assert {"bash", "execute_shell_command", "run_command", "edit_file"} == set(aliases)
