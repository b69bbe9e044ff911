"""`build_runtime` puts the kernel's agent together from a flat configuration."""

from __future__ import annotations

import dataclasses
import io
import json
import stat
import sys
from pathlib import Path

import pytest

from plait.core.errors import ConfigError
from plait.engine.approval import AutoApprover
from plait.engine.kernel_config import Config
from plait.engine.kernel_face import build_runtime, limits_of, make_model
from plait.engine.telemetry import JsonlTelemetry, NullTelemetry
from plait.testing import Call, Say, ScriptedModel, ScriptServer


def test_the_kernels_tools_over_the_working_directory(tmp_path: Path) -> None:
    """The kernel's names are advertised in its order; nothing outside the working directory is reached."""
    (tmp_path / "a.txt").write_text("here\n")
    steps = [
        [Call("read_file", {"path": "a.txt"}, "c1"), Call("read_file", {"path": "../x"}, "c2")],
        Call("bash", {"command": "pwd"}, "c3"),
        "done",
    ]
    with ScriptedModel(steps) as model:
        agent, telemetry, clients = build_runtime(
            Config(working_dir=str(tmp_path)), model=model, approver=AutoApprover("auto_allow")
        )
        assert "done" == agent.run("go").text

    names = "read_file write_file list_dir edit_file find_files search_text file_info bash"
    assert names.split() == [tool.name for tool in model.requests[0].setup.tools]
    read, escaped = model.requests[1].messages[-1].tool_results
    assert ("here", True) == (read.content.strip(), escaped.is_error)
    assert str(tmp_path.resolve()) == model.requests[2].messages[-1].tool_results[0].content
    assert (NullTelemetry, ()) == (type(telemetry), clients)


def test_runs_go_on_with_each_other(tmp_path: Path) -> None:
    """The agent keeps its conversation from run to run."""
    with ScriptedModel(["one", "two"]) as model:
        agent, _, _ = build_runtime(Config(working_dir=str(tmp_path)), model=model)
        agent.run("first")
        agent.run("second")

    assert ["first", "one", "second"] == [message.content for message in model.requests[1].messages]


def test_a_gated_call_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an approver the configured policy asks at the prompt; where nobody answers it is a no."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    config = Config(working_dir=str(tmp_path), approval_allowlist=["pwd"])
    with ScriptedModel([Call("bash", {"command": "ls"}), Call("bash", {"command": "pwd"}), "done"]) as model:
        agent, _, _ = build_runtime(config, model=model)
        agent.run("go")

    assert 'Approve bash({"command": "ls"})? [y/N] ' == capsys.readouterr().out
    assert "Denied by user." == model.requests[1].messages[-1].tool_results[0].content
    assert str(tmp_path.resolve()) == model.requests[2].messages[-1].tool_results[0].content


def test_the_limits_are_the_configured_ones() -> None:
    """Every ceiling of the configuration is a ceiling of a run."""
    config = Config(max_iterations=3, max_output_tokens=10, tool_concurrency=1, max_cost_usd=0.5)
    limits = limits_of(dataclasses.replace(config, max_input_tokens_per_run=99, max_tool_result_tokens=7))

    assert (3, 10, 1, 99, 7) == (
        limits.max_steps,
        limits.max_output_tokens,
        limits.tool_concurrency,
        limits.max_input_tokens,
        limits.max_tool_result_tokens,
    )
    assert "0.5" == str(limits.max_cost)


def test_a_configured_endpoint_is_asked() -> None:
    """Base URL, model, output limit and streaming reach the endpoint."""
    with ScriptServer(["one"]) as server:
        config = Config(provider="local", model="small", base_url=server.url, max_output_tokens=9, stream=False)
        agent, _, _ = build_runtime(config)
        assert "one" == agent.run("go").text

    (request,) = server.requests
    assert ("small", False, 9) == (request.model, request.stream, request.json["max_tokens"])


@pytest.mark.parametrize(
    "config, problem, advice",
    [
        (Config(), "no model is configured", "model="),
        (Config(provider="openrouterr", model="m"), "no provider is called 'openrouterr'", "'openrouter'"),
    ],
)
def test_a_configuration_that_names_nobody(config: Config, problem: str, advice: str) -> None:
    """Without a model, or with a misspelt provider, the error says what to set."""
    with pytest.raises(ConfigError, match=problem) as caught:
        make_model(config)

    assert advice in caught.value.hint


