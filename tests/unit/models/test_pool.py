"""Several keys for one endpoint: which is used, which rests, which is put out, and that none is ever shown."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from plait.core.codec import encode_fact
from plait.core.events import AttemptReset, Committed, Event, Notice
from plait.core.exchange import ProviderFailed
from plait.core.facts import Observation, RetryScheduled
from plait.engine.agent import Agent
from plait.engine.result import RunResult
from plait.kernel.ports import Setup
from plait.kernel.rules import Retry, Rules
from plait.models.chat_model import ChatModel, chat_model
from plait.models.openai_client import OpenAI
from plait.models.pool import RECOVERY_S, CredentialPool
from plait.testing import Request, Say, ScriptServer, VirtualClock, faults
from plait.testing.faults import Step
from tests.unit.models.talking import TALKS, text_of

COLOURS = pytest.mark.parametrize("colour", ["sync", "async"])
KEYS = ("first-secret", "second-secret", "third-secret")


class Clock:
    """Seconds that move when a test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def answering(by_key: Mapping[str, Step], used: list[str]) -> Callable[[Request], Step]:
    """Return a script that answers by the key of the request, and notes the keys."""

    def script(request: Request) -> Step:
        used.append(request.headers["authorization"].removeprefix("Bearer "))
        return by_key[used[-1]]

    return script


def limited(wait: str) -> faults.Status:
    """Refuse a key for its rate."""
    return faults.Status(429, headers={"Retry-After": wait})


def model_of(server: ScriptServer, count: int = 3, **options: Any) -> ChatModel:
    """Return a model that has so many keys."""
    return chat_model("any", server.url, api_key=",".join(KEYS[:count]), **options)


def run(agent: Agent, colour: str) -> RunResult:
    """Run a task in this thread, or in an event loop."""
    return agent.run("x") if colour == "sync" else asyncio.run(agent.arun("x"))


def test_the_key_that_works_stays() -> None:
    """A key whose rest is over is not gone back to while another one works: the other one has the cache."""
    clock = Clock()
    pool = CredentialPool(KEYS, monotonic_s=clock)
    assert KEYS[1] == pool.spend(KEYS[0], 5)
    clock.now_s = 6
    assert KEYS[1] == pool.ready() == pool.current()


def test_where_all_rest_the_first_to_be_back_is_next() -> None:
    """Not the key that was refused last is used next, but the one whose time is over first."""
    clock = Clock()
    pool = CredentialPool(KEYS, monotonic_s=clock)
    assert [KEYS[1], KEYS[2], None] == [pool.spend(key, wait) for key, wait in zip(KEYS, (30, 10, 20), strict=True)]
    assert (10.0, KEYS[1]) == (pool.wait_s(), pool.ready())
    clock.now_s = 25
    assert (0.0, KEYS[1]) == (pool.wait_s(), pool.ready())


def test_a_rest_that_nobody_stated_is_no_promise() -> None:
    """Where a minute is only our guess, nobody is told to wait for it."""
    clock = Clock()
    pool = CredentialPool(KEYS[:2], monotonic_s=clock)
    pool.spend(KEYS[0])
    pool.spend(KEYS[1], RECOVERY_S + 1)
    assert pool.wait_s() is None
    clock.now_s = RECOVERY_S
    assert KEYS[0] == pool.ready()


def test_a_key_that_is_out_comes_last() -> None:
    """A key that was refused for good is asked again when all are, from the first one on."""
    pool = CredentialPool(KEYS[:2])
    assert KEYS[1] == pool.spend(KEYS[0], is_out=True)
    assert (False, KEYS[1]) == (pool.is_out, pool.ready())
    assert pool.spend(KEYS[1], is_out=True) is None
    assert (True, None, KEYS[0]) == (pool.is_out, pool.wait_s(), pool.ready())


