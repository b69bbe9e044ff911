"""Opening a session: from a spec and options to a conversation that can begin, or go on.

Floor: 5. Owns: `init_session` and what it refuses; never: a request to a model.
"""

from __future__ import annotations

import copy
import os
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final, Unpack

from plait.core.errors import SessionBusy
from plait.core.events import Committed
from plait.core.facts import Fact, MessageAdded
from plait.core.usage import Usage
from plait.engine.base_host import rules_of
from plait.engine.conversation import Conversation, Terms
from plait.engine.limits import Limits
from plait.engine.loading import arranged
from plait.engine.recovery import open_starts
from plait.engine.spec import endpoint_of, invalid, model_of
from plait.engine.spec_entry import with_entry
from plait.engine.spec_tools import tools_of_spec
from plait.engine.structured import output_type_of
from plait.engine.validation import compile_schema
from plait.events.named import HookWarning, JournalRecovered, SessionRestored, SessionResumed
from plait.kernel.ports import AsyncChannel, Channel, Setup
from plait.kernel.rules import Retry, Rules
from plait.kernel.tools import Tool, ToolTable
from plait.models.endpoint import endpoint_of as parsed_endpoint, kept_address
from plait.models.pinning import pin_of
from plait.session import prompt
from plait.session.background import adopt_jobs
from plait.session.cache_terms import cache_keys, remember_cache, warmth_of
from plait.session.capture import capture_in
from plait.session.defaults import BENCH, LIBRARY
from plait.session.heads import heads, setup_of
from plait.session.hook_sources import sources_of
from plait.session.hub import Hub
from plait.session.keeping import Kept, Target, keep, target_of
from plait.session.mcp import attached
from plait.session.mirror import Mirror, read_history, system_of
from plait.session.options import DEFAULTS, SIDE_BY_SIDE, SessionOptions, check_options, with_session_options
from plait.session.recorded import provider_recorded
from plait.session.session import REQUIRED, Following, Live, Recovery, Session, Settings, Standing, follow
from plait.session.snapshot import Snapshot, source_of
from plait.session.spec_terms import check_spec, is_structured, key_source_of, loading_for, program_of, streams_of
from plait.tools.aliases import alias_tools
from plait.tools.asking import nobody
from plait.tools.spec import DispatchTable, build_tool_spec, schema_entry
from plait.tools.todo import follow_todos
from plait.tools.toolbox import Toolbox, ToolboxOptions

_USUAL: Final = Limits(max_steps=None, tool_concurrency=SIDE_BY_SIDE)


@with_session_options
def init_session(
    schema: Mapping[str, Any],
    *,
    session: Mapping[str, Any] | None = None,
    output_type: object = None,
    **options: Unpack[SessionOptions],
) -> Session:
    """Open a session for a spec; no request is made and nothing is printed.

    Durability: a session that is kept already is opened for writing; of a new one nothing is on disk before its first
    turn begins. From then on every fact is in its journal before anything outside can see its consequence.

    Args:
        schema: an agent spec, as `load_specification` returns it.
        session: an earlier session, or the dict that its JSON came to: its messages, usage and id are taken over.
        output_type: what the answers of all its turns have to be: text unless given; see `plait.Agent`.
        options: see `SessionOptions`.

    Raises:
        ConfigError: the spec cannot be used, the output type is none, or something was asked for that is not
            available yet.
        SessionBusy: the session is open in another process, or in this one.
        JournalError: its journal cannot be read.
        ValueError: `session` lacks keys.
    """
    check_options(options)
    check_spec(schema)
    given: dict[str, Any] = {**DEFAULTS, **options, "output": output_type_of(output_type)}
    given["tools"] = tuple(given["tools"])
    with ExitStack() as undo:
        toolbox = Toolbox(given["workspace"] or os.getcwd(), _toolbox_options(given))
        undo.callback(toolbox.close)
        target = target_of(with_entry(schema), given)
        target = replace(target, schema=with_entry(target.schema))
        kept = keep(target, given, _handed_on(session))
        undo.callback(kept.log.close)
        if kept.place is not None:
            toolbox.keep_in(kept.place.spool, kept.place.spill)
            toolbox.keep_versions(kept.place.before)
            toolbox.checkpoints.follow(kept.facts)
            follow_todos(toolbox.todos, kept.facts)
            toolbox.sweep(() if kept.state is None else open_starts(kept.state))
        adopt_jobs(toolbox.background.board, kept.facts)
        mcp = attached(target.schema, given, spill=toolbox._spill, is_kept=kept.place is not None)
        if mcp is not None:
            undo.callback(mcp.servers.close)
        opened = _open(target, kept, given, toolbox, session)
        opened.attach(mcp)
        _hook_up(opened, target, given, is_new=kept.state is None and session is None)
        undo.pop_all()
        return opened


