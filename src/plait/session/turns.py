"""One turn of a session: from a task to its result.

Floor: 5. Owns: `run_turn`, and what stands between a host's list and the loop; never: a policy of the loop's.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict, TypeVar, Unpack, overload

from plait.core.cancel import Cancel
from plait.core.errors import ConfigError, ModelError, PlaitError, PolicyError, SessionBusy
from plait.core.events import Notice
from plait.core.facts import Observation
from plait.core.images import ImageSource, image_of
from plait.core.messages import Image, Message, user
from plait.engine.base_host import Policy
from plait.engine.calls import Finishing
from plait.engine.conversation import Terms, check_images
from plait.engine.result import error_of, status_of
from plait.engine.structured import settle
from plait.events.named import Error
from plait.kernel.effects import End
from plait.kernel.ports import Model, Options, Setup
from plait.models.pinning import pin_of
from plait.session.background import with_notice
from plait.session.between import Between
from plait.session.cache_terms import cache_terms
from plait.session.cancelling import CancelToken, turn_signal
from plait.session.capture import WatchedModel, watched_client
from plait.session.clients import Wishes, adapter_of, model_for
from plait.session.heads import PROMPT, changed, habits_of, told_of
from plait.session.hooked import hooked, rejected, submitted
from plait.session.mcp import take_over
from plait.session.mirror import system_of
from plait.session.outputs import with_output
from plait.session.recorded import PINNED, start_of
from plait.session.result import SessionResult
from plait.session.sender import sender_header, sender_label
from plait.session.session import Live, Session, follow

U = TypeVar("U")


class TurnOptions(TypedDict, total=False):
    """Keywords of a turn, described at `run_turn`."""

    cancel: CancelToken | Cancel | None
    timeout: float | None
    sender: Mapping[str, object] | None
    images: Iterable[ImageSource]


@overload
def run_turn(
    client: object,
    model: str,
    session: Session,
    task: str | None,
    *,
    output_type: type[U],
    tool_executor: object | None = None,
    **options: Unpack[TurnOptions],
) -> SessionResult[U]: ...


@overload
def run_turn(
    client: object,
    model: str,
    session: Session,
    task: str | None,
    *,
    output_type: None = None,
    tool_executor: object | None = None,
    **options: Unpack[TurnOptions],
) -> SessionResult: ...


@overload
def run_turn(
    client: object,
    model: str,
    session: Session,
    task: str | None,
    *,
    output_type: object,
    tool_executor: object | None = None,
    **options: Unpack[TurnOptions],
) -> SessionResult[Any]: ...


def run_turn(
    client: object,
    model: str,
    session: Session,
    task: str | None,
    *,
    output_type: object = None,
    cancel: CancelToken | Cancel | None = None,
    timeout: float | None = None,
    sender: Mapping[str, object] | None = None,
    images: Iterable[ImageSource] = (),
    tool_executor: object | None = None,
) -> SessionResult[Any]:
    """Run one turn in this thread and return what it came to.

    A turn that an earlier process left unfinished goes on first, from where it stood: calls that had ended are not run
    again, calls whose end nobody saw are looked into. A history that the host has edited is recorded before that.
    What goes wrong inside the turn is on the result; what a handler or an approver raises is raised here, once the
    history is closed.

    Args:
        client: what `create_client` returned, any object with `chat.completions.create`, or a model.
        model: the name that requests ask for.
        task: what is asked; None only goes on with an unfinished turn, or else sends the conversation as it stands.
        output_type: what the answer has to be, in place of the session's own type; see `plait.Agent`.
        cancel: ends the turn from another thread. Ctrl-C in the main thread does the same.
        timeout: seconds after which the turn ends.
        sender: `{"kind": …, "name": …}` of who asks, when it is not the user.
        images: pictures that belong to the task: `Image`s, paths, URLs or bytes.

    Raises:
        ValueError: the timeout is negative, or the kind of the sender unknown.
        SessionBusy: a turn of this session is running.
        JournalError: the journal cannot be made or written; nothing that was told is lost.
        ConfigError: `session` is no open session, its messages are none, a picture or the output type is none, or
            `tool_executor` is given.
        UnsupportedFeature: pictures were given and the model takes none.
        RequestTooLarge: a picture is larger than the endpoint takes.
    """
    if timeout is not None and timeout < 0:
        raise ValueError(f"a turn cannot end after {timeout} seconds")
    if tool_executor is not None:
        raise ConfigError("tool_executor is not available yet", hint="leave tool_executor out")
    header, label = sender_header(sender), sender_label(sender)
    with held(session) as live, turn_signal(cancel, timeout) as signal, hooked(live) as tell_end:
        began_s = time.monotonic()
        pictures, asked = tuple(map(image_of, images)), _model(live, client, model, session)
        check_images(asked, pictures)
        is_unfinished = live.conversation.state.in_turn
        take_over(session, live, signal)
        _prepare(session, live, asked, None if is_unfinished else output_type)
        begin(session, live)
        _take_edits(session, live)
        end = _finish_unfinished(live, signal, is_all=task is None)
        if end is None:
            if is_unfinished and output_type is not None:
                _prepare(session, live, asked, output_type)
                _note_setup(live)
            try:
                more = "" if task is None else submitted(live, task, sender, signal)
            except PolicyError as error:
                catch_up(session, live)
                return rejected(session, live, error)
            text = f"{header}\n{task}" if header else str(task)
            inputs = () if task is None else (_question(live, _worded(live, text, more), pictures),)
            live.mirror.note = {"sender": dict(sender)} if sender is not None and label else {}
            end = live.conversation.turn(inputs, cancel=signal, sender=label)
        tell_end(end)
        keep_pin(live)
        return _result(session, live, end, began_s)


@contextmanager
def held(session: Session) -> Iterator[Live]:
    """Keep every other turn of a session away.

    Raises:
        SessionBusy: one is running. ConfigError: it is no open session.
    """
    live = getattr(session, "_live", None)
    if not isinstance(live, Live):
        raise ConfigError(
            "this needs an open session, not its dict", hint="init_session(schema, session=…) opens it again"
        )
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
    _prepare(session, live, _model(live, client, model, session), None)
    begin(session, live)
    _take_edits(session, live)


def _model(live: Live, client: object, name: str, session: Session) -> Model:
    """Return the model of a client; the same one as long as neither changes, so that its line stays open."""
    if live.model is None or live.model[0] is not client or live.model[1] != name:
        settings, observers = live.settings, live.conversation.observers

        def waits(delay_s: float, resume_at: str) -> None:
            observers.publish(Notice("rate_limit_wait", {"delay": delay_s, "resume_at": resume_at}))

        wishes = Wishes(
            session["structured"],
            settings.streams,
            settings.context_window,
            reports_input=session["reports_prompt_tokens"],
            on_wait=waits,
            on_pin=_pinning(weakref.ref(session), live),
        )
        live.model = (client, name, _watched(live, client, name, wishes))
    return live.model[2]


def _watched(live: Live, client: object, name: str, wishes: Wishes) -> Model:
    """Return the model of a client, whose requests and answers are captured where somebody wants that."""
    capture = live.standing.capture
    if capture is None:
        return model_for(client, name, wishes)
    return WatchedModel(model_for(watched_client(client, capture), name, wishes), capture)


def _pinning(session: weakref.ref[Session], live: Live) -> Callable[[str], None]:
    """Return what notes in a session which provider answered first, and tells of it."""

    def pinned(provider: str) -> None:
        opened, live.pinned = session(), provider
        if opened is not None:
            opened["provider"] = pin_of(provider)
        live.conversation.observers.publish(Notice("provider_pinned", {"provider": provider}))

    return pinned


def keep_pin(live: Live) -> None:
    """Record which provider a router's requests stay with, so that a resumed session stays with it too."""
    if live.pinned is not None:
        live.conversation.note(Observation(PINNED, {"provider": live.pinned}))
        live.conversation.commit()
        live.pinned = None


