"""Opening a session: from a spec and options to a conversation that can begin, or go on.

Floor: 5. Owns: `init_session` and what it refuses; never: a request to a model.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Unpack

from plait.core.events import Committed
from plait.core.ids import new_id
from plait.core.usage import Usage
from plait.engine.base_host import rules_of
from plait.engine.conversation import Conversation, Terms
from plait.engine.limits import Limits
from plait.engine.spec import endpoint_of, invalid, model_of
from plait.engine.spec_entry import with_entry
from plait.engine.spec_tools import tools_of_spec
from plait.engine.validation import compile_schema
from plait.events.named import SessionRestored
from plait.kernel.ports import AsyncChannel, Channel, Setup
from plait.kernel.rules import Retry, Rules
from plait.kernel.tools import Tool, ToolTable
from plait.models.endpoint import endpoint_of as parsed_endpoint
from plait.session import prompt
from plait.session.defaults import BENCH, LIBRARY
from plait.session.hub import Hub
from plait.session.mirror import Mirror, read_history, system_of
from plait.session.options import DEFAULTS, SessionOptions, check_options, with_session_options
from plait.session.session import REQUIRED, Following, Live, Session, Settings, follow
from plait.session.spec_terms import check_spec, is_structured, key_source_of, program_of, streams_of
from plait.tools.aliases import alias_tools
from plait.tools.asking import nobody
from plait.tools.spec import DispatchTable, build_tool_spec, schema_entry
from plait.tools.toolbox import Toolbox, ToolboxOptions

_NO_STEPS: Final = Limits(max_steps=None)


@with_session_options
def init_session(
    schema: Mapping[str, Any], *, session: Mapping[str, Any] | None = None, **options: Unpack[SessionOptions]
) -> Session:
    """Open a session for a spec; no request is made, and nothing is printed or written.

    Args:
        schema: an agent spec, as `load_specification` returns it.
        session: an earlier session, or the dict that its JSON came to: its messages, usage and id are taken over.
        options: see `SessionOptions`.

    Raises:
        ConfigError: the spec cannot be used, or something was asked for that is not available yet.
        ValueError: `session` lacks keys.
    """
    check_options(options)
    check_spec(schema)
    schema = with_entry(schema)
    given: dict[str, Any] = {**DEFAULTS, **options}
    given["tools"] = tuple(given["tools"])
    toolbox = Toolbox(given["workspace"] or os.getcwd(), _toolbox_options(given))
    try:
        return _open(schema, given, toolbox, session)
    except BaseException:
        toolbox.close()
        raise


def _open(
    schema: Mapping[str, Any], given: Mapping[str, Any], toolbox: Toolbox, earlier: Mapping[str, Any] | None
) -> Session:
    schemas, dispatch = tools_of_spec(schema, LIBRARY.functions)
    own = {tool.name: tool for tool in given["tools"]}
    of_spec = [own.pop(tool.name, tool) for tool in LIBRARY.tools_of(schemas, dispatch, toolbox)]
    table = _table(schema, given, toolbox, [*of_spec, *own.values()])
    values = _values(schema, given, earlier)
    values["tools"] = [schema_entry(tool) for tool in table if tool.alias_of is None]
    values["tool_dispatch"] = _dispatch_of(dispatch, given["tools"])
    settings = _settings(schema, given, values)
    system = prompt.compose(settings.supplement, table.schemas, bare=settings.bare, structured=values["structured"])
    if system:
        values["messages"].append({"role": "system", "content": system})
    terms = Terms(table, Setup(system, table.schemas))
    conversation = Conversation(_NoModel(values["model"]), terms, BENCH, id=values["session_id"])
    following, used_before = Following(), _used(values)
    conversation.observers.add(following, Committed)
    hub = Hub(conversation.observers, given["on_event"], lambda: used_before + conversation.state.usage)
    live = Live(settings, conversation, following, Mirror(), hub, toolbox, used_before)
    opened = Session(values, live)
    if earlier is not None:
        _restore(opened, earlier)
    return opened


class _NoModel:
    """Stands where a conversation's model will be, until the first turn brings a client."""

    context_window = None
    supports_images = False

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, setup: Setup) -> Channel:
        """Refuse: a turn names its model first."""
        raise AssertionError(f"no client was given for the model {self.name!r}")

    def aopen(self, setup: Setup) -> AsyncChannel:
        """Refuse: a turn names its model first."""
        raise AssertionError(f"no client was given for the model {self.name!r}")


def _restore(session: Session, earlier: Mapping[str, Any]) -> None:
    """Take the messages of an earlier session over, and tell of it."""
    live = session._live
    history = tuple(read_history(earlier["messages"]))
    if system_of(earlier["messages"]):
        session["messages"][:1] = [dict(earlier["messages"][0])]
    if history:
        live.conversation.rewrite(0, 0, history, "restored")
        live.conversation.commit()
    follow(session)
    live.hub.emit(SessionRestored(session["session_id"], len(session["messages"])))


