"""A session with one tool, which says what it is given again."""

from __future__ import annotations

from typing import Any

from plait.engine.spec import default_specification
from plait.kernel.tools import Tool
from plait.session.opening import init_session
from plait.session.session import Session
from plait.testing import Call

SPEC = default_specification("m", "http://127.0.0.1:1/v1")


def echo(text: str) -> str:
    """Say it again."""
    return f"echo:{text}"


ECHO = Tool("echo", "Say it again.", echo)
HI = Call("echo", {"text": "hi"})


def opened(**options: Any) -> Session:
    """Return a session with the tool `echo`."""
    return init_session(SPEC, **{"tools": [ECHO], **options})


def roles(session: Session) -> list[str]:
    """Return the roles of a session's messages."""
    return [message["role"] for message in session["messages"]]