def _prepare(session: Session, live: Live, model: Model, output_type: object) -> None:
    """Bring the conversation's terms up to the keys that a host may have changed."""
    settings, terms = live.settings, live.conversation.terms
    excluded = "exclude-prompt_cache_key" in session["options"]
    options = Options(
        max_output_tokens=session["max_output_tokens"],
        cache_key=None if excluded else session["cache_key"],
        extra=settings.request_params,
    )
    setup = Setup(system_of(session["messages"]), terms.tools.schemas, options, terms.tools.deferral)
    terms = Terms(terms.tools, setup, policy_of(session, live), settings.rules, cache=cache_terms(session))
    live.conversation.change(model, with_output(session, model, terms, output_type))


def policy_of(session: Session, live: Live) -> Policy:
    """Return how the calls and turns of a session are run; the same one as long as nothing is registered anew."""
    settings = live.settings
    if live.policy is None:
        finishing = Finishing(settings.limits.max_tool_result_tokens, session_id=session["session_id"])
        between = Between(weakref.ref(session), live)
        is_watched = live.standing.capture is not None
        live.policy = Policy(
            settings.approver,
            settings.limits,
            finishing,
            on_boundary=between,
            is_watched=is_watched,
            gates=live.hooks,
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
        words = {"supplement": settings.supplement, "bare": settings.bare} if settings.supplement else {}
        words = words if live.hooks is None else {**words, **live.hooks.recorded}
        own = {**words, **habits_of(live.conversation.terms.tools)}
        live.conversation.note(start_of(session, standing.key, standing.cwd, {**standing.setup, **own}))
    _note_setup(live)
    if (found := standing.recovery) is not None:
        told = {"pending": list(found.pending), "mid_turn": found.is_mid_turn, "torn_bytes": found.torn_bytes}
        live.conversation.note(Observation("recovered", told))
        standing.recovery = None


def _note_setup(live: Live) -> None:
    """Record what requests have in common from now on, where that is not what was recorded last."""
    standing, told = live.standing, told_of(live.conversation.terms.setup)
    if told != standing.setup:
        live.conversation.note(Observation(PROMPT, changed(standing.setup or {}, told)))
        standing.setup = told


def _finish_unfinished(live: Live, signal: Cancel, *, is_all: bool) -> End | None:
    """Bring a turn to its end that an earlier process left open; return that when nothing is to follow."""
    state = live.conversation.state
    if not state.in_turn or state.lacks_question:
        return None
    end = live.conversation.turn(cancel=signal, resume=True)
    return end if is_all or end.reason == "interrupted" else None


def _take_edits(session: Session, live: Live) -> None:
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


def _worded(live: Live, text: str, more: str) -> str:
    """Return the task with what is to be told beside it, and with what its answer has to be where words say that."""
    wanted, text = live.conversation.terms.policy.wanted, with_notice(live, text)
    text = f"{text}\n\n{more}" if more else text
    return text if wanted is None else wanted.question(text)


def _question(live: Live, text: str, images: tuple[Image, ...]) -> Message:
    """Return the task as a message; a question before it that was never answered becomes part of it."""
    history = live.conversation.state.history
    last = history[-1] if history else None
    if last is None or last.role != "user" or last.images or not last.content:
        return user(text, images)
    # Two messages of the user in a row are refused by some endpoints and misread by others.
    live.conversation.rewrite(len(history) - 1, len(history), (), "user_merge")
    live.conversation.commit()
    return user(f"{last.content}\n\n{text}", images)


def _result(session: Session, live: Live, end: End, began_s: float) -> SessionResult[Any]:
    catch_up(session, live)
    end, value = settle(end, live.conversation.state, live.conversation.terms.policy.wanted)
    error = error_told(session, live, end, began_s)
    return SessionResult(
        session["session_id"],
        end.reply if end.reason == "completed" else None,
        dict(session["usage_totals"]),
        session["messages"],
        status_of(end.reason),
        error,
        live.conversation.state.steps,
        live.conversation.state.turn_usage,
        value,
    )


def catch_up(session: Session, live: Live) -> None:
    """Bring everything that follows the conversation up to it; raise what a handler raised meanwhile."""
    follow(session)
    if (capture := live.standing.capture) is not None:
        capture.commit()
    live.standing.snapshot.keep(session, live.log.journal)
    live.conversation.observers.raise_fault()


def error_told(session: Session, live: Live, end: End, began_s: float) -> PlaitError | None:
    """Return the error of an end that has one, after the handlers have heard of it."""
    model = live.conversation.model
    error = error_of(end, model=model.name, endpoint=str(getattr(model, "endpoint", session["endpoint"])))
    if error is not None and status_of(end.reason) == "error":
        adapter = adapter_of(None if live.model is None else live.model[0])
        live.hub.emit(_error_event(error, time.monotonic() - began_s, adapter))
    return error


def _error_event(error: PlaitError, elapsed_s: float, adapter: str) -> Error:
    code = error.error_code if isinstance(error, ModelError) else error.code
    status = error.status if isinstance(error, ModelError) else None
    text = f"{error.message}. {error.hint}" if error.hint else error.message
    return Error(text, type(error).__name__, error.message, code, status, round(elapsed_s, 3), adapter)
