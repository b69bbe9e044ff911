"""Agent specs are found where they should be, and what is wrong with one is said by file and field."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from plait.core.errors import AgentSpecDisabledError, AgentSpecInvalidError
from plait.engine.agent_spec import AgentSpec, endpoint_of, model_of
from plait.engine.spec import load_specification, validate_schema
from plait.engine.spec_fields import FIELDS
from plait.engine.spec_tools import tools_of_spec
from plait.tools.library import Library, default_tool_spec

URL = "http://127.0.0.1:1/v1"


def tool_entry(name: str, *parameters: str) -> dict[str, object]:
    """Return the schema entry of a tool with text parameters."""
    properties = {parameter: {"type": "string"} for parameter in parameters}
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


SPEC: dict[str, object] = {"model": "m", "endpoint": URL, "tool_specs": [tool_entry("read_file", "path")]}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run every test in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, data: object = SPEC) -> Path:
    """Write a spec as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_e2_spec_path_is_the_file_as_it_stands(here: Path) -> None:
    """E2: with `spec_path` the file is the spec, whatever the model and the endpoint are called."""
    data = {"tool_specs": [], "own": 1, "endpoint": "http://elsewhere/v1"}
    path = write(here / "specs" / "any.json", data)

    spec = load_specification("deepseek-v4-flash-free", "run:///usr/bin/completions.py", spec_path=path)

    assert data == spec
    assert str(path) == spec.source


def test_e2_a_relative_path_and_a_tilde(here: Path, home: Path) -> None:
    """E2: a relative `spec_path` starts at the working directory, and `~` is the user's home."""
    write(here / "specs" / "a.json", SPEC | {"model": "relative"})
    write(home / "b.json", SPEC | {"model": "home"})

    assert "relative" == load_specification("m", spec_path="specs/a.json")["model"]
    assert "home" == load_specification("m", spec_path="~/b.json")["model"]


