"""A host puts something shorter in the place of each step, for good."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import plait
from plait import ConfigError, StepReduction, Tool, create_client, init_session, replay_session, run_turn
from plait.cli.specs import built_in_spec
from plait.core.facts import Reset
from plait.core.messages import Message, Text, ToolCall, ToolResult
from plait.engine.cache.ledger import CacheLedger
from plait.events.named import NamedEvent
from plait.kernel.history import fault_in
from plait.session.history.reducing import reduce_step
from plait.session.session import Session
from plait.store.opening import load_journal
from plait.store.sessions import Sessions
from plait.testing import Call, Say, ScriptServer

LONG = "It is a long story. " * 60
STEP = Say("I look.", calls=[Call("look"), Call("look")])
LOOK = Tool("look", "Look.", lambda **_: LONG, parameters={"type": "object"}, idempotent=True)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep sessions here."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@contextmanager
def talk(server: ScriptServer, reducer: Any, **options: Any) -> Iterator[tuple[Session, Any]]:
    """Open the session `s` with a reducer."""
    spec = built_in_spec("any", server.url)
    given: dict[str, Any] = {
        "session_id": "s",
        "strict_cache_proof": False,
        "tools": [LOOK],
        "step_reducer": reducer,
        **options,
    }
    with create_client(spec) as client, init_session(spec, **given) as session:
        yield session, client


def asked(server: ScriptServer) -> list[str]:
    """Return the last request's messages, the system prompt left out."""
    return [str(item["content"]).strip() for item in server.requests[-1].messages if item["role"] != "system"]


def journal() -> Any:
    """Return the session's journal."""
    return load_journal(Sessions.of(os.environ).place_of("s").journal)


def digest(session: Session, step: list[dict[str, Any]], *, client: object, model: str) -> list[dict[str, Any]]:
    """Keep of a step that it was made."""
    return [{"role": "assistant", "content": f"I looked {len(step) - 1} times."}, {"role": "user", "content": "Go on."}]


def test_each_step_is_reduced_for_good() -> None:
    """The next request has two messages in its place, a resume too; the journal says why, and a replay agrees."""
    events: list[NamedEvent] = []
    seen: list[tuple[Any, ...]] = []

    def reducer(session: Session, step: list[dict[str, Any]], *, client: object, model: str) -> list[dict[str, Any]]:
        seen.append((session is opened, [item["role"] for item in step], client is own, model))
        step.clear()  # copies
        return digest(session, [{}, {}, {}], client=client, model=model)

    reduced = ["I looked 2 times.", "Go on."]
    with ScriptServer([STEP, STEP, "Done.", "More."]) as server:
        with talk(server, reducer, on_event=lambda _, event: events.append(event)) as (opened, own):
            assert "Done." == run_turn(own, "any", opened, "go").final_reply
            assert ["go", *reduced, *reduced] == asked(server)
        assert [(True, ["assistant", "tool", "tool"], True, "any")] * 2 == seen
        told = [event for event in events if event.type == "step_reduced"]
        assert [(3, 2, None)] * 2 == [(t["raw_messages"], t["kept_messages"], t["final_reply"]) for t in told]
        assert all(event.raw_chars > 2_000 > event.kept_chars for event in told)  # type: ignore[attr-defined]
        assert all("reduced" in event["fmt"] for event in told)  # type: ignore[operator]
        with talk(server, None) as (session, client):
            run_turn(client, "any", session, "and now?")
            assert ["go", *reduced, *reduced, "Done.", "and now?"] == asked(server)
        facts = journal().facts
        assert ["step_reducer"] * 2 == [fact.why for fact in facts if isinstance(fact, Reset)]
        assert replay_session("s", built_in_spec("any", server.url)).is_same
        requests = CacheLedger().take_all(facts, journal().told.times_ms)
        departures = [None if request.departure is None else request.departure.why for request in requests]
        # What was appended and taken away again was never sent: the first request is still a beginning of the next.
        assert [None, None, None, None] == departures


