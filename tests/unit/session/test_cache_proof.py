"""What a session asks of its endpoint's prompt cache, over a real socket: by keyword, by spec, after a restore."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from plait import (
    CacheProofError,
    ConfigError,
    NamedEvent,
    SessionResult,
    create_client,
    init_session,
    load_specification,
    run_task,
    run_turn,
)
from plait.engine.agent_spec import AgentSpec
from plait.session.session import Session
from plait.testing import Call, Say, ScriptServer

HI = Call("exec_shell", {"command": "echo hi"})


def usage(prompt: int, **more: Any) -> Mapping[str, Any]:
    """Return a usage object with these numbers."""
    return {"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1, **more}


def cached(tokens: int, prompt: int = 5_000) -> Mapping[str, Any]:
    """Return a usage object that says how much a cache held."""
    return usage(prompt, prompt_tokens_details={"cached_tokens": tokens})


class Heard:
    """Keeps what was heard of the cache."""

    def __init__(self) -> None:
        self.events: list[NamedEvent] = []

    def __call__(self, name: str, event: NamedEvent) -> None:
        self.events.append(event)

    @property
    def of_cache(self) -> list[str]:
        """Names of the events about the cache, and of errors, in order."""
        names = [event.type for event in self.events]
        return [name for name in names if name.startswith(("cache_", "prefix_")) or name == "error"]

    def one(self, name: str) -> NamedEvent:
        """Return the one event of a name."""
        (event,) = [event for event in self.events if event.type == name]
        return event


def asked(*steps: Any, **options: Any) -> tuple[SessionResult, Heard, int]:
    """Run a task against a script; return result, events and how many requests were made."""
    heard = Heard()
    with ScriptServer(steps, usage="plain", allow_unused=True) as server:
        result = run_task(load_specification("m", server.url), "x", on_event=heard, durable=False, **options)
        return result, heard, len(server.requests)


def test_e7_an_endpoint_that_says_nothing_ends_the_run() -> None:
    """E7: after one request the error is on the result and told as an event; what was answered is kept."""
    result, heard, requests = asked(HI, "done")

    assert (1, "error", None, 1) == (requests, result.status, result.final_reply, result.steps)
    with pytest.raises(CacheProofError):
        result.raise_for_status()
    assert ["error"] == heard.of_cache
    assert "CacheProofError" == heard.one("error")["error_class"]
    assert ["system", "user", "assistant", "tool"] == [message["role"] for message in result.messages]


def test_e7_a_reported_zero_is_enough_at_first() -> None:
    """E7: with zeros the run goes on; an answer without numbers is told, and a later hit makes it good."""
    with ScriptServer(
        [Say("one", usage=cached(0)), Say("two", usage=usage(5_010)), Say("three", usage=cached(4_900))]
    ) as server:
        heard, spec = Heard(), load_specification("m", server.url)
        with create_client(spec) as client, init_session(spec, on_event=heard, durable=False) as session:
            statuses = []
            for text in "abc":
                run_turn(client, "m", session, text).raise_for_status()
                statuses.append((session._cache_status, session._cache_last_proof_ts is not None))

    assert [(None, False), ("missing", False), ("ok", True)] == statuses
    assert ["cache_proof_missing"] == heard.of_cache
    assert (None, 5_010) == (
        heard.one("cache_proof_missing")["cached_tokens"],
        heard.one("cache_proof_missing")["prompt_tokens"],
    )
    assert {"_cache_status", "_cache_last_proof_ts"}.isdisjoint(session)
    json.dumps(session)


@pytest.mark.parametrize("proof", [False, "auto"])
def test_e7_without_proof_nothing_ends(proof: Any) -> None:
    """E7: False never says anything; "auto" gives one notice at an endpoint of which nothing is known."""
    result, heard, _ = asked(HI, "done", strict_cache_proof=proof)

    assert "completed" == result.status
    assert (["cache_unmeasurable"] if proof == "auto" else []) == heard.of_cache


SHAPES: Mapping[str, Mapping[str, Any]] = {
    "details.cached": {"prompt_tokens_details": {"cached_tokens": 7}},
    "read_input": {"cache_read_input_tokens": 7},
    "read": {"cache_read_tokens": 7},
    "details.read": {"prompt_tokens_details": {"cache_read_tokens": 7}},
    "details.read_input": {"prompt_tokens_details": {"cache_read_input_tokens": 7}},
    "creation_input": {"cache_creation_input_tokens": 7},
    "write": {"cache_write_tokens": 7},
    "details.write": {"prompt_tokens_details": {"cache_write_tokens": 7}},
    "details.creation_input": {"prompt_tokens_details": {"cache_creation_input_tokens": 7}},
    "kimi": {"cached_tokens": 7},
    "deepseek": {"prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 93},
    "responses": {"input_tokens_details": {"cached_tokens": 7}},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
def test_e8_every_shape_proves(shape: str, streams: bool) -> None:
    """E8: cached and written tokens are found in each shape in which servers report them, streamed and whole."""
    support = {"provider_api_support": {"streaming": {"supported": streams}}}
    with ScriptServer([Say("done", usage=usage(100, **SHAPES[shape]))]) as server:
        spec = AgentSpec({**load_specification("m", server.url), **support})
        with create_client(spec) as client, init_session(spec, strict_cache_proof="every", durable=False) as session:
            run_turn(client, "m", session, "x").raise_for_status()

            assert "ok" == session._cache_status
            assert 7 == session["usage_totals"]["cached"] + session["usage_totals"]["cache_write"]


@pytest.mark.parametrize("by_spec", [True, False])
def test_e9_prompts_that_are_too_short(by_spec: bool) -> None:
    """E9: below the minimum, by keyword or by spec, the first answer proves nothing and a later zero is explained."""
    limit = {"min_cacheable_tokens": 4_096}
    heard = Heard()
    with ScriptServer([Say("one", usage=usage(100)), Say("two", usage=cached(0, 120))]) as server:
        spec = AgentSpec({**load_specification("m", server.url), **(limit if by_spec else {})})
        options: dict[str, Any] = {} if by_spec else limit
        with create_client(spec) as client, init_session(spec, on_event=heard, durable=False, **options) as session:
            assert 4_096 == session["min_cacheable_tokens"]
            for text in "ab":
                run_turn(client, "m", session, text).raise_for_status()

    assert ["cache_below_minimum"] == heard.of_cache
    assert {"prompt_tokens": 120, "min_cacheable_tokens": 4_096} == dict(heard.one("cache_below_minimum"))


def test_e9_prompts_that_are_long_enough() -> None:
    """E9: above the minimum the first answer has to prove something; the default minimum is 0."""
    result, _, _ = asked(Say("one", usage=usage(5_000)), min_cacheable_tokens=4_096)

    assert "error" == result.status
    assert (0, 3_600.0) == (
        (session := init_session(load_specification("m", "http://127.0.0.1:1/v1")))["min_cacheable_tokens"],
        session["cache_ttl_seconds"],
    )


def test_every_miss_ends_a_turn_that_asks_for_it() -> None:
    """With "every" a second answer that was not cached is an error, and is kept."""
    result, heard, _ = asked(Say(calls=[HI], usage=cached(0)), Say("done", usage=cached(0)), strict_cache_proof="every")

    assert ("error", "done") == (result.status, result.messages[-1]["content"])
    assert ["cache_proof_missing", "error"] == heard.of_cache
    missing = heard.one("cache_proof_missing")
    assert (0, 5_000, "provider") == (missing["cached_tokens"], missing["prompt_tokens"], missing["blame"])


def test_a_pause_that_was_too_long() -> None:
    """Once the cache's time is over a miss is cold; the seconds are those of the keyword, and of the usage event."""
    result, heard, _ = asked(Say(calls=[HI], usage=cached(5_000)), Say("done", usage=cached(0)), cache_ttl_seconds=1e-6)

    assert ("completed", ["cache_cold"]) == (result.status, heard.of_cache)
    assert 1e-6 == heard.one("cache_cold")["ttl"]
    first, second = [event for event in heard.events if event.type == "usage"]
    assert (1e-6, 1e-6, 0.0) == (first["cache_ttl"], first["cache_expires_in"], second["cache_expires_in"])


