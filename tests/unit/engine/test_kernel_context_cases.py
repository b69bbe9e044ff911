"""The kernel contract's cases about results, secrets and traces, through its own face."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from plait.core.usage import Usage
from plait.engine.agent import Agent
from plait.engine.kernel_config import Config
from plait.engine.kernel_face import build_runtime
from plait.engine.limits import Limits
from plait.engine.telemetry import JsonlTelemetry
from plait.kernel.tools import Tool
from plait.models.prices import bundled_prices, with_cost
from plait.testing import Call, Say, ScriptedModel

KEY = "sk-ant-api03-" + "aB3" * 10
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
SECRET = "zKq83hLmPw0TyV5c"


def said_by(text: str, **options: Any) -> str:
    """Return what the model gets of a tool that says a text."""
    tool = Tool("say", "Say it.", lambda: text, parameters={"type": "object"})
    with ScriptedModel([Call("say"), "done"]) as model:
        Agent(model, [tool], **options).run("go")
    return model.requests[1].messages[-1].tool_results[0].content


def test_c6_a_long_result_keeps_head_and_tail() -> None:
    """C6: what is over the cap is shorter, says `truncated`, and begins and ends as it did; what fits is unchanged."""
    text = "HEAD" + "x" * 7_992 + "TAIL"

    cut = said_by(text, limits=Limits(max_tool_result_tokens=50))

    assert len(cut) < 300
    assert ("HEAD", "TAIL", True) == (cut[:4], cut[-4:], "truncated" in cut)
    assert "x" * 200 == said_by("x" * 200, limits=Limits(max_tool_result_tokens=50))
    assert text == said_by(text, limits=Limits(max_tool_result_tokens=0))


def test_c7_secrets_in_results_are_masked_and_their_labels_stay(tmp_path: Path) -> None:
    """C7: keys, key blocks, assignments and headers are masked for the model, prose is not; or nothing is."""
    text = f"{KEY}\n{PEM}\nAPI_KEY={SECRET}\nAuthorization: Bearer {SECRET}\nthe password prompt is on line 3"

    masked = said_by(text)

    for secret in (KEY, "MIIEpAIBAAKCAQEA", SECRET):
        assert secret not in masked
    assert "API_KEY=[REDACTED]" in masked
    assert "Authorization: Bearer [REDACTED]" in masked
    assert "the password prompt is on line 3" in masked
    assert text == said_by(text, redact=False)
    (tmp_path / "env").write_text(f"API_KEY={SECRET}\n")
    for redacts in (True, False):
        with ScriptedModel([Call("read_file", {"path": "env"}), "done"]) as model:
            config = Config(working_dir=str(tmp_path), redact_tool_output=redacts)
            build_runtime(config, model=model)[0].run("go")
        assert redacts == (SECRET not in model.requests[1].messages[-1].tool_results[0].content)


@pytest.mark.parametrize(
    "text",
    [
        f"AWS_SECRET_ACCESS_KEY={SECRET}",
        json.dumps({"api_key": SECRET}),
        f"client_secret={SECRET}",
        f"postgres://u:{SECRET}@h/db",
        f"token {JWT}",
    ],
)
def test_c8_more_shapes_of_secrets(text: str) -> None:
    """C8: longer labels, JSON, addresses with a password and signed tokens are masked too."""
    masked = said_by(text)

    assert SECRET not in masked
    assert JWT not in masked
    assert "[REDACTED]" in masked


@pytest.mark.parametrize("verbose", [False, True])
def test_i1_a_trace_has_a_line_for_each_answer(tmp_path: Path, verbose: bool) -> None:
    """I1: every field of the contract; arguments as a fingerprint unless wished; nothing known costs null."""
    (tmp_path / "a").write_text("x")
    script = [Say(calls=[Call("read_file", {"path": "a"})], usage={"input": 10, "output": 2, "cache_read": 4}), "done"]
    with ScriptedModel(script) as model:
        config = Config(working_dir=str(tmp_path), log_dir=str(tmp_path / "logs"))
        agent, telemetry, _ = build_runtime(config, model=model, verbose=verbose, session_id="t1")
        agent.run("go")
        telemetry.close()

    assert isinstance(telemetry, JsonlTelemetry)
    first, second = (json.loads(line) for line in (tmp_path / "logs" / "t1.jsonl").read_text().splitlines())
    fields = (
        "ts session_id iteration model input_tokens output_tokens cache_read_tokens cache_write_tokens "
        "estimated_cost_usd tool_calls stop_reason compaction"
    ).split()
    assert fields == list(first) == list(second)
    assert ("t1", 0, 10, 2, 4, None, "tool_use", None) == tuple(
        first[name]
        for name in "session_id iteration input_tokens output_tokens cache_read_tokens estimated_cost_usd "
        "stop_reason compaction".split()
    )
    assert (1, [], "end_turn") == (second["iteration"], second["tool_calls"], second["stop_reason"])
    (call,) = first["tool_calls"]
    assert ("read_file", True, False) == (call["name"], call["approved"], call["is_error"])
    assert verbose == ({"path": "a"} == call.get("arguments"))
    assert verbose == ("args_sha256" not in call)


def test_i1_what_tokens_cost() -> None:
    """I1: a million tokens each way of Sonnet are 18 dollars; tokens from OpenAI's cache are paid once."""

    def cost(provider: str, model: str, usage: Usage) -> Decimal | None:
        return with_cost(usage, bundled_prices(provider).price_of(provider, model)).cost

    million = 1_000_000
    assert Decimal(18) == cost("anthropic", "claude-sonnet-4-6", Usage(million, million, 0, 0))
    assert Decimal("1.25") == cost("openai", "gpt-4o", Usage(million, 0, million, 0))
