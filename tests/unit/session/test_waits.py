"""What a session tells of waits: the endpoint's, our own, and those that are too long."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from plait.core.errors import QuotaExceeded, RateLimitError
from plait.engine.spec import default_specification
from plait.events.named import EventCallback, NamedEvent
from plait.kernel.rules import Retry
from plait.models.chat_model import chat_model
from plait.session.cancelling import CancelToken
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.result import SessionResult
from plait.session.turns import run_turn
from plait.testing import Fail, ScriptedModel, ScriptServer, faults
from plait.testing.faults import Step

Heard = list[tuple[str, NamedEvent]]


def ask(script: list[Step], heard: Heard, spec: Mapping[str, Any] | None = None, **options: Any) -> SessionResult:
    """Run one turn against a server, and note every event."""
    with ScriptServer(script) as server:
        schema = {**default_specification("m", server.url), **(spec or {})}
        with create_client(schema) as client, init_session(schema, on_event=to(heard), **options) as session:
            return run_turn(client, "m", session, "x")


def to(heard: Heard) -> EventCallback:
    """Return a handler that notes every event."""
    return lambda name, event: heard.append((name, event))


def of(heard: Heard, name: str) -> list[NamedEvent]:
    """Return the events of one name."""
    return [event for kind, event in heard if kind == name]


def test_e48_a_stated_wait_is_told_before_it_is_waited() -> None:
    """A 429 with `Retry-After: 1` is an event with its seconds and the time it ends, then the answer."""
    heard: Heard = []
    began = datetime.now(UTC)
    result = ask([faults.Status(429, headers={"Retry-After": "1"}), "fine"], heard)

    (wait,) = of(heard, "rate_limit_wait")
    assert ("fine", 1.0, "endpoint") == (result.final_reply, wait["delay"], wait["source"])
    ends = datetime.fromisoformat(str(wait["resume_at"]))
    assert timedelta(seconds=0.9) < ends - began < timedelta(seconds=30)
    assert ends.tzinfo is not None
    assert datetime.now(UTC) >= ends - timedelta(milliseconds=10)
    names = [name for name, _ in heard]
    assert names.index("retry_scheduled") < names.index("rate_limit_wait") < names.index("final_answer")


def test_e48_a_limit_without_a_time_is_tried_again_and_then_told() -> None:
    """A 429 that states nothing is retried with the backoff; when no attempt is left it is an error event."""
    heard: Heard = []
    result = ask([faults.Status(429), faults.Status(429)], heard, retry=Retry(2, base_s=0.01))

    assert isinstance(result.error, RateLimitError)
    (error,) = of(heard, "error")
    assert ("RateLimitError", 429) == (error["error_class"], error["http_status"])
    assert "gave up after 2 requests" in str(error["text"])
    assert ["gave up after 2 requests" in str(end["detail"]) for end in of(heard, "turn_end")] == [True]


def test_e48_a_time_in_words_is_a_time() -> None:
    """A reset that the body names in China's time is waited for; one that has passed is no wait."""
    passed = datetime.now(timezone(timedelta(hours=8))) - timedelta(minutes=5)
    body = {"error": {"code": "1302", "message": f"Limit reached, it will reset at {passed:%Y-%m-%d %H:%M:%S}"}}
    heard: Heard = []

    assert "fine" == ask([faults.Status(429, body), "fine"], heard).final_reply
    assert [0.0] == [wait["delay"] for wait in of(heard, "rate_limit_wait")]


def test_e48_an_allowance_that_comes_back_is_waited_for() -> None:
    """A 403 about a spent allowance is waited for where it says for how long, and an error where it does not."""
    body = {"error": {"message": "You have reached your usage limit"}}
    heard: Heard = []

    assert "fine" == ask([faults.Status(403, body, {"Retry-After": "0"}), "fine"], heard).final_reply
    assert [(0.0, "quota")] == [(event["delay_s"], event["kind"]) for event in of(heard, "retry_scheduled")]
    assert isinstance(ask([faults.Status(403, body)], heard).error, QuotaExceeded)


def test_a_wait_that_is_too_long_is_an_error_with_its_time() -> None:
    """More than ten minutes are not waited: the turn ends at once, and error and event say how long it would be."""
    heard: Heard = []
    began_s = time.monotonic()
    result = ask([faults.Status(429, headers={"Retry-After": "5400"})], heard)

    assert time.monotonic() - began_s < 30
    assert isinstance(result.error, RateLimitError)
    assert (5400.0, []) == (result.error.retry_after_s, of(heard, "retry_scheduled"))
    assert "90 min" in result.error.message
    assert "90 min" in str(of(heard, "turn_end")[0]["detail"])


def stopping(token: CancelToken, name: str, heard: Heard) -> EventCallback:
    """Return a handler that notes every event, and stops the turn at the first one of a name."""

    def handle(kind: str, event: NamedEvent) -> None:
        heard.append((kind, event))
        if kind == name:
            token.cancel()

    return handle


def test_a_turn_that_waits_can_be_stopped() -> None:
    """Whoever hears that an hour will be waited can end the turn there and then."""
    heard: Heard = []
    token = CancelToken()
    schema = default_specification("m", "http://127.0.0.1:1/v1")
    retry = Retry(base_s=3_600, cap_s=3_600)
    with init_session(schema, on_event=stopping(token, "retry_scheduled", heard), retry=retry) as session:
        result = run_turn(ScriptedModel([Fail("overloaded")]), "m", session, "x", cancel=token)

    assert ("interrupted", 1) == (result.status, len(of(heard, "retry_scheduled")))


@pytest.mark.parametrize("keys", ["one-secret,two-secret"])
def test_a_change_of_keys_is_an_event(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session hears which key rests, by its place, and no event holds a key."""
    monkeypatch.setenv("SOME_KEYS", keys)
    heard: Heard = []
    result = ask([faults.Status(401), "fine"], heard, {"key_env": "SOME_KEYS"})

    assert "fine" == result.final_reply
    (rested,) = of(heard, "key_rested")
    assert {"key": "key 1 of 2 in SOME_KEYS", "kind": "auth", "rests_s": None, "next": "key 2 of 2 in SOME_KEYS"} == {
        **rested
    }
    assert "secret" not in repr(heard)


def test_our_own_limit_is_an_event() -> None:
    """Whoever waits for `max_rpm` is told first, and can end the turn there and then."""
    heard: Heard = []
    token = CancelToken()
    with ScriptServer(["one"]) as server:
        model = chat_model("m", server.url, max_rpm=1)
        on_event = stopping(token, "rate_limit_wait", heard)
        with init_session(default_specification("m", server.url), on_event=on_event) as session:
            assert "one" == run_turn(model, "m", session, "x").final_reply
            assert "interrupted" == run_turn(model, "m", session, "y", cancel=token).status
        model.close()

    (wait,) = of(heard, "rate_limit_wait")
    assert "max_rpm" == wait["source"]
    assert 0 < float(str(wait["delay"])) <= 60