def _hook_up(opened: Session, target: Target, given: Mapping[str, Any], *, is_new: bool) -> None:
    """Give a session its hooks, where there are any."""
    live = opened._live
    sources = sources_of(target.schema, given, live.standing.cwd)
    if sources.notice:
        live.hub.emit(HookWarning(sources.notice))
    if sources:
        from plait.session.registering import hook_up  # most sessions have none

        try:
            hook_up(opened, sources, is_new=is_new)
        except BaseException:
            opened.close()
            raise


def _handed_on(earlier: Mapping[str, Any] | None) -> str:
    """Return the id of the session that is restored; one that is open gives its journal up first."""
    if earlier is None:
        return ""
    if missing := [name for name in REQUIRED if name not in earlier]:
        raise ValueError(f"a session is restored from its dict; this one lacks {', '.join(missing)}")
    if isinstance(earlier, Session):
        if earlier.is_busy:
            raise SessionBusy(f"the session {earlier['session_id']!r} is in the middle of a turn", hint="wait for it")
        earlier._live.log.close()
    return str(earlier["session_id"])


def _open(
    target: Target, kept: Kept, given: Mapping[str, Any], toolbox: Toolbox, earlier: Mapping[str, Any] | None
) -> Session:
    schema = target.schema
    schemas, dispatch = tools_of_spec(schema, LIBRARY.functions)
    own = {tool.name: tool for tool in given["tools"]}
    of_spec = [own.pop(tool.name, tool) for tool in LIBRARY.tools_of(schemas, dispatch, toolbox)]
    table = _table(schema, given, toolbox, [*of_spec, *own.values()])
    values = _values(schema, given, kept, earlier)
    values["tools"] = [schema_entry(tool) for tool in table if tool.alias_of is None]
    values["tool_dispatch"] = _dispatch_of(dispatch, given["tools"])
    settings = _settings(schema, given, values)
    told = next((told for _, told in reversed(heads(kept.facts)) if "system" in told), None)
    system = None if told is None else setup_of(told).system
    if system is None:
        system = prompt.compose(settings.supplement, table.schemas, bare=settings.bare, structured=values["structured"])
    if system:
        values["messages"].append({"role": "system", "content": system})
    terms = Terms(table, Setup(system, table.schemas, deferral=table.deferral))
    log = kept.log
    conversation = Conversation(
        _NoModel(values["model"]),
        terms,
        BENCH,
        state=kept.state,
        log=log,
        alog=log,
        id=values["session_id"],
        is_durable=kept.place is not None,
    )
    following, used_before = Following(), Usage.ZERO if kept.state is not None else _used(values)
    conversation.observers.add(following, Committed)
    conversation.observers.add(toolbox.todos, Committed)
    conversation.observers.add(toolbox.checkpoints, Committed)
    remember_cache(conversation.cache, kept, values["llm_call_count"])
    folder = target.place.path if target.place is not None and given["session_dir"] is not None else None
    capture = capture_in(folder, given["durable_sink"])
    hub = Hub(
        conversation.observers,
        given["on_event"],
        lambda: used_before + conversation.state.usage,
        warmth_of(conversation.cache, values),
        capture=capture,
    )
    cwd = given["workspace"] or os.getcwd()
    snapshot = Snapshot(mirror := Mirror(), source_of(kept.facts))
    standing = Standing(log, cwd, key_source_of(schema), told, snapshot, _recovery(kept), capture=capture)
    live = Live(settings, conversation, following, mirror, hub, toolbox, used_before, standing)
    opened = Session(values, live)
    _tell_what_goes_on(opened, target, kept)
    if earlier is not None:
        _restore(opened, earlier)
    return opened


