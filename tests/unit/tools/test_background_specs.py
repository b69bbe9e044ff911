"""The background shell in an agent spec: what is added, once, in every form that a spec has."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from plait.core.errors import ConfigError
from plait.engine.agent_spec import AgentSpec
from plait.engine.spec import default_specification, validate_schema
from plait.engine.spec_tools import tools_of_spec
from plait.tools.background_specs import BACKGROUND, default_timeout, enable_nohup, nohup_tool_specs
from plait.tools.library import Library, default_tool_spec
from plait.tools.spec import name_of

TRIO = ["nohup", "nohup_query", "nohup_wait"]
FUNCTIONS = ["t_nohup", "t_query_exec", "t_nohup_wait"]


def names(entries: Any) -> list[str]:
    """Return the names of schema entries."""
    return [name_of(entry) for entry in entries]


def specs() -> dict[str, dict[str, Any]]:
    """Return a spec of each form."""
    schemas, table = default_tool_spec()
    return {
        "functions": dict(default_specification("m", "http://127.0.0.1:1/v1")),
        "table": {"model": "m", "tool_specs": schemas, "tool_dispatch": table},
        "names": {"model": "m", "tool_specs": schemas},
        "both lists": {"model": "m", "tool_specs": schemas, "inferred_tool_schema": copy.deepcopy(schemas)},
        "older list": {"model": "m", "inferred_tool_schema": schemas},
        "nothing": {"model": "m"},
    }


@pytest.mark.parametrize("form", list(specs()))
def test_e20_a_spec_gets_three_tools_once(form: str) -> None:
    """They come last in every list, with their functions, are done by the library, and a second call adds nothing."""
    spec = specs()[form]
    before = copy.deepcopy(spec)
    kept = spec.get("tool_specs")
    enable_nohup(spec)
    once = copy.deepcopy(spec)
    enable_nohup(spec)

    assert once == spec
    lists = [name for name in ("tool_specs", "inferred_tool_schema") if name in before] or ["tool_specs"]
    assert [[*names(before.get(name, [])), *TRIO] for name in lists] == [names(spec[name]) for name in lists]
    assert kept == before.get("tool_specs"), "a list that somebody shares is not changed"
    validate_schema(AgentSpec(spec))
    schemas, table = tools_of_spec(spec, Library().functions)
    assert TRIO == names(schemas)[-3:]
    assert FUNCTIONS == [table[name]["python_function"] for name in TRIO]
    assert ("tools" in before) == (spec.get("tools", [])[-3:] == FUNCTIONS)


def test_the_tools_are_described_with_their_limits() -> None:
    """Units, ceilings and the time that a job has are in the schema; only `nohup` runs code and changes something."""
    nohup, query, wait = (entry["function"]["parameters"]["properties"] for entry in nohup_tool_specs(45))  # type: ignore[index]
    assert {"command", "timeout", "unit", "wait_before_s"} == nohup.keys()
    assert (45, 3_600, ["s", "m", "h", "d", "w"]) == (
        nohup["timeout"]["default"],
        nohup["wait_before_s"]["maximum"],
        nohup["unit"]["enum"],
    )
    assert ({"tool_exec_id"}, {"tool_exec_id", "howmuch", "unit"}) == (query.keys(), wait.keys())
    assert [(True, True), (False, False), (False, False)] == [(known.mutates, known.runs_code) for known in BACKGROUND]
    assert [45, 10, 10] == [default_timeout(entry) for entry in (nohup_tool_specs(45)[0], {}, nohup_tool_specs()[1])]


@pytest.mark.parametrize("minutes", [0, -1, 10**9, float("nan")])
def test_no_job_runs_for_ever(minutes: float) -> None:
    """A time that is none is refused, and the spec stays as it is."""
    spec = specs()["table"]
    before = copy.deepcopy(spec)
    with pytest.raises(ConfigError, match="no job can run"):
        enable_nohup(spec, minutes)
    assert before == spec