def _values(schema: Mapping[str, Any], given: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the public keys of a new session; id, usage and counts of an earlier one are its own."""
    if earlier is not None and (missing := [name for name in REQUIRED if name not in earlier]):
        raise ValueError(f"a session is restored from its dict; this one lacks {', '.join(missing)}")
    before = earlier or {}
    session_id = before.get("session_id") or new_id("s")
    return {
        "session_id": session_id,
        "model": model_of(schema),
        "endpoint": endpoint_of(schema),
        "messages": [],
        "tools": [],
        "tool_dispatch": {},
        "structured": is_structured(schema),
        "streaming": streams_of(schema) is not False,
        "non_interactive": given["non_interactive"],
        "cache_key": given["cache_key"] or before.get("cache_key") or session_id,
        "max_output_tokens": given["max_output_tokens"] or schema.get("max_output_tokens"),
        "provider": schema.get("provider") or before.get("provider"),
        "auth": key_source_of(schema),
        "reports_prompt_tokens": schema.get("reports_prompt_tokens") is not False,
        "options": list(schema.get("options") or ()),
        "strict_cache_proof": given["strict_cache_proof"],
        "parallel_tool_dispatch": schema.get("parallel_tool_dispatch") is True,
        "usage_totals": dict.fromkeys(("prompt", "completion", "total", "cached", "cache_write"), 0)
        | dict(before.get("usage_totals", {})),
        "llm_call_count": before.get("llm_call_count", 0),
        "session_start_ts": before.get("session_start_ts", time.time()),
    }


def _settings(schema: Mapping[str, Any], given: Mapping[str, Any], values: Mapping[str, Any]) -> Settings:
    limits: Limits = given["limits"] or _NO_STEPS
    if schema.get("parallel_tool_dispatch") is True:
        limits = replace(limits, tool_concurrency=int(schema.get("parallel_tool_dispatch_max_workers") or 8))
    return Settings(
        supplement=given["system_prompt_supplement"],
        bare=bool(given["bare"]),
        approver=given["approver"],
        limits=limits,
        max_turn_tokens=given["max_turn_tokens"],
        request_params=_request_params(schema, values["provider"]),
        context_window=schema.get("context_window"),
        streams=streams_of(schema) is True,
        rules=rules_of(limits, Rules(retry=given["retry"] or Retry()), zlib.crc32(values["session_id"].encode())),
    )


def _request_params(schema: Mapping[str, Any], provider: object) -> dict[str, object]:
    """Return the forced members of every request; with the provider that an earlier session stayed with."""
    kept = {"provider": provider} if provider and "provider" not in schema and _pins(schema) else {}
    return {**kept, **(schema.get("request_params") or {})}


def _pins(schema: Mapping[str, Any]) -> bool:
    return program_of(schema) is None and parsed_endpoint(endpoint_of(schema) or None).profile.pins_provider


def _table(schema: Mapping[str, Any], given: Mapping[str, Any], toolbox: Toolbox, tools: list[Tool]) -> ToolTable:
    """Return every tool that can be called: those of the spec, the caller's own, and the built-in ones' other names."""
    if given["non_interactive"]:
        # Callable, so that the model is told why nobody answers, and not shown.
        tools = [replace(tool, alias_of=tool.name) if _asks(tool) else tool for tool in tools]
    if schema.get("parallel_tool_dispatch") is True:
        tools = [replace(tool, parallel_safe=True) for tool in tools]
    try:
        return ToolTable([*tools, *alias_tools(toolbox, tools)], compile=compile_schema)
    except ValueError as error:
        raise invalid(schema, f"has tools that cannot be used: {error}", hint="mend the tool") from error


def _asks(tool: Tool) -> bool:
    return tool.python_function_name in ("t_ask_user", "t_ask_user_question")


def _toolbox_options(given: Mapping[str, Any]) -> ToolboxOptions:
    limits: Limits = given["limits"] or _NO_STEPS
    options = replace(LIBRARY.options(), policy=given["outside"], result_tokens_max=limits.max_tool_result_tokens)
    return replace(options, ask_user=nobody) if given["non_interactive"] else options


def _dispatch_of(table: DispatchTable, own: Iterable[Tool]) -> dict[str, dict[str, object]]:
    """Return what each tool is done by as JSON: a function goes by its name."""
    named: dict[str, dict[str, object]] = {}
    for name, entry in {**table, **build_tool_spec(own)[1]}.items():
        target = entry["python_function"]
        function = target if isinstance(target, str) else getattr(target, "__name__", repr(target))
        named[name] = {"python_function": function, "param_map": dict(entry["param_map"])}
    return named


def _used(values: Mapping[str, Any]) -> Usage:
    totals = values["usage_totals"]
    return Usage(totals["prompt"], totals["completion"], totals["cached"], totals["cache_write"], computed=True)