def test_an_endpoint_whose_counts_mean_nothing() -> None:
    """A spec with `reports_prompt_tokens` false is given one notice, and no proof is asked for."""
    heard = Heard()
    with ScriptServer(["one", "two"], usage="plain") as server:
        spec = AgentSpec({**load_specification("m", server.url), "reports_prompt_tokens": False})
        with create_client(spec) as client, init_session(spec, on_event=heard, durable=False) as session:
            for text in "ab":
                run_turn(client, "m", session, text).raise_for_status()

            assert ("unmeasurable", ["cache_unmeasurable"]) == (session._cache_status, heard.of_cache)


def test_a_restored_session_is_not_at_its_first_answer() -> None:
    """What a dict says of earlier answers counts: the first one after it may find a cold cache."""
    heard = Heard()
    with ScriptServer([Say("one", usage=cached(0)), Say("two", usage=usage(5_000))]) as server:
        spec = load_specification("m", server.url)
        with create_client(spec) as client:
            with init_session(spec, durable=False) as session:
                run_turn(client, "m", session, "a")
                earlier = json.loads(json.dumps(session))
            with init_session(spec, session=earlier, on_event=heard, durable=False) as again:
                run_turn(client, "m", again, "b").raise_for_status()

    assert ["cache_cold"] == heard.of_cache
    assert None is heard.one("cache_cold")["age"]