def test_a_reply_ends_the_turn() -> None:
    """`final_reply` is the answer, as if the model had given it, and stands in the history."""
    with ScriptServer([STEP, "More."]) as server:
        with talk(server, lambda *_, **__: StepReduction([], "Done: it is long.")) as (session, client):
            result = run_turn(client, "any", session, "go")
            assert ("completed", "Done: it is long.") == (result.status, result.final_reply)
        with talk(server, None) as (session, client):
            run_turn(client, "any", session, "more")
            assert ["go", "Done: it is long.", "more"] == asked(server)
        assert replay_session("s", built_in_spec("any", server.url)).is_same


def test_nothing_returned_is_nothing_changed() -> None:
    """None leaves the step as it is."""
    with ScriptServer([STEP, "Done."]) as server, talk(server, lambda *_, **__: None) as (session, client):
        run_turn(client, "any", session, "go")
        assert 4 == len(asked(server))
        assert not [fact for fact in journal().facts if isinstance(fact, Reset)]


@pytest.mark.parametrize(
    "kept, sent",
    [
        ([{"role": "assistant", "content": "I looked."}], ["go", "I looked.", "Go on."]),
        ([{"role": "user", "content": "You looked."}], ["go", "You looked."]),
    ],
    ids=["assistant", "user"],
)
def test_the_turn_goes_on(kept: list[dict[str, Any]], sent: list[str]) -> None:
    """Whatever stands in a step's place, the model is asked again: a note of the host's is no answer."""
    with ScriptServer([STEP, "Done."]) as server, talk(server, lambda *_, **__: kept) as (session, client):
        assert "Done." == run_turn(client, "any", session, "go").final_reply
        assert sent == asked(server)
        spec = built_in_spec("any", server.url)
    assert replay_session("s", spec).is_same


def test_results_may_be_shortened() -> None:
    """A step may keep its calls with results that are shorter; the model sees these."""

    def shorten(_: Session, step: list[dict[str, Any]], **__: object) -> list[dict[str, Any]]:
        return [step[0], {**step[1], "content": "short"}, {**step[2], "content": ""}]

    with ScriptServer([STEP, "Done."]) as server, talk(server, shorten) as (session, client):
        run_turn(client, "any", session, "go")
        assert ["go", "I look.", "short", "(no output)"] == asked(server)


RESULT = {"role": "tool", "tool_call_id": "c1", "content": "x"}
CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}],
}
NO_STEPS: list[Any] = ["text", 5, [5], [{"content": "x"}], [{"role": "system", "content": "x"}]]
NO_STEPS += [[RESULT], [CALL, {"role": "user", "content": "x"}, RESULT], [CALL, RESULT, RESULT], [CALL], []]
NO_STEPS += [StepReduction(()), [{"role": "assistant", "content": " "}], [{"role": "user", "content": ""}]]
NO_REPLY: Any = 5


@pytest.mark.parametrize("value", [*NO_STEPS, StepReduction([], NO_REPLY)], ids=repr)
def test_what_is_no_step_is_refused(value: object) -> None:
    """The turn ends with an error that names the reducer; the history keeps the step as it was."""
    values = [value, None]
    with ScriptServer([STEP, "Done."]) as server, talk(server, lambda *_, **__: values.pop(0)) as (session, client):
        result = run_turn(client, "any", session, "go")
        assert isinstance(result.error, ConfigError)
        assert "step_reducer" in result.error.message
        assert ["system", "user", "assistant", "tool", "tool"] == [item["role"] for item in session["messages"]]
        assert "Done." == run_turn(client, "any", session, None).final_reply


def call_of(name: str) -> dict[str, Any]:
    """Make a call as chat completions write it."""
    return {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}}


def result_of(name: str) -> dict[str, Any]:
    """Make the result of a call."""
    return {"role": "tool", "tool_call_id": name, "content": LONG}


