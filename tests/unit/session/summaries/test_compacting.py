"""A session's history is made shorter of itself: at a size, at a turn's end, by a host's word, and if hooks let it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from plait.cli.specs import built_in_spec
from plait.core.errors import AgentSpecInvalidError, ConfigError
from plait.core.facts import Reset
from plait.kernel.history import fault_in
from plait.kernel.tools import Tool
from plait.models.chat_model import chat_model
from plait.session.clients import create_client
from plait.session.history.replaying import replay_session
from plait.session.history.resetting import clear_session
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.tasks import run_task
from plait.session.turns import run_turn
from plait.store.opening import load_journal
from plait.testing import Call, Meter, Say, ScriptServer
from plait.testing.faults import Reset as ConnectionReset, Stall, Status
from plait.testing.request import Request
from tests.unit.session.hooks.hooked import at

WORDS = "It is a long story. " * 100
TOO_LONG = Status(
    400, {"error": {"code": "context_length_exceeded", "message": "This model's maximum context length is 10 tokens."}}
)
NO_KEY = Status(401, {"error": {"message": "no such key"}})
SUMMARY = "Objective: tell a story. Next: the end."

pytestmark = pytest.mark.usefixtures("work")


LOOK = Tool("look", "Look.", lambda **_: WORDS, parameters={"type": "object"}, idempotent=True)


class Heard:
    """What happened, by its name."""

    def __init__(self) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, name: str, event: Any) -> None:
        self.all.append((name, dict(event)))

    def of(self, *names: str) -> list[dict[str, Any]]:
        return [data for name, data in self.all if name in names]


def is_summary(request: Request) -> bool:
    """Say whether a request asks for a summary."""
    return "about to be shortened" in str(request.json["messages"][-1]["content"])


def serving(answer: Callable[[Request, int], Any], summary: Any = SUMMARY) -> Callable[[Request], Any]:
    """Answer steps by their number, and requests for a summary with one."""
    count = [0]

    def script(request: Request) -> Any:
        if is_summary(request):
            return summary
        count[0] += 1
        return answer(request, count[0])

    return script


@contextmanager
def talk(server: ScriptServer, heard: Heard | None = None, **options: Any) -> Iterator[tuple[Session, Any]]:
    spec = built_in_spec("any", server.url)
    options = {"session_id": "s", "strict_cache_proof": False, **options}
    with create_client(spec) as client, init_session(spec, on_event=heard, **options) as session:
        yield session, client


def said(session: Session) -> list[str]:
    return [str(item.get("content")) for item in session["messages"] if item["role"] != "system"]


def test_e33_a_turn_that_grew_is_summarised_before_the_next_request() -> None:
    """A prompt beyond the number that was given: system, summary and the last turns are left, told and counted."""
    heard = Heard()
    usage = {"prompt_tokens": 1_200, "completion_tokens": 10, "total_tokens": 1_210}
    script = serving(lambda _, number: Say(f"{number}: {WORDS}", usage=usage if number == 4 else None))
    with ScriptServer(script) as server:
        with talk(server, heard, compaction_trigger_tokens=1_000_000, compaction_keep_last_turns=1) as (
            session,
            client,
        ):
            for number in range(3):
                run_turn(client, "any", session, f"task {number + 1}")
            session["compaction_trigger_tokens"] = 1_100
            run_turn(client, "any", session, "task 4")
            assert [] != heard.of("compaction")
            assert ["system", "user", "user", "assistant"] == [item["role"] for item in session["messages"]]
            assert [True] == [item["compacted_summary"] for item in session["messages"] if "compacted_summary" in item]
            assert [SUMMARY, "task 4"] == said(session)[:2]
            (told,) = heard.of("compaction")
            assert (SUMMARY, 6, len(SUMMARY)) == (told["summary"], told["compacted_turns"], told["summary_length"])
            assert told["tokens_before"] > 1_100 > told["tokens_after"] > 0
            assert round(told["tokens_after"] / told["tokens_before"], 3) == told["compaction_ratio"]
            assert told["tokens_before"] == session["compaction_last_prompt_tokens"]
            assert [1] == [data["purpose"] == "compaction" for data in heard.of("usage") if data["purpose"]]
            before = session["usage_totals"]["total"]
            assert before == sum(data["total"] for data in heard.of("usage"))
        with talk(server) as (session, _):
            assert [SUMMARY, "task 4"] == said(session)[:2]
            assert told["tokens_before"] == session["compaction_last_prompt_tokens"]
            copy = dict(session)
        with init_session(built_in_spec("any", server.url), session=copy, session_id="other") as session:
            assert 0 == session["compaction_last_prompt_tokens"]
        (asked,) = (request for request in server.requests if is_summary(request))
        (step,) = (request for request in server.requests if request.number == asked.number - 1)
        head = asked.body.partition(b'"tool_choice"')[0]
        assert head.startswith(step.body.partition(b'],"stream"')[0])
        assert ("none", step.json["tools"]) == (asked.json["tool_choice"], asked.json["tools"])


def test_a_one_shot_run_is_summarised_and_its_task_stays() -> None:
    """One task and many steps: every request has the task and stays below the size, and there is one summary."""

    def answer(request: Request, number: int) -> Any:
        assert any(item["content"] == "the task" for item in request.json["messages"])
        return Call("look", {"n": number}) if number < 30 else "done"

    with ScriptServer(serving(answer)) as server:
        result = run_task(
            built_in_spec("any", server.url),
            "the task",
            tools=[LOOK],
            session_id="s",
            strict_cache_proof=False,
            compaction_trigger_tokens=6_000,
            compaction_keep_last_turns=3,
        )
        assert "done" == result.final_reply
        state = load_journal(_journal()).facts
        whys = [fact.why for fact in state if isinstance(fact, Reset)]
        assert 2 <= whys.count("compaction") == len(whys) <= 10
        assert 1 == sum("compacted_summary" in item for item in result.messages)
        most = max(len(request.body) for request in server.requests)
        assert most < 4 * 6_000 + 12_000
        assert replay_session("s", built_in_spec("any", server.url)).told.difference is None


def _journal() -> Path:
    from os import environ

    return Path(environ["PLAIT_HOME"]) / "sessions" / "s" / "journal.jsonl"


@pytest.mark.parametrize("broken", [NO_KEY, TOO_LONG, Call("look", {}), Stall(), "?!"])
def test_a_summary_that_never_comes_is_a_list(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the model does instead, a list of what went takes its place within the turn, which goes on."""
    heard = Heard()
    script = serving(lambda _, number: Call("look", {"n": number}) if number < 9 else "done", broken)
    with ScriptServer(script) as server, talk(server, heard, tools=[LOOK], compaction_trigger_tokens=4_000) as opened:
        session, client = opened
        monkeypatch.setattr("plait.kernel.rules.Shrinking.__init__", _hasty(0.3 if isinstance(broken, Stall) else 60))
        result = run_turn(client, "any", session, "the task")
        assert ("completed", "done") == (result.status, result.final_reply)
        assert [] != heard.of("compaction")
        assert all(data["summary"].startswith("Earlier: ") for data in heard.of("compaction"))
        assert len(heard.of("compaction")) == len(heard.of("compaction_preparation_skipped"))
        assert fault_in(session._live.conversation.state.history) is None


