"""Events reach those who asked, and cost nothing where nobody did."""

from __future__ import annotations

import pytest

from plait.core.errors import ConfigError
from plait.core.events import Delta
from plait.engine.observers import Observers
from plait.engine.spec import default_specification
from plait.events.named import NOT_YET
from plait.session.hub import Hub
from plait.session.opening import init_session
from plait.session.subscribing import on, subscribe, unsubscribe


def test_a_misspelt_event_is_named() -> None:
    """Subscribing to an event that does not exist is an error with the name that was meant."""
    session = init_session(default_specification("m", "http://127.0.0.1:1/v1"))

    with pytest.raises(ConfigError, match="no event is called 'tool_cal'") as caught:
        subscribe(session, "tool_cal", lambda *_: None)

    assert "'tool_call'" in caught.value.hint


@pytest.mark.parametrize("name", sorted(NOT_YET))
def test_an_event_that_does_not_happen_yet_can_be_asked_for(name: str) -> None:
    """A program may subscribe to every documented event, whether it can happen already or not."""
    hub = Hub(Observers())
    hub.subscribe(name, lambda *_: None)


def test_fragments_are_made_only_while_somebody_hears_them() -> None:
    """Without a handler for them no fragment is asked for; the first one asks, the last one takes it back."""
    observers = Observers()
    hub = Hub(observers)
    heard: list[str] = []

    def hear(name: str, _: object) -> None:
        heard.append(name)

    assert not observers.wants_deltas
    hub.subscribe("content_delta", hear)
    hub.subscribe("reasoning_delta", hear)
    assert observers.wants_deltas
    observers.publish(Delta("content", "x", 1))
    hub.unsubscribe("content_delta", hear)
    assert observers.wants_deltas
    hub.unsubscribe("reasoning_delta", hear)
    assert not observers.wants_deltas
    assert ["content_delta"] == heard


def test_a_handler_for_everything_hears_fragments() -> None:
    """The generic handler gets fragments too."""
    observers = Observers()
    Hub(observers, lambda *_: None)

    assert observers.wants_deltas


def test_on_is_another_name() -> None:
    """`on` subscribes, and a handler that was given twice is called twice until both are taken back."""
    session = init_session(default_specification("m", "http://127.0.0.1:1/v1"))
    heard: list[str] = []

    def hear(name: str, _: object) -> None:
        heard.append(name)

    on(session, "loop_guard", hear)
    subscribe(session, "loop_guard", hear)
    hub = session._live.hub
    from plait.events.named import LoopGuard

    hub.emit(LoopGuard("x"))
    unsubscribe(session, "loop_guard", hear)
    hub.emit(LoopGuard("x"))
    unsubscribe(session, "loop_guard", hear)
    hub.emit(LoopGuard("x"))

    assert 3 == len(heard)