WHOLE: list[dict[str, Any]] = [
    {"role": "assistant", "content": "I look.", "tool_calls": [call_of(name) for name in "abc"]},
    *map(result_of, "abc"),
]
PIECES = [
    *WHOLE,
    result_of("x"),
    {"role": "user", "content": "Go on."},
    {"role": "user", "content": ""},
    {"role": "assistant", "content": "I looked."},
    {"role": "assistant", "content": None, "tool_calls": [call_of("d")]},
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "assistant", "content": None, "tool_calls": [call_of("e"), call_of("f")]},
    *map(result_of, "def"),
    {"role": "assistant", "content": None, "tool_calls": [call_of("earlier")]},
]


def what_is_wrong(items: list[dict[str, Any]]) -> bool:
    """Say whether a provider would refuse these messages behind an earlier call, or they are nothing."""
    history: list[Message] = []
    ids = ["earlier"]
    for item in items:
        calls = tuple(ToolCall(call["id"], "look", "{}") for call in item.get("tool_calls") or ())
        ids += [call.id for call in calls]
        if item["role"] != "tool":
            history.append(Message(item["role"], (Text(item["content"] or ""), *calls)))
            if not item["content"] and not calls:
                return True
        elif history and history[-1].role == "tool":
            history[-1] = Message("tool", (*history[-1].parts, ToolResult(item["tool_call_id"], "x")))
        else:
            history.append(Message("tool", (ToolResult(item["tool_call_id"], "x"),)))
    return not items or len(ids) != len(set(ids)) or fault_in(history) is not None


changed_steps = st.one_of(
    st.permutations(WHOLE),
    st.lists(st.sampled_from(range(4)), unique=True).map(lambda kept: [WHOLE[at] for at in sorted(kept)]),
    st.tuples(st.integers(0, 4), st.sampled_from(PIECES)).map(lambda put: [*WHOLE[: put[0]], put[1], *WHOLE[put[0] :]]),
    st.lists(st.sampled_from(PIECES), max_size=6),
)


@given(changed_steps)
def test_only_a_step_that_an_endpoint_would_take_is_taken(step: list[dict[str, Any]]) -> None:
    """A call without its result, a result without its call, results left out or in another order, nothing: refused.

    Then the list is what it was, and the error says which message is wrong; all else is taken as it is.
    """
    before = [{"role": "user", "content": "go"}, {"role": "assistant", "tool_calls": [call_of("earlier")]}]
    items = [*before, result_of("earlier"), *WHOLE]
    session: Any = {"messages": [dict(item) for item in items]}

    if what_is_wrong(step):
        with pytest.raises(ConfigError, match=r"no endpoint would take: (message \d|the calls|it is empty)"):
            reduce_step(lambda *_, **__: step, session, None, "any")
    else:
        reduced = reduce_step(lambda *_, **__: step, session, None, "any")
        assert reduced is not None
        assert (3, step) == (reduced.start, reduced.items[: len(step)])
    assert items == session["messages"]


def test_what_a_reducer_raises_comes_out() -> None:
    """As with a handler: it is raised by `run_turn`, with a valid history."""

    def fail(*_: object, **__: object) -> None:
        raise KeyError("mine")

    with ScriptServer([STEP]) as server, talk(server, fail) as (session, client):
        with pytest.raises(KeyError, match="mine"):
            run_turn(client, "any", session, "go")
        assert "tool" == session["messages"][-1]["role"]


def test_a_step_of_an_earlier_turn_is_left_alone() -> None:
    """A turn that begins after a step asks nobody about that one."""
    seen: list[int] = []

    def count(session: Session, step: list[dict[str, Any]], **_: object) -> None:
        seen.append(len(step))

    with ScriptServer([STEP, "Done.", "Again."]) as server, talk(server, count) as (session, client):
        run_turn(client, "any", session, "go")
        assert [3] == seen
        seen.clear()
        del session["messages"][-1]
        run_turn(client, "any", session, None)
        assert [] == seen


def test_what_cannot_be_called_is_refused() -> None:
    """A reducer is a function."""
    with pytest.raises(ConfigError, match="cannot be called"):
        init_session(built_in_spec("any", "http://127.0.0.1:9/v1"), step_reducer=5)  # type: ignore[arg-type]
    assert "StepReducer" in plait.__all__