def test_a_summary_that_fails_for_the_moment_is_asked_for_again() -> None:
    """A rate limit, an overloaded endpoint and a lost connection are waited out, told, and cost no summary."""
    heard = Heard()
    at_once = {"Retry-After": "0"}
    passing = [Status(429, headers=at_once), Status(503, headers=at_once), ConnectionReset("before_headers")]
    failures = iter(passing)
    steps = serving(lambda _, number: Call("look", {"n": number}) if number < 9 else "done")

    def script(request: Request) -> Any:
        return next(failures, SUMMARY) if is_summary(request) else steps(request)

    with ScriptServer(script) as server, talk(server, heard, tools=[LOOK], compaction_trigger_tokens=4_000) as opened:
        session, client = opened
        result = run_turn(client, "any", session, "the task")
        asked = [request for request in server.requests if is_summary(request)]
    assert ("completed", "done") == (result.status, result.final_reply)
    assert {SUMMARY} == {data["summary"] for data in heard.of("compaction")}
    assert [] == heard.of("compaction_preparation_skipped")
    assert len(passing) + len(heard.of("compaction")) == len(asked)
    assert asked[0].body == asked[1].body == asked[2].body == asked[3].body
    assert ["rate_limit", "unavailable", "unavailable"] == [data["kind"] for data in heard.of("retry_scheduled")]


