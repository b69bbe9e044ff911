"""A whole session in one call: open, one turn, close.

Floor: 5. Owns: `run_task`, `run_agent`, `run`; never: what happens in between (`opening`, `turns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, Unpack, overload

from plait.core.cancel import Cancel
from plait.core.images import ImageSource
from plait.engine.agent_spec import AgentSpec, model_of
from plait.engine.spec import load_specification
from plait.engine.spec_entry import with_entry
from plait.kernel.tools import Tool
from plait.session.cancelling import CancelToken
from plait.session.clients import create_client
from plait.session.kept.keeping import target_of
from plait.session.opening import init_session
from plait.session.options import AgentOptions, SessionOptions, check_options, with_session_options
from plait.session.result import SessionResult
from plait.session.spec_terms import check_spec, has_limits
from plait.session.turns import TurnOptions, run_turn
from plait.tools.spec import build_tool_spec

U = TypeVar("U")


class TaskOptions(SessionOptions, TurnOptions, total=False):
    """Keywords of `run_task`."""

    client: object | None


class AgentTaskOptions(AgentOptions, TurnOptions, total=False):
    """Keywords of `run_agent`."""

    client: object | None
    auth: str | None


@overload
def run_task(
    schema: Mapping[str, Any],
    task: str | None,
    *,
    output_type: type[U],
    **options: Unpack[TaskOptions],
) -> SessionResult[U]: ...


@overload
def run_task(
    schema: Mapping[str, Any],
    task: str | None,
    *,
    output_type: None = None,
    **options: Unpack[TaskOptions],
) -> SessionResult: ...


@overload
def run_task(
    schema: Mapping[str, Any],
    task: str | None,
    *,
    output_type: object,
    **options: Unpack[TaskOptions],
) -> SessionResult[Any]: ...


@with_session_options
def run_task(
    schema: Mapping[str, Any],
    task: str | None,
    *,
    output_type: object = None,
    client: object | None = None,
    cancel: CancelToken | Cancel | None = None,
    timeout: float | None = None,
    sender: Mapping[str, object] | None = None,
    images: Iterable[ImageSource] = (),
    **options: Unpack[SessionOptions],
) -> SessionResult[Any]:
    """Run a task in a session of its own, and close it.

    Args:
        schema: an agent spec, as `load_specification` returns it.
        task: what is asked.
        client: asked in place of the one that `create_client` would make.
        output_type: what the answer has to be; see `plait.Agent`.
        cancel, timeout, sender, images: see `run_turn`.
        options: see `SessionOptions`.

    Raises:
        ConfigError: the spec cannot be used, or something was asked for that is not available yet.
        PricingLimitExceededError: the model is dearer than the spec allows; with a `client` of yours nobody asks.
        ValueError: the timeout is negative, or the kind of the sender unknown.
    """
    check_spec(schema)
    check_options(options)
    own = create_client(target_of(with_entry(schema), options).schema) if client is None else None
    try:
        if own is not None and has_limits(schema):
            from plait.session.pricing import check_price  # most specs set no limit

            check_price(schema, own)
        turn: TurnOptions = {"cancel": cancel, "timeout": timeout, "sender": sender, "images": images}
        options.setdefault("opening_cancel", cancel)
        with init_session(schema, output_type=output_type, **options) as session:
            return run_turn(client if own is None else own, model_of(schema), session, task, **turn)
    finally:
        if own is not None:
            own.close()


@overload
def run_agent(
    *,
    task: str | None,
    model: str,
    endpoint: str,
    tools: Iterable[Tool],
    output_type: type[U],
    **options: Unpack[AgentTaskOptions],
) -> SessionResult[U]: ...


@overload
def run_agent(
    *,
    task: str | None,
    model: str,
    endpoint: str,
    tools: Iterable[Tool],
    output_type: None = None,
    **options: Unpack[AgentTaskOptions],
) -> SessionResult: ...


@overload
def run_agent(
    *,
    task: str | None,
    model: str,
    endpoint: str,
    tools: Iterable[Tool],
    output_type: object,
    **options: Unpack[AgentTaskOptions],
) -> SessionResult[Any]: ...


@with_session_options
def run_agent(
    *,
    task: str | None,
    model: str,
    endpoint: str,
    tools: Iterable[Tool],
    auth: str | None = None,
    output_type: object = None,
    client: object | None = None,
    cancel: CancelToken | Cancel | None = None,
    timeout: float | None = None,
    sender: Mapping[str, object] | None = None,
    images: Iterable[ImageSource] = (),
    **options: Unpack[AgentOptions],
) -> SessionResult[Any]:
    """Run a task with a model and these tools alone; see `run_task`.

    Calls at the same time, in several threads, each use the tools that they were given, whatever these are called.
    """
    chosen = list(tools)
    schemas, _ = build_tool_spec(chosen)
    schema = AgentSpec({"model": model, "endpoint": endpoint, "inferred_tool_schema": schemas})
    if auth is not None:
        schema["auth"] = auth
    turn: TurnOptions = {"cancel": cancel, "timeout": timeout, "sender": sender, "images": images}
    return run_task(schema, task, output_type=output_type, client=client, tools=chosen, **turn, **options)


@overload
def run(
    schema: Mapping[str, Any] | None = None,
    task: str | None = None,
    *,
    model: str | None = None,
    endpoint: str | None = None,
    output_type: type[U],
    **options: Unpack[TaskOptions],
) -> SessionResult[U]: ...


@overload
def run(
    schema: Mapping[str, Any] | None = None,
    task: str | None = None,
    *,
    model: str | None = None,
    endpoint: str | None = None,
    output_type: None = None,
    **options: Unpack[TaskOptions],
) -> SessionResult: ...


@overload
def run(
    schema: Mapping[str, Any] | None = None,
    task: str | None = None,
    *,
    model: str | None = None,
    endpoint: str | None = None,
    output_type: object,
    **options: Unpack[TaskOptions],
) -> SessionResult[Any]: ...


@with_session_options
def run(
    schema: Mapping[str, Any] | None = None,
    task: str | None = None,
    *,
    model: str | None = None,
    endpoint: str | None = None,
    output_type: object = None,
    client: object | None = None,
    cancel: CancelToken | Cancel | None = None,
    timeout: float | None = None,
    sender: Mapping[str, object] | None = None,
    images: Iterable[ImageSource] = (),
    **options: Unpack[SessionOptions],
) -> SessionResult[Any]:
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
    turn: TurnOptions = {"cancel": cancel, "timeout": timeout, "sender": sender, "images": images}
    return run_task(schema, task, output_type=output_type, client=client, **turn, **options)
