"""A whole session in one call: open, one turn, close.

Floor: 5. Owns: `run_task`, `run_agent`, `run`; never: what happens in between (`opening`, `turns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from plait.core.cancel import Cancel
from plait.engine.spec import AgentSpec, load_specification, model_of
from plait.kernel.tools import Tool
from plait.session.cancelling import CancelToken
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.options import AgentOptions, SessionOptions, with_session_options
from plait.session.pricing import check_price, has_limits
from plait.session.result import SessionResult
from plait.session.spec_terms import check_spec
from plait.session.turns import run_turn
from plait.tools.spec import build_tool_spec


@with_session_options
def run_task(
    schema: Mapping[str, Any],
    task: str | None,
    *,
    client: object | None = None,
    cancel: CancelToken | Cancel | None = None,
    timeout: float | None = None,
    sender: Mapping[str, object] | None = None,
    **options: Unpack[SessionOptions],
) -> SessionResult:
    """Run a task in a session of its own, and close it.

    Args:
        schema: an agent spec, as `load_specification` returns it.
        task: what is asked.
        client: asked in place of the one that `create_client` would make.
        cancel, timeout, sender: see `run_turn`.
        options: see `SessionOptions`.

    Raises:
        ConfigError: the spec cannot be used, or something was asked for that is not available yet.
        PricingLimitExceededError: the model is dearer than the spec allows; with a `client` of yours nobody asks.
        ValueError: the timeout is negative, or the kind of the sender unknown.
    """
    check_spec(schema)
    own = create_client(schema) if client is None else None
    try:
        if own is not None and has_limits(schema):
            check_price(schema, own)
        with init_session(schema, **options) as session:
            asked = client if own is None else own
            return run_turn(asked, model_of(schema), session, task, cancel=cancel, timeout=timeout, sender=sender)
    finally:
        if own is not None:
            own.close()


@with_session_options
def run_agent(
    *,
    task: str | None,
    model: str,
    endpoint: str,
    tools: Iterable[Tool],
    auth: str | None = None,
    client: object | None = None,
    cancel: CancelToken | Cancel | None = None,
    timeout: float | None = None,
    sender: Mapping[str, object] | None = None,
    **options: Unpack[AgentOptions],
) -> SessionResult:
    """Run a task with a model and these tools alone; see `run_task`.

    Calls at the same time, in several threads, each use the tools that they were given, whatever these are called.
    """
    chosen = list(tools)
    schemas, _ = build_tool_spec(chosen)
    schema = AgentSpec({"model": model, "endpoint": endpoint, "inferred_tool_schema": schemas})
    if auth is not None:
        schema["auth"] = auth
    return run_task(schema, task, client=client, cancel=cancel, timeout=timeout, sender=sender, tools=chosen, **options)


@with_session_options
def run(
    schema: Mapping[str, Any] | None = None,
    task: str | None = None,
    *,
    model: str | None = None,
    endpoint: str | None = None,
    client: object | None = None,
    cancel: CancelToken | Cancel | None = None,
    timeout: float | None = None,
    sender: Mapping[str, object] | None = None,
    **options: Unpack[SessionOptions],
) -> SessionResult:
    """Run a task with an agent spec, or with a model at an endpoint and the default tools; see `run_task`.

    Raises:
        TypeError: neither or both were given, or no task.
    """
    if task is None:
        raise TypeError("run() needs a task")
    if (schema is None) == (model is None or endpoint is None):
        raise TypeError("run() takes either a schema, or a model and an endpoint")
    if schema is None:
        schema = load_specification(model or "", endpoint or "")
    return run_task(schema, task, client=client, cancel=cancel, timeout=timeout, sender=sender, **options)
