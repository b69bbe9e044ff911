"""What a session may be opened with: every keyword is honoured, or refused by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import pytest

from plait.core.errors import AgentSpecDisabledError, AgentSpecInvalidError, ConfigError
from plait.engine.agent_spec import AgentSpec
from plait.engine.spec import default_specification
from plait.kernel.tools import Tool
from plait.session.opening import init_session
from plait.session.options import DEFAULTS, NOT_YET, SessionOptions
from plait.session.tasks import run, run_agent, run_task
from plait.testing import ScriptedModel

SPEC = default_specification("m", "http://127.0.0.1:1/v1")


@pytest.mark.parametrize("function", [init_session, run_task, run_agent, run])
def test_the_keywords_are_parameters(function: Any) -> None:
    """Every keyword can be seen in the signature, with its default, and none is there twice."""
    parameters = inspect.signature(function).parameters

    assert set(SessionOptions.__annotations__) <= set(parameters)
    shown = {name: parameters[name].default for name in DEFAULTS if name != "tools"}
    assert {name: value for name, value in DEFAULTS.items() if name != "tools"} == shown


def test_the_defaults_ask_for_nothing() -> None:
    """Passing every keyword with its default is as good as passing none."""
    with ScriptedModel(["done"]) as model:
        result = run_task(SPEC, "x", client=model, **dict[str, Any](DEFAULTS))

    assert "done" == result.final_reply


WANTED: Mapping[str, object] = {
    "trust": True,
    "control_socket": True,
    "tool_loading": "kimi",
    "tool_search": print,
    "compaction_enabled": True,
    "compaction_policy": "threshold",
    **dict.fromkeys((name for name in NOT_YET if name.endswith(("_tokens", "_turns", "_chars", "_seconds"))), 5),
}


@pytest.mark.parametrize("name", sorted(NOT_YET))
def test_what_is_not_there_yet_is_refused_by_name(name: str) -> None:
    """A keyword of a later feature is a ConfigError that names it; the values that ask for nothing are taken."""
    with pytest.raises(ConfigError, match=f"^{name}=.* is not available yet") as caught:
        init_session(SPEC, **dict[str, Any]({name: WANTED[name]}))

    assert f"leave {name} out" == caught.value.hint
    for nothing in (None, *NOT_YET[name]):
        init_session(SPEC, **dict[str, Any]({name: nothing})).close()


def test_an_unknown_keyword_is_a_type_error() -> None:
    """A misspelt keyword is not ignored."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_output_token'"):
        init_session(SPEC, max_output_token=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("proof", [True, False, "every", "auto"])
def test_cache_proof_is_accepted(proof: Any) -> None:
    """Every way of asking for proof is taken and kept."""
    assert proof == init_session(SPEC, strict_cache_proof=proof)["strict_cache_proof"]


def test_a_proof_that_means_nothing_is_refused() -> None:
    """Any other word is an error."""
    with pytest.raises(ConfigError, match="strict_cache_proof='sometimes'"):
        init_session(SPEC, strict_cache_proof="sometimes")  # type: ignore[arg-type]


def test_hooks_where_nothing_looks_for_them() -> None:
    """Hooks at the top of a spec are an error that names the file and where they belong."""
    with pytest.raises(AgentSpecInvalidError, match=r"'mine\.json' has 'hooks' where nothing looks") as caught:
        run_task(AgentSpec({**SPEC, "hooks": {"Stop": []}}, source="mine.json"), "x")

    assert "put them into 'behaviour' as 'hooks'" == caught.value.hint


def test_fields_that_change_nothing_are_accepted() -> None:
    """Settings of later features that no answer depends on do not keep a spec from being used."""
    more = {"compaction_trigger_tokens": 5, "git_awareness_enabled": True, "durable": False, "tool_loading": "eager"}

    init_session({**SPEC, **more}).close()


def test_a_spec_that_cannot_be_used() -> None:
    """A disabled spec, one without tools and one with a bad tool are refused before anything is sent."""
    bad = Tool("bad", "x", lambda: "", parameters={"type": "nonsense"})
    with pytest.raises(AgentSpecDisabledError):
        run_task({**SPEC, "disabled": True}, "x")
    with pytest.raises(AgentSpecInvalidError, match="has no tools"):
        run_agent(task="x", model="m", endpoint="http://127.0.0.1:1/v1", tools=[])
    with pytest.raises(AgentSpecInvalidError, match="'bad' has an invalid schema"):
        init_session(SPEC, tools=[bad])


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ({}, "needs a task"),
        ({"schema": SPEC}, "needs a task"),
        ({"task": "x"}, "either a schema"),
        ({"task": "x", "model": "m"}, "either a schema"),
        ({"task": "x", "schema": SPEC, "model": "m", "endpoint": "http://x/v1"}, "either a schema"),
    ],
)
def test_run_takes_a_spec_or_a_model(arguments: dict[str, Any], problem: str) -> None:
    """`run` needs a task and one of its two ways to say what is asked."""
    with pytest.raises(TypeError, match=problem):
        run(**arguments)