def _hasty(timeout_s: float) -> Callable[..., None]:
    from plait.kernel.rules import Shrinking

    init = Shrinking.__init__

    def hasty(self: Shrinking, *values: Any, **more: Any) -> None:
        init(self, *values, **{**more, "summary_timeout_s": timeout_s} if "keep_last_turns" in more else more)

    return hasty


def test_every_turn_may_end_with_a_summary() -> None:
    """Each turn's end leaves the last turns only; what fails there is told, and the turn has its answer."""
    heard = Heard()
    with ScriptServer(serving(lambda _, number: f"{number}: {WORDS}")) as server:
        options: dict[str, Any] = {"compaction_policy": "every_turn", "compaction_keep_last_turns": 1}
        with talk(server, heard, **options) as (session, client):
            for number in range(3):
                assert "completed" == run_turn(client, "any", session, f"task {number}").status
            assert [SUMMARY, "task 2"] == said(session)[:2]
            assert 2 == len(heard.of("compaction"))
    failing = serving(lambda _, number: f"{number}: {WORDS}", NO_KEY)
    with ScriptServer(failing) as server, talk(server, heard, **options, session_id="t") as (session, client):
        for number in range(2):
            assert run_turn(client, "any", session, f"task {number}").error is None
        assert ["AuthenticationError"] == [data["error_class"] for data in heard.of("error")]


def test_a_host_may_decide() -> None:
    """A function is asked after each answer and at each turn's end; when it says yes something goes."""
    seen: list[tuple[str, int]] = []

    def policy(session: Session, usage: Any, phase: str) -> bool:
        seen.append((phase, usage["prompt"]))
        assert usage["prompt"] == usage["prompt_tokens"]
        return phase == "turn_end" and len(said(session)) > 3

    with ScriptServer(serving(lambda _, number: f"{number}: {WORDS}")) as server:
        options: dict[str, Any] = {
            "compaction_policy": policy,
            "compaction_keep_last_turns": 1,
            "compaction_enabled": False,
        }
        with talk(server, **options) as (session, client):
            assert "host" == session["compaction_policy"]
            run_turn(client, "any", session, "one")
            run_turn(client, "any", session, "two")
            assert SUMMARY == said(session)[0]
        assert ["turn_end", "turn_end"] == [phase for phase, _ in seen]


def test_switched_off_it_never_happens() -> None:
    """Without it a conversation that does not fit ends with the error, told as such; with `never` it is made to fit."""
    heard = Heard()

    def answer(_: Request, number: int) -> Any:
        return TOO_LONG if number == 9 else Call("look", {"n": number}) if number < 12 else "ok"

    options: dict[str, Any] = {"tools": [LOOK], "compaction_trigger_tokens": 2_000}
    with ScriptServer(serving(answer)) as server:
        with talk(server, heard, **options, compaction_enabled=False) as (session, client):
            assert "error" == run_turn(client, "any", session, "the task").status
        assert [{"retries": 0}] == heard.of("context_overflow_abort")
    with ScriptServer(serving(answer)) as server:
        with talk(server, heard, **options, compaction_policy="never", session_id="t") as (session, client):
            assert "completed" == run_turn(client, "any", session, "the task").status
        assert [{"retries": 1}] == heard.of("context_overflow_retry")
        assert 1 == len(heard.of("compaction"))