def test_a_resumed_session_knows_how_old_its_cache_is() -> None:
    """The journal tells when the last answer came: a miss soon after it is missed, one after the cache's time is cold,
    and in neither case is the first answer after the resume the first of all."""
    told = []
    with ScriptServer([Say("one", usage=cached(0)), *[Say("two", usage=usage(5_000))] * 2]) as server:
        spec = load_specification("m", server.url)
        with create_client(spec) as client:
            with init_session(spec, session_id="cached") as session:
                run_turn(client, "m", session, "a")
            for ttl_s in (3_600, 1e-6):
                heard = Heard()
                with init_session(spec, session_id="cached", cache_ttl_seconds=ttl_s, on_event=heard) as session:
                    run_turn(client, "m", session, "b").raise_for_status()
                told.append(heard.of_cache)

    assert [["cache_proof_missing"], ["cache_cold"]] == told


def test_a_client_of_ones_own() -> None:
    """E5: behind a client that reports no usage at all a first answer passes; one that reports no cache does not."""

    class Client:
        def __init__(self, reported: object) -> None:
            self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))
            self.reported = reported

        def create(self, **_: Any) -> Any:
            """Answer as OpenAI's client does."""
            message = SimpleNamespace(role="assistant", content="done", tool_calls=None)
            return SimpleNamespace(choices=[SimpleNamespace(message=message)], usage=self.reported)

    spec = load_specification("m", "http://127.0.0.1:1/v1")
    counted = SimpleNamespace(prompt_tokens=10, completion_tokens=2, total_tokens=12)

    results = [run_task(spec, "x", client=Client(reported), durable=False) for reported in (None, counted)]

    assert ["completed", "error"] == [result.status for result in results]


def test_a_key_that_was_changed_counts_from_the_next_turn() -> None:
    """A host may ask for proof, or stop asking, between turns; a value that means nothing is refused by name."""
    with ScriptServer(["one", "two"], usage="plain") as server:
        spec = load_specification("m", server.url)
        with create_client(spec) as client, init_session(spec, durable=False) as session:
            first = run_turn(client, "m", session, "a")
            session["strict_cache_proof"] = "every"
            second = run_turn(client, "m", session, "b")
            session.cache_ttl_seconds = -1.0
            with pytest.raises(ConfigError, match="cache_ttl_seconds"):
                run_turn(client, "m", session, "c")

    assert ["error", "error"] == [first.status, second.status]


@pytest.mark.parametrize(
    "option",
    [
        {"min_cacheable_tokens": -1},
        {"min_cacheable_tokens": 1.5},
        {"min_cacheable_tokens": True},
        {"cache_ttl_seconds": 0},
        {"cache_ttl_seconds": float("nan")},
        {"cache_ttl_seconds": "long"},
        {"strict_cache_proof": "sometimes"},
    ],
    ids=["negative", "fraction", "truth", "nothing", "nan", "word", "mode"],
)
def test_numbers_that_mean_nothing_are_refused(option: dict[str, Any]) -> None:
    """A minimum is a whole number from 0, a time is more than nothing, a mode is one of four."""
    (name,) = option
    with pytest.raises(ConfigError, match=name):
        init_session(load_specification("m", "http://127.0.0.1:1/v1"), **option)


def test_what_a_host_edits_is_blamed_on_the_edit() -> None:
    """An edited list is sent as it is, and the request says which message changed and why."""
    heard = Heard()
    with ScriptServer(["one", "two"]) as server:
        spec = load_specification("m", server.url)
        with create_client(spec) as client, init_session(spec, on_event=heard, durable=False) as session:
            run_turn(client, "m", session, "a")
            assert isinstance(session, Session)
            session["messages"][1]["content"] = "b"
            run_turn(client, "m", session, "c").raise_for_status()

    changed = heard.one("prefix_changed")
    assert {"part": "message", "index": 0, "why": "host_edit"} == dict(changed)