@pytest.mark.parametrize(
    "content, problem",
    [
        (None, "cannot be read: No such file"),
        (b"{oops", "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b"[" * 100_000, "is not JSON"),
        (b"\xff", "is not JSON"),
        (b'{"request_params": {"temperature": 1e400}}', "is not JSON: 1e400 is too large"),
        (b"0" * 20_000_000, "is not JSON"),
    ],
)
def test_e2_a_file_that_is_no_spec_is_named(here: Path, content: bytes | None, problem: str) -> None:
    """E2: a missing or broken file is an AgentSpecInvalidError that names the file."""
    if content is not None:
        (here / "bad.json").write_bytes(content)

    with pytest.raises(AgentSpecInvalidError, match=problem) as caught:
        load_specification("m", spec_path="bad.json")

    assert "'bad.json'" in str(caught.value)
    assert "m" == caught.value.model


def test_a_file_with_a_byte_order_mark_is_read(here: Path) -> None:
    """An editor's byte order mark does not make a spec invalid."""
    (here / "bom.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(SPEC).encode())

    assert SPEC == load_specification("m", spec_path="bom.json")


def test_e1_a_model_that_is_a_file_name_is_looked_for_here(here: Path, home: Path) -> None:
    """E1: a `.json` model is a path from the working directory or from the home; a given endpoint wins."""
    write(here / "qwen3-8b.json", {"model": "qwen3-8b", "endpoint": "http://other/v1"})
    write(home / "far.json", {"model": "far"})

    spec = load_specification("qwen3-8b.json", URL)

    assert ("qwen3-8b", URL) == (model_of(spec), endpoint_of(spec))
    assert "http://other/v1" == endpoint_of(load_specification("qwen3-8b.json"))
    assert "far" == model_of(load_specification("~/far.json"))


@pytest.mark.parametrize("name", ["agent_spec_a_b_c.json", "inferred_tool_schema_a_b_c.json", "tool_schema_a_b_c.json"])
def test_a_model_is_looked_up_by_name(here: Path, name: str) -> None:
    """The working directory is searched for a spec under the model's name, `/` and `:` read as `_`."""
    write(here / name, {"tool_specs": []})

    spec = load_specification("a/b:c", URL)

    assert ("a/b:c", URL, name) == (model_of(spec), endpoint_of(spec), spec.source)


def test_without_a_file_an_endpoint_gives_the_default_tools() -> None:
    """With an endpoint alone, the spec is the four basic tools; it is a fresh copy each time."""
    spec = load_specification("m", URL)
    schemas, table = tools_of_spec(spec, Library().functions)

    assert ["read_file", "write_file", "str_replace", "exec_shell"] == list(table)
    assert default_tool_spec()[0] == schemas
    assert spec["tool_specs"] is not load_specification("m", URL)["tool_specs"]
    validate_schema(spec)


def test_no_spec_path_may_be_false() -> None:
    """The third argument may be False, as in older programs: no file is meant."""
    assert load_specification("m", URL) == load_specification("m", URL, False)


def test_without_anything_the_error_says_where_it_looked(here: Path) -> None:
    """Without a file and an endpoint, the error names the directory, the files and what to give."""
    with pytest.raises(AgentSpecInvalidError, match="no agent spec for 'some/model'") as caught:
        load_specification("some/model")

    assert str(here) in str(caught.value)
    assert "agent_spec_some_model.json" in str(caught.value)
    assert "endpoint" in caught.value.hint


@pytest.mark.parametrize(
    "model, endpoint, name",
    [("run://{}/bin/grammar", "", "{}/bin/grammar"), ("small", "run://{}/bin/grammar", "small")],
)
def test_a_program_has_its_spec_beside_it(here: Path, model: str, endpoint: str, name: str) -> None:
    """For a `run://` program the spec is the file beside it, or the default one."""
    model, endpoint, name = (text.format(here) for text in (model, endpoint, name))
    found = load_specification(model, endpoint)
    assert (name, f"run://{here}/bin/grammar") == (model_of(found), endpoint_of(found))

    short = "small" if name == "small" else "grammar"
    write(here / "bin" / f"agent_spec_{short}.json", {"tool_specs": [], "comment": "beside"})

    found = load_specification(model, endpoint)
    assert "beside" == found["comment"]
    assert f"run://{here}/bin/grammar" == endpoint_of(found)


def test_an_entry_of_the_users_list_decides_the_endpoint(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `inference_db` the endpoint that is given counts for nothing, in a file that is named and without one."""
    monkeypatch.setenv("INFERENCE_DB", str(here / "endpoints.toml"))
    (here / "endpoints.toml").write_text('[endpoints.mine]\nurl = "http://127.0.0.1:9/{model}"\n')
    path = write(here / "a.json", SPEC | {"model": "named"})

    assert "http://127.0.0.1:9/m" == load_specification("m", URL, inference_db="mine")["endpoint"]
    spec = load_specification("m", URL, path, "mine")
    assert ("named", "http://127.0.0.1:9/named", str(path)) == (spec["model"], spec["endpoint"], spec.source)


def test_a_spec_is_a_plain_dict() -> None:
    """A spec compares, copies and dumps like the dict it is, and a deep copy still knows its file."""
    spec = AgentSpec(SPEC, source="x.json")

    assert SPEC == spec == json.loads(json.dumps(spec))
    assert "x.json" == copy.deepcopy(spec).source


def test_a_disabled_spec_gives_its_reason() -> None:
    """A spec that is switched off cannot be used, and its comment says why."""
    with pytest.raises(AgentSpecDisabledError, match="disabled: broken since March") as caught:
        validate_schema(SPEC | {"disabled": True, "comment": "broken since March"})

    assert "broken since March" == caught.value.comment


@pytest.mark.parametrize("schema", [{"model": "m"}, {"model": "m", "tool_specs": []}])
def test_a_spec_without_tools_is_invalid(schema: dict[str, object]) -> None:
    """No tools, or an empty list of them, is an error."""
    with pytest.raises(AgentSpecInvalidError, match="has no tools"):
        validate_schema(schema)


def test_a_misspelt_field_is_named_with_the_right_one() -> None:
    """A field that looks like a known one is an error with the name that was meant; other fields are the spec's own."""
    with pytest.raises(AgentSpecInvalidError, match=r"'x\.json' has an unknown field 'max_output_token'") as caught:
        validate_schema(AgentSpec(SPEC | {"max_output_token": 5}, source="x.json"))

    assert "'max_output_tokens'" in caught.value.hint
    validate_schema(SPEC | {"x_team": "core", "notes": []})


@pytest.mark.parametrize(
    "name, value, wanted",
    [
        ("model", 5, "text"),
        ("disabled", "no", "true or false"),
        ("max_output_tokens", "4096", "a whole number"),
        ("max_output_tokens", True, "a whole number"),
        ("max_output_tokens", 0, "a whole number"),
        ("request_timeout", -1, "above 0"),
        ("extra_headers", [], "an object"),
        ("tool_specs", ["read_file"], "a list of objects"),
        ("tools", "t_read", "a list of texts"),
        ("request_timeout", 0, "above 0"),
        ("command_timeout", float("inf"), "above 0"),
        ("min_cacheable_tokens", float("nan"), "a number"),
        ("key_env", "MY KEY", "the name of an environment variable"),
        ("auth_header", "X Key", "the name of a header"),
        ("auth_header", "Content-Length", "that may carry a key"),
        ("auth_header", "transfer-encoding", "that may carry a key"),
        ("extra_headers", {"X-Team": ["a"]}, "header names and texts"),
        ("command_env", {"SEED": 7}, "variable names and texts"),
        ("command", 5, "a program's path"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(name: str, value: object, wanted: str) -> None:
    """The error says which field holds what, and what it should hold."""
    with pytest.raises(AgentSpecInvalidError, match=f"in the field '{name}'") as caught:
        validate_schema(SPEC | {name: value})

    assert wanted in caught.value.hint


def test_null_stands_for_a_field_that_is_not_set() -> None:
    """A field that is null is as good as none."""
    validate_schema(dict.fromkeys(FIELDS) | SPEC)


def table_of(schema: Mapping[str, object], functions: Mapping[str, object] | None = None) -> dict[str, object]:
    """Return the dispatch table of a spec."""
    return dict(tools_of_spec(schema, {**Library().functions, **(functions or {})})[1])  # type: ignore[arg-type]


def test_functions_are_given_by_position_in_the_list() -> None:
    """`tools` names a function for each entry of `tool_specs`; the built-in ones know their argument names."""
    schema = {
        "tool_specs": [tool_entry("search", "pattern", "path"), tool_entry("edit", "path", "old_str", "new_str")],
        "tools": ["t_search", "t_update"],
    }

    assert {
        "search": {"python_function": "t_search", "param_map": {}},
        "edit": {"python_function": "t_update", "param_map": {"old_str": "old", "new_str": "new"}},
    } == table_of(schema)


def test_equal_names_are_never_crossed() -> None:
    """A parameter goes to the function's parameter of its name; only the others are matched by position."""

    def find(path: str, pattern: str, limit: str) -> str:
        return path + pattern + limit

    schema = {"tool_specs": [tool_entry("find", "pattern", "how_many", "path")], "tools": ["find"]}

    assert {"how_many": "limit"} == table_of(schema, {"find": find})["find"]["param_map"]  # type: ignore[index]


def test_a_free_text_tool_gets_its_input() -> None:
    """The text of a custom tool is delivered as `input`."""
    entry = {"type": "custom", "name": "patch", "format": {"type": "grammar"}}

    assert {"input": "input"} == table_of({"tool_specs": [entry], "tools": ["t_read"]})["patch"]["param_map"]  # type: ignore[index]


@pytest.mark.parametrize(
    "schema, problem, advice",
    [
        (
            {"tool_specs": [tool_entry("a")], "tools": ["t_read", "t_run"]},
            "2 functions in 'tools' and 1 tools",
            "one function",
        ),
        ({"tool_specs": [tool_entry("a")], "tools": ["t_red"]}, "names a function 't_red'", "'t_read'"),
        ({"tool_specs": [tool_entry("a", *"vwxyz")], "tools": ["t_list_dir"]}, "have no place", "takes path"),
        ({"tool_specs": [tool_entry("")]}, r"no name in tool_specs\[0\]", "name"),
        ({"tool_specs": [tool_entry("a"), tool_entry("a")]}, "two tools named 'a'", "own name"),
        (
            {"tool_specs": [tool_entry("a")], "tool_dispatch": {"a": {"param_map": {}}}},
            "an entry 'a'",
            "python_function",
        ),
        ({"tool_specs": [tool_entry("read")], "aliases": {"b": "reed"}}, "alias 'b' for 'reed'", "'read'"),
        ({"tool_specs": [tool_entry("read")], "aliases": {"b": ["read"]}}, "alias 'b' for", "read"),
    ],
)
def test_tools_that_do_not_fit_are_named(schema: dict[str, object], problem: str, advice: str) -> None:
    """What is wrong between tools and functions is an AgentSpecInvalidError with what to do."""
    with pytest.raises(AgentSpecInvalidError, match=problem) as caught:
        table_of(schema)

    assert advice in caught.value.hint


def test_a_table_of_ones_own() -> None:
    """`tool_dispatch` holds names or functions; a built-in tool that it leaves out has its usual function."""

    def own(path: str) -> str:
        return path

    schema = {
        "tool_specs": [tool_entry("mine", "file"), tool_entry("str_replace", "path")],
        "tool_dispatch": {"mine": {"python_function": own, "param_map": {"file": "path"}}},
    }
    table = table_of(schema)

    assert {"python_function": own, "param_map": {"file": "path"}} == table["mine"]
    assert "t_update" == table["str_replace"]["python_function"]  # type: ignore[index]


@pytest.mark.parametrize("name", ["execute_shell_command", "bash"])
def test_an_older_name_that_is_advertised_is_done_by_the_same_function(name: str) -> None:
    """A spec may advertise a built-in tool under another of its names."""
    table = table_of({"tool_specs": [tool_entry(name, "command")]})

    assert "t_run" == table[name]["python_function"]  # type: ignore[index]


def test_aliases_are_advertised_and_done_by_the_same_function() -> None:
    """An alias is one more tool with the same schema; one that is a tool already is left alone."""
    schema = {
        "tool_specs": [tool_entry("read_file", "path"), tool_entry("cat", "path")],
        "aliases": {"open": "read_file", "cat": "read_file"},
    }
    before = copy.deepcopy(schema)
    schemas, table = tools_of_spec(schema, Library().functions)

    assert ["read_file", "cat", "open"] == [entry["function"]["name"] for entry in schemas]  # type: ignore[index]
    assert table["read_file"] == table["open"]
    assert before == schema


def test_either_name_of_the_list_is_read() -> None:
    """`inferred_tool_schema` is the older name of `tool_specs`."""
    assert ["read_file"] == list(table_of({"inferred_tool_schema": [tool_entry("read_file", "path")]}))


def test_what_a_tool_touches_does_not_depend_on_its_name(tmp_path: Path) -> None:
    """A tool that changes files or runs code says so under every name, so that no rule is passed by."""
    from plait.tools.toolbox import Toolbox

    names = ["edit_file", "bash", "str_replace", "execute_shell_command", "read_file"]
    library, toolbox = Library(), Toolbox(tmp_path)
    schemas, table = tools_of_spec({"tool_specs": [tool_entry(name) for name in names]}, library.functions)

    tools = library.tools_of(schemas, table, toolbox)
    toolbox.close()

    assert [True, True, True, True, False] == [tool.gated for tool in tools]