def test_what_is_not_there_yet_is_refused_by_name() -> None:
    """Every key of a later feature is refused by its name, and nothing but its default is taken."""
    names = [each.name for each in dataclasses.fields(Config)]
    later = names[names.index("cron_path") :]
    assert len(later) > 30
    for name in later:
        with pytest.raises(ConfigError, match=f"Config\\({name}=.* is not available yet"):
            Config(**{name: 99})
    assert Config(skills=[]) is not None
    with pytest.raises(ConfigError, match=r"build_runtime\(memory=") as caught:
        build_runtime(Config(model="m"), memory=[1])
    assert "leave memory out" == caught.value.hint


def lines_of(path: Path) -> list[dict[str, object]]:
    """Return the lines of a trace."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_trace(tmp_path: Path) -> None:
    """A trace has a line an answer, with tokens and calls, arguments as a hash; only its owner may read it."""
    logs = tmp_path / "logs" / "deep"
    usage = {"input": 10, "output": 2, "cache_read": 4}
    steps = [Say(calls=[Call("bash", {"command": "x"}), Call("nope"), Call("list_dir")], usage=usage), "done"]
    with ScriptedModel(steps, name="m-1") as model:
        config = Config(working_dir=str(tmp_path), log_dir=str(logs))
        agent, telemetry, _ = build_runtime(
            config, model=model, approver=AutoApprover(ask_default=False), session_id="s1"
        )
        agent.run("go")
        telemetry.close()

    assert telemetry.path == logs / "s1.jsonl"
    assert 0o600 == stat.S_IMODE((logs / "s1.jsonl").stat().st_mode)
    first, second = lines_of(logs / "s1.jsonl")
    assert ("s1", 0, "m-1", 10, 2, 4, "tool_use") == tuple(
        first[name]
        for name in "session_id iteration model input_tokens output_tokens cache_read_tokens stop_reason".split()
    )
    calls = first["tool_calls"]
    assert isinstance(calls, list)
    assert [("bash", False, True), ("nope", None, True), ("list_dir", True, False)] == [
        (call["name"], call["approved"], call["is_error"]) for call in calls
    ]
    assert (12, True) == (len(calls[0]["args_sha256"]), "arguments" not in calls[0])
    assert (1, [], "end_turn") == (second["iteration"], second["tool_calls"], second["stop_reason"])


def test_a_summary_in_a_trace(tmp_path: Path) -> None:
    """The line of the first answer after a summary says how many units it stands for, and the tokens around it."""
    config = Config(
        working_dir=str(tmp_path), log_dir=str(tmp_path), output_reserve=13_000, keep_recent_turns=1, enable_todo=True
    )
    steps = iter([*[Call("todo", {"items": [{"text": f"{number}" * 4_000}]}) for number in range(4)], "done", "again"])
    with ScriptedModel(
        lambda asked: "Notes." if asked.purpose == "compaction" else next(steps), context_window=16_000
    ) as model:
        agent, telemetry, _ = build_runtime(config, model=model, session_id="s1")
        agent.run("the task")
        agent.run("go on")
        telemetry.close()
        asked = [request.purpose for request in model.requests]

    told = [line["compaction"] for line in lines_of(tmp_path / "s1.jsonl")]
    assert 6 == len(told)
    found = [each for each in told if each is not None]
    assert asked.count("compaction") == len(found) > 0
    for each in found:
        assert isinstance(each, dict)
        assert ["turns_collapsed", "tokens_before", "tokens_after"] == list(each)
        assert each["tokens_before"] > 3_000 > each["tokens_after"] > 0
    units = asked.index("compaction") - 1
    assert units == found[0]["turns_collapsed"]  # type: ignore[index]


def test_a_verbose_trace(tmp_path: Path) -> None:
    """A verbose trace holds the arguments."""
    with ScriptedModel([Call("list_dir", {"path": "."}), "done"]) as model:
        config = Config(working_dir=str(tmp_path), log_dir=str(tmp_path / "logs"))
        agent, telemetry, _ = build_runtime(config, model=model, verbose=True)
        agent.run("go")

    assert telemetry.path is not None
    (call,) = lines_of(telemetry.path)[0]["tool_calls"]  # type: ignore[misc]
    assert {"path": "."} == call["arguments"]


def test_a_trace_that_cannot_be_written_ends_no_run(tmp_path: Path) -> None:
    """A trace whose folder cannot be made is given up; the run does not notice."""
    (tmp_path / "file").touch()
    with ScriptedModel(["done"]) as model:
        config = Config(working_dir=str(tmp_path), log_dir=str(tmp_path / "file" / "logs"))
        agent, telemetry, _ = build_runtime(config, model=model)
        assert "done" == agent.run("go").text

    assert isinstance(telemetry, JsonlTelemetry)
    assert isinstance(telemetry.error, OSError)