def test_hooks_may_keep_history_and_are_not_asked_at_every_step() -> None:
    """A hook that says no leaves the turn alone, with its own reason; it is asked again only some answers later."""
    heard, asked = Heard(), []

    def no(data: dict[str, Any]) -> dict[str, Any]:
        asked.append(data["trigger"])
        return {"decision": "block", "reason": "not now"}

    script = serving(lambda _, number: Call("look", {"n": number}) if number < 14 else "done")
    with ScriptServer(script) as server:
        options: dict[str, Any] = {"tools": [LOOK], "compaction_trigger_tokens": 3_000, "hooks": at("PreCompact", no)}
        with talk(server, heard, **options) as (session, client):
            assert "completed" == run_turn(client, "any", session, "the task").status
            assert {"auto"} == set(asked)
            assert 2 <= len(asked) <= 4
            assert [{"reason": "not now"}] * len(asked) == heard.of("compaction_skipped")


def test_a_reducer_and_a_host_that_edits_are_heard_all_the_same() -> None:
    """Where every step is reduced, or edited, history is made shorter as well, and nothing that was changed is lost."""

    def reduce(session: Session, step: list[dict[str, Any]], **_: Any) -> list[dict[str, Any]]:
        return [{"role": "assistant", "content": "noted. " + WORDS}]

    script = serving(lambda _, number: Call("look", {"n": number}) if number < 20 else "done")
    with ScriptServer(script) as server:
        options: dict[str, Any] = {"tools": [LOOK], "compaction_trigger_tokens": 3_000, "step_reducer": reduce}
        with talk(server, **options) as (session, client):
            heard = Heard()
            session.on_event = heard
            assert "done" == run_turn(client, "any", session, "the task").final_reply
            assert 19 == len(heard.of("step_reduced"))
            assert 2 <= len(heard.of("compaction"))
            session["messages"][1]["content"] = "the task, in other words"
            session["compaction_trigger_tokens"] = 10
            script_state = load_journal(_journal()).facts
            run_turn(client, "any", session, "and on")
            assert "host_edit" in [
                fact.why for fact in load_journal(_journal()).facts[len(script_state) :] if isinstance(fact, Reset)
            ]