def _recovery(kept: Kept) -> Recovery | None:
    """Return what there is to recover, None for a session that was left in order."""
    state = kept.state
    if state is None or not (state.in_turn or kept.torn_bytes):
        return None
    pending = () if state.round is None else tuple(call.id for call in state.round.lost)
    return Recovery(pending, state.in_turn, kept.torn_bytes)


def _tell_what_goes_on(session: Session, target: Target, kept: Kept) -> None:
    """Bring the keys up to what was kept, and tell of it."""
    live, count = session._live, 0
    if kept.state is not None:
        follow(session)
        live.standing.snapshot.stands()
        count = len(session["messages"])
    if target.is_resume:
        live.hub.emit(SessionResumed(kept.id, count, target.source_model or None, target.notice))
    if kept.facts:
        found = live.standing.recovery or Recovery((), False, 0)
        live.hub.emit(JournalRecovered(len(kept.facts), count, len(found.pending), found.is_mid_turn, found.torn_bytes))


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
    if live.conversation.state.history:
        # It is kept: where the dict says something else, that is an edit, which the next turn records.
        session["messages"][:] = copy.deepcopy(earlier["messages"])
        live.hub.emit(SessionRestored(session["session_id"], len(session["messages"])))
        return
    if system_of(earlier["messages"]):
        session["messages"][:1] = [dict(earlier["messages"][0])]
    if history:
        live.conversation.rewrite(0, 0, history, "restored")
        live.conversation.commit()
    follow(session)
    live.hub.emit(SessionRestored(session["session_id"], len(session["messages"])))


def _values(
    schema: Mapping[str, Any], given: Mapping[str, Any], kept: Kept, earlier: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the public keys of a session; id, usage and counts of an earlier one are its own."""
    before: Mapping[str, Any] = {} if earlier is None or kept.state is not None else earlier
    began_s = kept.began_ms / 1_000 if kept.began_ms else time.time()
    return {
        "session_id": kept.id,
        "model": model_of(schema),
        "endpoint": kept_address(endpoint_of(schema)),
        "messages": [],
        "tools": [],
        "tool_dispatch": {},
        "structured": is_structured(schema),
        "streaming": streams_of(schema) is not False,
        "non_interactive": given["non_interactive"],
        "cache_key": given["cache_key"] or before.get("cache_key") or kept.id,
        "max_output_tokens": given["max_output_tokens"] or schema.get("max_output_tokens"),
        "provider": schema.get("provider") or _pinned(kept) or before.get("provider"),
        "auth": key_source_of(schema),
        "reports_prompt_tokens": schema.get("reports_prompt_tokens") is not False,
        "options": list(schema.get("options") or ()),
        "strict_cache_proof": given["strict_cache_proof"],
        **cache_keys(schema, given),
        "parallel_tool_dispatch": schema.get("parallel_tool_dispatch") is True,
        "usage_totals": dict.fromkeys(("prompt", "completion", "total", "cached", "cache_write"), 0)
        | dict(before.get("usage_totals", {})),
        "llm_call_count": before.get("llm_call_count", sum(map(_is_answer, kept.facts))),
        "session_start_ts": before.get("session_start_ts", began_s),
    }


def _pinned(kept: Kept) -> dict[str, object] | None:
    provider = provider_recorded(kept.facts)
    return None if provider is None else pin_of(provider)


def _is_answer(fact: Fact) -> bool:
    return isinstance(fact, MessageAdded) and fact.message.role == "assistant"


def _settings(schema: Mapping[str, Any], given: Mapping[str, Any], values: Mapping[str, Any]) -> Settings:
    limits: Limits = given["limits"] or _USUAL
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
        output=given["output"],
        step_reducer=given["step_reducer"],
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
    found = arranged([*tools, *alias_tools(toolbox, tools)], loading_for(schema, given), given["tool_search"])
    try:
        return ToolTable(found.tools, compile=compile_schema, deferral=found.deferral)
    except ValueError as error:
        raise invalid(schema, f"has tools that cannot be used: {error}", hint="mend the tool") from error


def _asks(tool: Tool) -> bool:
    return tool.python_function_name in ("t_ask_user", "t_ask_user_question")


def _toolbox_options(given: Mapping[str, Any]) -> ToolboxOptions:
    limits: Limits = given["limits"] or _USUAL
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
