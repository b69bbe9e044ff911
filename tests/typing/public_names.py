"""What a type checker sees of the public names; mypy and basedpyright read this file, nothing runs it."""

from __future__ import annotations

from typing import assert_type

import plait
from plait import PlaitError, RateLimitError


def older_name(error: plait.AgentProbeError) -> str:
    """The alias is the class itself, not an `Any` that a lazy module could hand out."""
    assert_type(error, PlaitError)
    assert_type(error.hint, str)
    return error.message


def wait_of(error: RateLimitError) -> float:
    """A lazily imported class has its own attributes."""
    assert_type(error.retry_after_s, float | None)
    return error.retry_after_s or 0.0


assert_type(plait.__version__, str)


def answer_of(spec: plait.AgentSpec, session: plait.Session) -> str | None:
    """The session face's keywords have their own types, and a session's keys are typed attributes."""
    result = plait.run_task(spec, "x", max_output_tokens=100, strict_cache_proof="auto", on_event=plait.console)
    assert_type(result, plait.SessionResult)
    assert_type(session.session_id, str)
    assert_type(plait.init_session(spec, tools=[]), plait.Session)
    return result.final_reply
