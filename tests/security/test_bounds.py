"""X90, X91, X92: what is bounded is bounded exactly, a model that goes round in circles stops, and no pattern hangs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait.core.known_secrets import Redactor, without_key_end
from plait.core.mask import MASK
from plait.core.redact import redact_secrets
from plait.engine.agent import Agent
from plait.engine.limits import Limits
from plait.engine.permissions.rule import rules_of
from plait.engine.permissions.ruling import Permissions, Subject
from plait.engine.spec import default_specification
from plait.engine.validation import compile_schema
from plait.hands.searching.globs import compile_glob
from plait.kernel.rules import Guards, Retry
from plait.kernel.tools import Tool
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, Say, ScriptedModel, ScriptServer
from plait.testing.faults import Status
from plait.tools.redaction import Redaction
from plait.tools.toolbox import Toolbox, ToolboxOptions

PATIENCE = Guards().repeats_max


def results(model_calls: list[Any], *tools: Tool, **options: Any) -> list[str]:
    """Run an agent through some calls, and return what it was told."""
    agent = Agent(ScriptedModel([*model_calls, "done"]), tools, **options)
    return [result.content for message in agent.run("go").messages for result in message.tool_results]


@pytest.mark.parametrize("chars, is_cut", [(399, False), (400, False), (401, True)])
def test_x90_a_result_has_so_many_characters_at_most(chars: int, is_cut: bool) -> None:
    """At four characters a token: one more is cut, and says so."""
    tool = Tool("say", "says", lambda: "x" * chars, {"type": "object"})
    (told,) = results([Say(calls=[Call("say", {})])], tool, limits=Limits(max_tool_result_tokens=100))
    assert (is_cut, not is_cut) == ("truncated" in told, told == "x" * chars)


@pytest.mark.parametrize("output, is_cut", [(0, False), (1, True)])
def test_x90_output_of_a_command_has_so_many_bytes_at_most(tmp_path: Path, output: int, is_cut: bool) -> None:
    """What a command prints is cut by its head and tail; the whole is kept, up to a bound."""
    box = Toolbox(tmp_path, ToolboxOptions(result_tokens_max=1_000))
    limits = box.shell._capture_limits(1, box.shell.spill.new_path())
    size = limits.head_bytes + limits.tail_bytes + output
    reply = box.exec_shell(f"head -c {size} /dev/zero | tr '\\0' x")
    assert not hasattr(reply, "is_error")
    assert is_cut == ("truncated" in str(reply))
    box.close()


@pytest.mark.parametrize("timeout_s, is_refused", [(0.0, True), (3_600.0, False), (3_600.1, True)])
def test_x90_a_command_has_so_many_seconds_at_most(tmp_path: Path, timeout_s: float, is_refused: bool) -> None:
    """More than an hour, or none at all, is refused before anything is started."""
    box = Toolbox(tmp_path)
    told = str(box.exec_shell("echo ran", timeout_s))
    assert (is_refused, not is_refused) == ("is not possible" in told, "ran" in told)
    box.close()


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_x90_a_request_is_made_so_many_times_at_most(tmp_path: Path, attempts: int) -> None:
    """A limit of attempts is exact."""
    with ScriptServer([Status(503)] * attempts) as server:
        spec = default_specification("m", server.url)
        retry = Retry(attempts_max=attempts, base_s=0.001, cap_s=0.001)
        with (
            create_client(spec) as client,
            init_session(spec, workspace=tmp_path, durable=False, retry=retry) as session,
        ):
            result = run_turn(client, "m", session, "go")
        assert ("error", attempts) == (result.status, len(server.requests))


@pytest.mark.parametrize("rounds, status", [(PATIENCE - 1, "completed"), (PATIENCE, "limit")])
@pytest.mark.parametrize("period", [1, 2, 3])
def test_x91_a_model_that_goes_round_in_circles_stops(rounds: int, status: str, period: int) -> None:
    """The same calls with the same results so many times, alone, in twos or in threes: not one earlier or later."""
    tool = Tool("look", "looks", lambda at: f"seen {at}", {"type": "object", "properties": {"at": {}}})
    steps = [Say(calls=[Call("look", {"at": number % period}, id=f"c{number}")]) for number in range(rounds * period)]
    result = Agent(ScriptedModel([*steps, "done"]), [tool], limits=Limits(max_steps=None)).run("go")
    assert status == result.status
    assert status == "completed" or f"the same results {PATIENCE} times" in str(result.error)


BOMBS = ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*a){20}", "(?:a?){40}a{40}", "^(\\w+\\s?)*$", "([a-zA-Z]+)*$"]


@pytest.mark.parametrize("bomb", BOMBS)
def test_x92_a_pattern_of_a_tool_s_schema_is_no_bomb(bomb: str) -> None:
    """A server of others names patterns for its arguments; the model's argument is checked against them at once."""
    check = compile_schema({"type": "object", "properties": {"a": {"type": "string", "pattern": bomb}}})
    assert check({"a": "a" * 5_000 + "!"}) is None or check({"a": "a" * 5_000 + "!"})
    names = compile_schema({"type": "object", "patternProperties": {bomb: {"type": "integer"}}})
    assert names({"a" * 5_000 + "!": "x"}) is None or names({"a" * 5_000 + "!": "x"})


@pytest.mark.parametrize("bomb", ["*a" * 40 + "b", "**/" * 30 + "b", "{a,b}" * 4 + "*" * 50 + "c", "[a-z]*" * 40 + "!"])
def test_x92_a_glob_and_a_rule_are_no_bombs(tmp_path: Path, bomb: str) -> None:
    """Stars without number, over names and commands as long as they can be."""
    name = "a" * 250
    assert not compile_glob(bomb).matches("/".join([name] * 10))
    (rule,) = rules_of({"allow": [f"Bash({bomb})"]}, "test")
    subject = Subject(("Bash",), command="a" * 20_000)
    assert "allow" != Permissions((rule,), str(tmp_path)).judge(subject).action


def _streamed(text: str) -> str:
    shown: list[str] = []
    stream = Redactor(["secret-Value-1"]).stream(shown.append)
    for at in range(0, len(text), 4_096):
        stream.write(text[at : at + 4_096])
    stream.close()
    return "".join(shown)


BEGIN = "-----BEGIN " + "PRIVATE KEY-----"
END = "-----END " + "PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        BEGIN * 20_000,
        f"{BEGIN}\n" * 20_000,
        f"{END}\n" * 20_000,
        BEGIN + "A" * 1_000_000,
        "password=" * 60_000,
        "machine a login b password " * 40_000,
        "Authorization: " * 60_000,
        "://a:" * 100_000,
        "eyJ" * 200_000,
        "sk-" * 200_000,
        "A\n" * 300_000,
    ],
    ids=lambda text: f"{text[:12]!r}",
)
@pytest.mark.parametrize(
    "take",
    [lambda t: redact_secrets(t)[0], _streamed, without_key_end, lambda t: "".join(Redaction({}).ends(t, t))],
    ids=["whole", "stream", "end", "ends"],
)
def test_x92_what_takes_secrets_out_is_hung_by_no_text(text: str, take: Callable[[str], str]) -> None:
    """Beginnings of secrets by the ten thousand cost what they are long: a square of that would take minutes."""
    assert isinstance(take(text), str)


def test_x92_what_is_masked_stays_masked_among_many_beginnings() -> None:
    """A key behind thousands of beginnings without one is still found."""
    key = f"{BEGIN}\nMIIEowIBAAKCAQEA\n{END}"
    assert f"{BEGIN}x {MASK} y" == redact_secrets(f"{BEGIN}x {key} y")[0]
