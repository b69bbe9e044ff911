"""What comes before a turn: nobody else has the session, its terms are those of today, its edits are recorded.

Floor: 5. Owns: these steps, for whoever is about to ask the model; never: a turn (`turns`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from plait.context.sections import Section, with_rest
from plait.core.errors import ConfigError, SessionBusy
from plait.core.facts import Observation
from plait.engine.conversation import Terms
from plait.engine.hosts.stage import Policy
from plait.engine.masking import finishing_of
from plait.kernel.ports import Model, Options, Setup
from plait.kernel.rules import Rules
from plait.session.asked import model_asked
from plait.session.between import Between
from plait.session.cache_terms import cache_terms
from plait.session.confining import fence_told, note_seat
from plait.session.following import follow
from plait.session.history.mirror import system_of
from plait.session.kept.heads import PROMPT, changed, habits_of, told_of
from plait.session.kept.recorded import start_of
from plait.session.live import Live, live_of
from plait.session.mcp import watched
from plait.session.outputs import with_output
from plait.session.permitting import gated
from plait.session.prompt import sections_of
from plait.session.session import Session
from plait.session.summaries.terms import shrinking_of


@contextmanager
def held(session: Session) -> Iterator[Live]:
    """Keep every other turn of a session away.

    Raises:
        SessionBusy: one is running. ConfigError: it is no open session.
    """
    live = live_of(session)
    if not live.running.acquire(blocking=False):
        raise SessionBusy(
            f"the session {session['session_id']!r} is in the middle of a turn",
            hint="wait for it, or use another session",
        )
    try:
        yield live
    finally:
        live.mirror.note = {}
        live.running.release()


def ready(session: Session, live: Live, client: object, model: str) -> None:
    """Bring a session to where its model can be asked something: its journal begun, its edits recorded."""
    prepare(session, live, model_asked(live, client, model, session), None)
    begin(session, live)
    take_edits(session, live)


def prepare(session: Session, live: Live, model: Model, output_type: object) -> None:
    """Bring the conversation's terms up to the keys that a host may have changed."""
    settings, terms = live.settings, live.conversation.terms
    excluded = "exclude-prompt_cache_key" in session["options"]
    options = Options(
        max_output_tokens=session["max_output_tokens"],
        cache_key=None if excluded else session["cache_key"],
        reasoning=None if settings.profile is None else settings.profile.reasoning,
        extra=settings.request_params,
    )
    setup = Setup(system_of(session["messages"]), terms.tools.schemas, options, terms.tools.deferral)
    terms = Terms(terms.tools, setup, policy_of(session, live), ruled(session, live), cache=cache_terms(session))
    live.conversation.change(model, with_output(session, model, terms, output_type))


def ruled(session: Session, live: Live) -> Rules:
    """Return what the loop goes by, with what the session's keys say of making history shorter."""
    shrinking = shrinking_of(session)
    # The same object where nothing changed: whoever compares terms sees at once that they are the same.
    rules = live.conversation.terms.rules
    return rules if rules.shrinking == shrinking else replace(live.settings.rules, shrinking=shrinking)


def policy_of(session: Session, live: Live) -> Policy:
    """Return how the calls and turns of a session are run; the same one as long as nothing is registered anew."""
    settings = live.settings
    if live.policy is None:
        redaction, conversation = live.toolbox.options.redaction, live.conversation
        finishing = replace(
            finishing_of(settings.limits.max_tool_result_tokens, lambda: conversation.model, redaction or False),
            session_id=session["session_id"],
            fit=live.toolbox.spill.fit if conversation.terms.tools.get("read_file") is not None else None,
        )
        between = Between(weakref.ref(session), live)
        is_watched = live.standing.capture is not None
        live.policy = Policy(
            settings.approver,
            settings.limits,
            finishing,
            on_boundary=between,
            is_watched=is_watched,
            on_results=None if live.sensing is None else live.sensing.note_results,
            gates=watched(live, gated(settings.permissions, live.hooks, settings.approver, live.toolbox)),
        )
    return live.policy


def begin(session: Session, live: Live) -> None:
    """Make the journal when this is the first turn; record what a resume needs to know and is not recorded yet."""
    standing = live.standing
    standing.log.begin()
    standing.is_begun = True
    if standing.setup is None:
        standing.setup = told_of(live.conversation.terms.setup)
        settings = live.settings
        words = (
            {"supplement": settings.supplement, "bare": settings.bare} if settings.supplement or settings.bare else {}
        )
        words = words if settings.profile is None else {**words, "profile": settings.profile.to_dict()}
        words = words if live.hooks is None else {**words, **live.hooks.recorded}
        words = {**words, **standing.told, "sections": [section.to_dict() for section in sections_now(live)]}
        own = {**words, **habits_of(live.conversation.terms.tools), **fence_told(settings.seat)}
        live.conversation.note(start_of(session, standing.key, standing.cwd, {**standing.setup, **own}))
    note_setup(live)
    note_seat(live)
    if (found := standing.recovery) is not None:
        told = {"pending": list(found.pending), "mid_turn": found.is_mid_turn, "torn_bytes": found.torn_bytes}
        live.conversation.note(Observation("recovered", told))
        standing.recovery = None
    if standing.side_calls:
        from plait.session.side_calls import settle_side_calls  # most sessions have none

        settle_side_calls(live, policy_of(session, live).finishing)


def sections_now(live: Live) -> tuple[Section, ...]:
    """Return the sections of the prompt that requests have now."""
    setup = live.conversation.terms.setup
    return with_rest(sections_of(live.settings.wording, setup.tools), setup.system)


def note_setup(live: Live) -> None:
    """Record what requests have in common from now on, where that is not what was recorded last."""
    standing, told = live.standing, told_of(live.conversation.terms.setup)
    if told != standing.setup:
        news = changed(standing.setup or {}, told)
        if "tools" in news:
            news.update(habits_of(live.conversation.terms.tools))
        live.conversation.note(Observation(PROMPT, news))
        standing.setup = told


def take_edits(session: Session, live: Live) -> None:
    """Record what the host has changed in the list since the last turn."""
    follow(session)
    edit = live.mirror.edit(session["messages"])
    if edit is None:
        return
    state = live.conversation.state
    if state.round is not None:
        raise ConfigError(
            "the messages cannot be edited while a tool call waits for its answer",
            hint="take the edit back, or begin a new session with the edited messages",
        )
    replacement = edit.replacement(state.history)
    if replacement is None:
        live.mirror.settle(session["messages"])
        return
    start, end, messages = replacement
    live.conversation.rewrite(start, end, messages, "host_edit")
    live.conversation.commit()