def test_keys_go_by_their_place() -> None:
    """A label has the place of a key and nothing of the key; a key that has no sisters needs none."""
    assert ["key 1 of 2", "key 2 of 2", "the key"] == [CredentialPool(KEYS[:2]).label(key) for key in KEYS]
    assert "the key" == CredentialPool(KEYS[:1]).label(KEYS[0])
    assert (None, None, True) == (CredentialPool([]).ready(), CredentialPool([]).wait_s(), CredentialPool([]).is_out)


def test_any_use_of_a_pool_leaves_a_key_to_use() -> None:
    """Whatever is refused in whatever order, there is a next key, and it rests only where all do."""
    for seed in range(300):
        dice, clock = random.Random(seed), Clock()
        pool = CredentialPool(KEYS[: dice.randint(1, 3)], monotonic_s=clock)
        for _ in range(20):
            key = pool.ready()
            assert key in KEYS
            clock.now_s += dice.choice([0, 1, 70])
            after = pool.spend(key, dice.choice([None, 0, 5, 600]), is_out=dice.random() < 0.1, tried=[key])
            assert after != key
            assert after is None or pool.ready() == after


@COLOURS
def test_a_refused_key_is_put_out(colour: str) -> None:
    """A wrong key costs one request and no more, and those without money are left as well."""
    used: list[str] = []
    by_key = {KEYS[0]: faults.Status(401), KEYS[1]: faults.Status(402), KEYS[2]: "fine"}
    with ScriptServer(answering(by_key, used)) as server:
        assert ["fine"] * 3 == [text_of(outcome) for outcome in TALKS[colour](model_of(server), 3)]
    assert [*KEYS, KEYS[2], KEYS[2]] == used


@COLOURS
def test_when_all_are_refused_that_is_the_failure(colour: str) -> None:
    """With no key left the last refusal is told, without a retry; the next request gives each another chance."""
    used: list[str] = []
    with ScriptServer(answering(dict.fromkeys(KEYS, faults.Status(401)), used)) as server:
        outcomes = TALKS[colour](model_of(server, 2), 2)
    assert [("auth", False)] * 2 == [(o.kind, o.retryable) for o in outcomes if isinstance(o, ProviderFailed)]
    assert [*KEYS[:2], *KEYS[:2]] == used


@COLOURS
def test_when_all_rest_the_first_is_waited_for(colour: str) -> None:
    """The failure that the loop gets says how long the first key needs, whoever was asked last."""
    by_key = {KEYS[0]: limited("40"), KEYS[1]: limited("7"), KEYS[2]: faults.Status(401)}
    with ScriptServer(answering(by_key, [])) as server:
        (failed,) = TALKS[colour](model_of(server), 1)
    assert isinstance(failed, ProviderFailed)
    assert failed.retryable
    assert failed.retry_after_s == pytest.approx(7, abs=2)


@COLOURS
def test_a_wait_of_nothing_does_not_go_round(colour: str) -> None:
    """A key is asked once an attempt, even where its rest is over at once."""
    used: list[str] = []
    with ScriptServer(answering(dict.fromkeys(KEYS, limited("0")), used)) as server:
        TALKS[colour](model_of(server), 1)
    assert [*KEYS] == used


@COLOURS
def test_one_key_is_as_without_a_pool(colour: str) -> None:
    """A single key rests for nobody: each failure is the endpoint's own."""
    with ScriptServer([limited("3"), faults.Status(401), "fine"]) as server:
        outcomes = TALKS[colour](model_of(server, 1), 3)
    assert ["rate_limit", "auth"] == [o.kind for o in outcomes[:2] if isinstance(o, ProviderFailed)]
    assert "fine" == text_of(outcomes[2])


