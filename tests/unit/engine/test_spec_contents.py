"""What stands inside the fields of an agent spec is checked where something reads it, and named by its place."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from plait.core.errors import AgentSpecInvalidError
from plait.engine.agent_spec import AgentSpec
from plait.engine.spec import validate_schema
from plait.engine.spec_tools import tools_of_spec
from plait.tools.library import Library, default_tool_spec

SCHEMAS, DISPATCH = default_tool_spec()
SPEC: Mapping[str, object] = {"model": "m", "endpoint": "http://127.0.0.1:1/v1", "tool_specs": SCHEMAS}

FAULTS: Mapping[str, tuple[Mapping[str, object], str, str]] = {
    "option": ({"options": ["nope"]}, "unknown option 'nope' in 'options'", "exclude-prompt_cache_key"),
    "near option": ({"options": ["exclude_prompt_cache_key"]}, "unknown option", "did you mean"),
    "support": ({"provider_api_support": {"streaming": 5}}, "5 in 'provider_api_support.streaming'", "an object"),
    "parameters": (
        {"tool_specs": [{"type": "function", "function": {"name": "f", "parameters": 5}}]},
        "5 in 'tool_specs[0].function.parameters'",
        "a JSON Schema",
    ),
    "function": ({"tool_specs": [{"function": "f"}]}, "'f' in 'tool_specs[0].function'", "an object"),
    "param_map": (
        {"tool_dispatch": {"f": {"python_function": "t_read", "param_map": {"a": 5}}}},
        "5 in 'tool_dispatch.f.param_map.a'",
        "the name of an argument",
    ),
    "no map": (
        {"tool_dispatch": {"f": {"python_function": "t_read", "param_map": [1]}}},
        "[1] in 'tool_dispatch.f.param_map'",
        "an object",
    ),
    "inf": ({"request_params": {"a": [{"b": math.inf}]}}, "'request_params.a[0].b'", "inf"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_part_that_does_not_fit_is_named(name: str) -> None:
    """The error says the file, the place in it, what stands there, and what should."""
    fields, sentence, hint = FAULTS[name]
    with pytest.raises(AgentSpecInvalidError) as caught:
        validate_schema(AgentSpec({**SPEC, **fields}, source="specs/a.json"))

    assert "the agent spec 'specs/a.json' has" in caught.value.message
    assert sentence in caught.value.message
    assert hint in caught.value.hint


def test_parts_that_fit_are_taken() -> None:
    """What the page of agent specs shows is no mistake, nor is what a field leaves out."""
    support = {"wire": "chat", "streaming": {"supported": False}, "cache": None}
    fields = {"options": ["exclude-prompt_cache_key"], "provider_api_support": support, "tool_dispatch": DISPATCH}
    validate_schema({**SPEC, **fields, "request_params": {"temperature": 0.5, "stop": ["a"]}})


def test_a_table_beside_tools_names_functions_that_are_there() -> None:
    """`tools` decides what is called, and a function that nobody has is a mistake all the same."""
    names = [str(DISPATCH[str(entry["function"]["name"])]["python_function"]) for entry in SCHEMAS]  # type: ignore[index]
    table = {"f": {"python_function": "t_raed", "param_map": {}}}
    with pytest.raises(AgentSpecInvalidError, match=r"'t_raed' in 'tool_dispatch.f'") as caught:
        tools_of_spec({**SPEC, "tools": names, "tool_dispatch": table}, Library().functions)
    assert "did you mean 't_read'?" == caught.value.hint
