"""Sessions with hooks that write down what they hear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plait.engine.spec import default_specification
from plait.hooks.events import EVENTS
from plait.session.result import SessionResult
from plait.session.session import Session
from plait.session.turns import run_turn
from plait.testing import Call, ScriptedModel

SPEC = default_specification("m", "http://127.0.0.1:1/v1")
Payload = dict[str, Any]


class Heard:
    """Hooks that write down what they are told, and events that are told."""

    def __init__(self) -> None:
        self.told: list[Payload] = []
        self.events: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, payload: Payload) -> None:
        """Be a hook that says nothing."""
        self.told.append(payload)

    def on_event(self, name: str, event: Any) -> None:
        """Be the handler of a session."""
        self.events.append((name, dict(event)))

    def names(self) -> list[str]:
        """Return which events hooks were asked at."""
        return [payload["hook_event_name"] for payload in self.told]

    def texts(self, name: str = "hook_warning") -> list[str]:
        """Return what events of a name say."""
        return [str(data["text"]) for kind, data in self.events if kind == name]


def at(event: str, *hooks: Any, matcher: str = "") -> dict[str, Any]:
    """Return hooks for one event as a source."""
    made = [hook if callable(hook) or isinstance(hook, dict) else {"command": hook} for hook in hooks]
    return {event: [{"matcher": matcher, "hooks": made}]}


def everywhere(hook: Callable[[Payload], object]) -> dict[str, Any]:
    """Return one hook for every event."""
    return {event: [{"hooks": [hook]}] for event in EVENTS}


def ask(session: Session, *script: Any, task: str = "go", **options: Any) -> SessionResult[Any]:
    """Run a turn against a script."""
    with ScriptedModel(list(script)) as model:
        return run_turn(model, "m", session, task, **options)


def contents(session: Session, role: str = "tool") -> list[str]:
    """Return what messages of a role say."""
    return [str(message["content"]) for message in session["messages"] if message["role"] == role]


SHELL = Call("exec_shell", {"command": "echo hi"})