@COLOURS
def test_a_change_is_told_by_place_and_kept(colour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Observers hear which key rests for how long and which is next; the log has it too; no key is in either."""
    monkeypatch.setenv("SOME_KEYS", ",".join(KEYS))
    heard: list[Event] = []
    by_key = {KEYS[0]: limited("40"), KEYS[1]: faults.Status(401), KEYS[2]: "fine"}
    with ScriptServer(answering(by_key, [])) as server:
        model = chat_model("any", server.url, key_env="SOME_KEYS")
        result = run(Agent(model, on_event=heard.append), colour)

    place = " in SOME_KEYS"
    first = {"key": f"key 1 of 3{place}", "kind": "rate_limit", "rests_s": 40.0, "next": f"key 2 of 3{place}"}
    second = {"key": f"key 2 of 3{place}", "kind": "auth", "rests_s": None, "next": f"key 3 of 3{place}"}
    facts = [event.entry.fact for event in heard if isinstance(event, Committed)]
    assert [first, second] == [event.data for event in heard if isinstance(event, Notice)]
    assert [{"event": "key_rested", **data} for data in (first, second)] == [
        fact.data for fact in facts if isinstance(fact, Observation) and fact.type == "note"
    ]
    assert "fine" == result.text
    everything = repr(heard) + repr(result) + json.dumps([encode_fact(fact) for fact in facts], default=repr)
    assert not [key for key in KEYS if key in everything]


@COLOURS
def test_a_limit_in_the_middle_of_an_answer_is_left_to_the_loop(colour: str) -> None:
    """Words that were heard are withdrawn before another key's answer begins: at once, without a wait."""
    used: list[str] = []
    heard: list[Event] = []
    error = {"message": "slow down", "code": 429}
    by_key: dict[str, Step] = {KEYS[0]: faults.StreamError(error, after=3, answer=Say("half of it")), KEYS[1]: "whole"}
    with ScriptServer(answering(by_key, used)) as server:
        agent = Agent(model_of(server, 2), on_event=heard.append, clock=VirtualClock())
        result = run(agent, colour)

    scheduled = [e.entry.fact for e in heard if isinstance(e, Committed) and isinstance(e.entry.fact, RetryScheduled)]
    assert ("whole", [KEYS[0], KEYS[1]]) == (result.text, used)
    assert [0] == [fact.delay_ms for fact in scheduled]
    assert 1 == len([event for event in heard if isinstance(event, AttemptReset)])


def test_a_client_uses_all_its_keys() -> None:
    """A client in OpenAI's shape goes on to the next key as well, and waits for the first where all rest."""
    used: list[str] = []
    by_key: dict[str, Step] = {KEYS[0]: limited("0.05"), KEYS[1]: faults.Status(401)}
    with ScriptServer(answering(by_key, used)) as server:
        client = OpenAI(api_key=",".join(KEYS[:2]), base_url=server.url, retry=Retry(2))
        with pytest.raises(Exception, match="gave up after 2 requests"):
            client.chat.completions.create(model="m", messages=[])
        client.close()
    assert [KEYS[0], KEYS[1], KEYS[0]] == used


@COLOURS
def test_our_own_limit_is_told_before_it_is_waited_for(colour: str) -> None:
    """Who waits for `max_rpm` is heard to: how long, until when, and that the limit is ours."""
    heard: list[Event] = []
    with ScriptServer(["one", "two"]) as server:
        agent = Agent(chat_model("any", server.url, max_rpm=1), on_event=heard.append, rules=Rules())
        channel_limit = agent.model._backend.limiter  # type: ignore[attr-defined]
        assert "one" == run(agent, colour).text
        # The minute is nearly over.
        channel_limit._places[0] -= 59.9
        assert "two" == run(agent, colour).text

    (wait,) = [event for event in heard if isinstance(event, Notice)]
    assert ("rate_limit_wait", "max_rpm") == (wait.type, wait.data["source"])
    assert 0 < float(str(wait.data["delay"])) <= 0.1
    assert str(wait.data["resume_at"]).endswith("+00:00")
    spoken = [index for index, event in enumerate(heard) if event is wait]
    assert spoken[0] < len(heard) - 1


def test_a_setup_is_the_same_whoever_listens() -> None:
    """A line stays open although the listener is another one."""
    assert Setup("s") == Setup("s", tell=lambda *_: None)