@pytest.mark.parametrize(
    "option, value",
    [
        ("compaction_trigger_tokens", 0),
        ("compaction_trigger_tokens", True),
        ("compaction_target_tokens", 1.5),
        ("compaction_keep_last_turns", -1),
        ("compaction_min_chars", "5"),
        ("compaction_enabled", "yes"),
        ("compaction_policy", "sometimes"),
    ],
)
def test_what_means_nothing_is_refused(option: str, value: object) -> None:
    """A number or a word that means nothing is named at once, also where a host puts it into the session."""
    spec = built_in_spec("any", "http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match=f"^{option}="):
        init_session(spec, **{option: value})  # type: ignore[arg-type]
    with ScriptServer([], allow_unused=True) as server, talk(server) as (session, client):
        session[option] = value
        with pytest.raises(ConfigError, match=f"^{option}="):
            run_turn(client, "any", session, "x")


def test_the_spec_says_it_and_a_keyword_says_it_louder() -> None:
    """The fields of a spec are the session's keys; a keyword takes a field's place; a wrong policy is refused."""
    spec = built_in_spec("any", "http://127.0.0.1:1/v1")
    own = {**spec, "compaction_trigger_tokens": 5_000, "compaction_policy": "never", "compaction_min_chars": 7}
    with init_session(own, compaction_policy="every_turn") as session:
        assert (5_000, "every_turn", 7, 2, True) == (
            session.compaction_trigger_tokens,
            session.compaction_policy,
            session.compaction_min_chars,
            session.compaction_keep_last_turns,
            session.compaction_enabled,
        )
    with pytest.raises((ConfigError, AgentSpecInvalidError)):
        init_session({**spec, "compaction_policy": "sometimes"})


def test_what_is_pinned_outlives_every_summary() -> None:
    """An item that a host pins stays word for word, in the list and in each request; its mark is not sent."""
    with ScriptServer(serving(lambda _, number: f"{number}: {WORDS}")) as server:
        options: dict[str, Any] = {"compaction_policy": "every_turn", "compaction_keep_last_turns": 1}
        with talk(server, **options) as (session, client):
            run_turn(client, "any", session, "Never touch main.")
            session["messages"][1]["pinned"] = True
            for number in range(3):
                run_turn(client, "any", session, f"task {number}")
            assert [SUMMARY, "Never touch main.", "task 2"] == said(session)[:3]
        with talk(server, **options) as (session, client):
            run_turn(client, "any", session, "last")
            assert [SUMMARY, "Never touch main.", "last"] == said(session)[:3]
            assert [True] == [item["pinned"] for item in session["messages"] if "pinned" in item]
        assert all("pinned" not in request.body.decode() for request in server.requests)


def test_the_size_that_was_too_large_is_told() -> None:
    """The key has the size of the request before which a summary was made or tried; 0 after an overflow and a clear."""
    long = serving(lambda _, number: f"{number}: {WORDS}")
    overflows = iter([TOO_LONG])
    with ScriptServer(lambda request: next(overflows, None) or long(request) if sizes else long(request)) as server:
        sizes: list[int] = []
        with talk(server, compaction_trigger_tokens=1_500, compaction_keep_last_turns=1) as (session, client):
            assert 0 == session.compaction_last_prompt_tokens
            for number in range(4):
                run_turn(client, "any", session, f"task {number}")
            sizes.append(session.compaction_last_prompt_tokens)
            run_turn(client, "any", session, "one more")
            sizes.append(session.compaction_last_prompt_tokens)
        with talk(server) as (session, _):
            sizes.append(session.compaction_last_prompt_tokens)
            clear_session(session)
            sizes.append(session.compaction_last_prompt_tokens)
    assert [0, 0, 0] == sizes[1:]
    assert 1_500 <= sizes[0] < 3_000


def test_a_window_that_nobody_told_is_learnt_from_the_refusal() -> None:
    """Where the endpoint alone knows its window, a summary is one request that fits, and the model writes each."""
    heard = Heard()
    script = serving(lambda _, number: Call("look", {"n": number}) if number < 40 else "done")
    look = Tool("look", "Look.", lambda n: f"{n}: {WORDS[:600]}", parameters={"type": "object"}, idempotent=True)
    meter = Meter(window=8_000, bytes_a_token=3)
    with ScriptServer(script, meter=meter) as server, talk(server, heard, tools=[look]) as opened:
        session, client = opened

        result = run_turn(client, "any", session, "the task")
        refused, asked = server.meter.refused, list(filter(is_summary, server.requests))
        assert all("the task" in request.body.decode() for request in server.requests)
    assert ("completed", "done") == (result.status, result.final_reply)
    assert {SUMMARY} == {data["summary"] for data in heard.of("compaction")}
    assert len(heard.of("compaction")) == len(refused) == len(asked) > 0
    assert not {request.number for request in asked} & {*refused}


def test_what_another_model_answered_is_no_measure_of_this_one() -> None:
    """A session that goes on with a smaller model is summarised in requests that fit; the larger one's say nothing."""
    sizes = []

    def small(request: Request) -> Any:
        return SUMMARY if is_summary(request) else "ok"

    with ScriptServer(["fine"] * 16) as large, ScriptServer(small, meter=Meter(window=8_000)) as server:
        spec = built_in_spec("any", large.url)
        with init_session(spec, session_id="s", strict_cache_proof=False) as session:
            for number in range(16):
                assert run_turn(chat_model("any", large.url), "any", session, f"{number}: {WORDS * 2}").error is None
            model = chat_model("other", server.url, context_window=8_000)
            result = run_turn(model, "other", session, "and now?")
            sizes = [len(request.body) // 4 for request in server.requests]
            assert ("completed", "ok") == (result.status, result.final_reply)
        assert () == server.meter.refused
    assert max(sizes) < 8_000
