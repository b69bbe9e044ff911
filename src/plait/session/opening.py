"""Opening a session: from a spec and options to a conversation that can begin, or go on.

Floor: 5. Owns: `init_session` and what it refuses; never: a request to a model.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Unpack

from plait.core.errors import SessionBusy
from plait.core.events import Committed
from plait.core.side_calls import open_side_calls
from plait.engine.conversation import Conversation, Terms
from plait.engine.recovery import open_starts
from plait.engine.spec_entry import with_entry
from plait.engine.spec_tools import tools_of_spec
from plait.engine.structured import output_type_of
from plait.events.named import HookWarning, JournalRecovered, SessionRestored, SessionResumed
from plait.kernel.ports import AsyncChannel, Channel, Setup
from plait.kernel.tools import ToolTable
from plait.session.aside_notes import counted_in
from plait.session.background import adopt_jobs
from plait.session.cache_terms import remember_cache, warmth_of
from plait.session.chosen import chosen_in
from plait.session.confining import seat_news, seated
from plait.session.defaults import BENCH, LIBRARY
from plait.session.following import Following, follow
from plait.session.history.mirror import Mirror, read_history, system_of
from plait.session.hooks.sources import sources_of
from plait.session.hub import Hub
from plait.session.initial import settings_of, used_in, values_of
from plait.session.kept.capture import capture_in
from plait.session.kept.heads import heads, loading_told
from plait.session.kept.keeping import Kept, Target, keep, target_of
from plait.session.kept.remembering import Remembered
from plait.session.kept.snapshot import Snapshot, source_of
from plait.session.live import Live, Recovery, Standing
from plait.session.mcp import attached
from plait.session.options import DEFAULTS, SessionOptions, check_options, with_session_options
from plait.session.profiling import profiled
from plait.session.senses.sensed import sensed_by
from plait.session.session import REQUIRED, Session
from plait.session.spec_terms import check_spec, key_source_of
from plait.session.tabling import dispatch_of, table_of, toolbox_options
from plait.tools.extra_specs import ROLLBACK
from plait.tools.spec import schema_entry
from plait.tools.todo import follow_todos
from plait.tools.toolbox import Toolbox


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
    given = seated({**given, "tools": tuple(given["tools"])})
    with ExitStack() as undo:
        toolbox = Toolbox(given["workspace"] or os.getcwd(), toolbox_options(given))
        undo.callback(toolbox.close)
        target = target_of(with_entry(schema), given)
        target = replace(target, schema=with_entry(target.schema))
        kept = keep(target, given, _handed_on(session))
        undo.callback(kept.log.close)
        given["profile"], target = profiled(target, given, kept, session)
        if kept.place is not None:
            toolbox.keep_in(kept.place.spool, kept.place.spill)
            toolbox.keep_versions(kept.place.before)
            toolbox.checkpoints.follow(kept.facts)
            follow_todos(toolbox.todos, kept.facts)
            own = () if kept.state is None else open_starts(kept.state)
            toolbox.sweep([*own, *(start for _, start in open_side_calls(kept.facts))])
        adopt_jobs(toolbox.background.board, kept.facts)
        given["tool_executor"] = given["tool_executor"].of(kept.id)
        mcp = attached(target.schema, given, spill=toolbox.spill, is_kept=kept.place is not None)
        if mcp is not None:
            undo.callback(mcp.servers.close)
        opened = _open(target, kept, given, toolbox, session)
        opened._live.answers = Remembered(opened["session_id"], kept.log.append, kept.facts)
        opened.attach(mcp)
        _hook_up(opened, target, kept, given, is_new=kept.state is None and session is None)
        undo.pop_all()
        return opened


def _hook_up(opened: Session, target: Target, kept: Kept, given: Mapping[str, Any], *, is_new: bool) -> None:
    """Give a session its hooks, where there are any."""
    live = opened._live
    sources = sources_of(target.schema, given, live.standing.cwd)
    if sources.notice:
        live.hub.emit(HookWarning(sources.notice))
    if sources:
        from plait.session.hooks.registering import hook_up  # most sessions have none

        try:
            place = kept.place
            hook_up(opened, sources, is_new=is_new, transcript=None if place is None else str(place.journal))
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
    told = next((told for _, told in reversed(heads(kept.facts)) if "system" in told), None)
    given = {**given, "tool_loading": given["tool_loading"] or schema.get("tool_loading") or loading_told(told)}
    table = table_of(schema, given, toolbox, [*of_spec, *own.values()])
    if kept.place is None and table.get(ROLLBACK.name) is not None:
        toolbox.keep_checkpoints()
    values = values_of(schema, given, kept, earlier)
    values |= {"tool_dispatch": dispatch_of(dispatch, given["tools"]), **_shown(table)}
    cwd = os.fspath(given["workspace"] or os.getcwd())
    sensed = sensed_by(schema, given, values, kept, earlier)
    values.update(sensed.wording.senses.keywords)
    settings = replace(settings_of(schema, given, values), wording=sensed.wording)
    if system := sensed.wording_of(told, table.schemas):
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
    following, used_before = Following(), used_in(values) if kept.state is None else counted_in(kept.facts)
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
    snapshot = Snapshot(mirror := Mirror(), source_of(kept.facts))
    standing = Standing(
        log,
        cwd,
        key_source_of(schema),
        told,
        snapshot,
        _recovery(kept),
        open_side_calls(kept.facts),
        capture=capture,
        told=sensed.told,
    )
    live = Live(settings, conversation, mirror, hub, toolbox, used_before, standing)
    opened = Session(values, live)
    following.begin(opened)
    live.sensing = sensed.begin(conversation, values, kept, cwd)
    settings.seat.share(None if live.sensing is None else live.sensing.scratch.folder)
    _tell_what_goes_on(opened, target, kept)
    if earlier is not None:
        _restore(opened, earlier)
    hub.emit(*sensed.checklist)
    return opened


def _shown(table: ToolTable) -> dict[str, object]:
    """Return the keys that say which tools the model has."""
    return {
        "tools": [schema_entry(tool) for tool in table if tool.alias_of is None and table.permits(tool)],
        "tool_loading": "eager" if table.deferral is None else table.deferral.loading,
    }


def _recovery(kept: Kept) -> Recovery | None:
    """Return what there is to recover, None for a session that was left in order."""
    state = kept.state
    if state is None or not (state.in_turn or kept.torn_bytes):
        return None
    pending = () if state.round is None else tuple(call.id for call in state.round.lost)
    return Recovery(pending, state.in_turn, kept.torn_bytes)


def _tell_what_goes_on(session: Session, target: Target, kept: Kept) -> None:
    """Bring the keys and the tools up to what was kept, and tell of it."""
    live, count = session._live, 0
    if (chosen := chosen_in(kept.facts)) is not None:
        from plait.session.tool_choice import choose_again  # most sessions keep to their spec

        choose_again(session, chosen)
    if kept.state is not None:
        follow(session)
        live.standing.snapshot.stands()
        count = len(session["messages"])
    live.standing.seat_news, words = seat_news(live.settings.seat, kept.facts)
    if target.is_resume:
        notice = "; ".join(filter(None, (target.notice, words)))
        live.hub.emit(SessionResumed(kept.id, count, target.source_model or None, notice))
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
