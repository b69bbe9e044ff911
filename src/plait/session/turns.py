"""One turn of a session: from a task to its result.

Floor: 5. Owns: `run_turn`, and what stands between a host's list and the loop; never: a policy of the loop's.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from plait.core.cancel import Cancel
from plait.core.errors import ConfigError, ModelError, PlaitError, SessionBusy
from plait.core.events import Notice
from plait.core.messages import Image, Message, user
from plait.engine.base_host import Policy
from plait.engine.calls import Finishing
from plait.engine.conversation import Terms, check_images
from plait.engine.result import error_of, status_of
from plait.events.named import Error, TokenLimit
from plait.kernel.effects import Boundary, End, Plan, Replace, Stop
from plait.kernel.ports import Model, Options, Setup
from plait.models.line import pin_of
from plait.session.cancelling import CancelToken, turn_signal
from plait.session.clients import Wishes, adapter_of, model_for
from plait.session.mirror import Item, system_of
from plait.session.result import SessionResult
from plait.session.sender import sender_header, sender_label
from plait.session.session import Live, Session, follow


def run_turn(
    client: object,
    model: str,
    session: Session,
    task: str | None,
    *,
    cancel: CancelToken | Cancel | None = None,
    timeout: float | None = None,
    sender: Mapping[str, object] | None = None,
    images: Iterable[Image] = (),
    tool_executor: object | None = None,
) -> SessionResult:
    """Run one turn in this thread and return what it came to.

    A history that the host has edited is recorded first. What goes wrong inside the turn is on the result; what a
    handler or an approver raises is raised here, once the history is closed.

    Args:
        client: what `create_client` returned, any object with `chat.completions.create`, or a model.
        model: the name that requests ask for.
        task: what is asked; None sends the conversation as it stands.
        cancel: ends the turn from another thread. Ctrl-C in the main thread does the same.
        timeout: seconds after which the turn ends.
        sender: `{"kind": …, "name": …}` of who asks, when it is not the user.
        images: pictures that belong to the task.

    Raises:
        ValueError: the timeout is negative, or the kind of the sender unknown.
        SessionBusy: a turn of this session is running.
        ConfigError: `session` is no open session, its messages are none, or `tool_executor` is given.
        UnsupportedFeature: pictures were given and the model takes none.
    """
    if timeout is not None and timeout < 0:
        raise ValueError(f"a turn cannot end after {timeout} seconds")
    if tool_executor is not None:
        raise ConfigError("tool_executor is not available yet", hint="leave tool_executor out")
    header, label = sender_header(sender), sender_label(sender)
    with _held(session) as live, turn_signal(cancel, timeout) as signal:
        began_s = time.monotonic()
        pictures, asked = tuple(images), _model(live, client, model, session)
        check_images(asked, pictures)
        _prepare(session, live, asked)
        _take_edits(session, live)
        text = f"{header}\n{task}" if header else task
        inputs = () if task is None else (_question(live, str(text), pictures),)
        live.mirror.note = {"sender": dict(sender)} if sender is not None and label else {}
        end = live.conversation.turn(inputs, cancel=signal, sender=label)
        return _result(session, live, end, began_s)


@contextmanager
def _held(session: Session) -> Iterator[Live]:
    live = getattr(session, "_live", None)
    if not isinstance(live, Live):
        raise ConfigError(
            "run_turn needs an open session, not its dict", hint="init_session(schema, session=…) opens it again"
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
        live.model = (client, name, model_for(client, name, wishes))
    return live.model[2]


def _pinning(session: weakref.ref[Session], live: Live) -> Callable[[str], None]:
    """Return what notes in a session which provider answered first, and tells of it."""

    def pinned(provider: str) -> None:
        opened = session()
        if opened is not None:
            opened["provider"] = pin_of(provider)
        live.conversation.observers.publish(Notice("provider_pinned", {"provider": provider}))

    return pinned


def _prepare(session: Session, live: Live, model: Model) -> None:
    """Bring the conversation's terms up to the keys that a host may have changed."""
    settings, terms = live.settings, live.conversation.terms
    excluded = "exclude-prompt_cache_key" in session["options"]
    options = Options(
        max_output_tokens=session["max_output_tokens"],
        cache_key=None if excluded else session["cache_key"],
        extra=settings.request_params,
    )
    if live.policy is None:
        finishing = Finishing(settings.limits.max_tool_result_tokens, session_id=session["session_id"])
        between = _Between(weakref.ref(session), live)
        live.policy = Policy(settings.approver, settings.limits, finishing, on_boundary=between)
    setup = Setup(system_of(session["messages"]), terms.tools.schemas, options)
    live.conversation.change(model, Terms(terms.tools, setup, live.policy, settings.rules))


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


class _Between:
    """Looks at the session between two steps: edits of the host, and the tokens of the turn."""

    def __init__(self, session: weakref.ref[Session], live: Live) -> None:
        self._session = session
        self._live = live

    def __call__(self, at: Boundary) -> Plan | None:
        session = self._session()
        if session is None or at.phase == "final":
            return None
        # Whoever watches has heard of the last step before the next one is planned, and may have edited the list.
        self._live.conversation.show()
        follow(session)
        return self._over_budget() or self._edited(session["messages"])

    def _edited(self, items: list[Item]) -> Plan | None:
        mirror = self._live.mirror
        edit = mirror.edit(items)
        replacement = None if edit is None else edit.replacement(self._live.conversation.state.history)
        if replacement is None:
            mirror.settle(items)
            return None
        start, end, messages = replacement
        return Plan(replace=Replace(start, end, messages, "host_edit"))

    def _over_budget(self) -> Plan | None:
        limit, usage = self._live.settings.max_turn_tokens, self._live.conversation.state.turn_usage
        if limit is None:
            return None
        raw = usage.input_tokens + usage.output_tokens
        cached = min(usage.cache_read_tokens, usage.input_tokens)
        if raw - cached < limit:
            return None
        self._live.hub.emit(TokenLimit(raw - cached, limit, raw, cached))
        return Plan(stop=Stop("limit", f"token budget exceeded ({raw - cached:,} of {limit:,} tokens)"))


def _result(session: Session, live: Live, end: End, began_s: float) -> SessionResult:
    follow(session)
    live.conversation.observers.raise_fault()
    model = live.conversation.model
    error = error_of(end, model=model.name, endpoint=str(getattr(model, "endpoint", session["endpoint"])))
    if error is not None and status_of(end.reason) == "error":
        adapter = adapter_of(None if live.model is None else live.model[0])
        live.hub.emit(_error_event(error, time.monotonic() - began_s, adapter))
    return SessionResult(
        session["session_id"],
        end.reply if end.reason == "completed" else None,
        dict(session["usage_totals"]),
        session["messages"],
        status_of(end.reason),
        error,
        live.conversation.state.steps,
        live.conversation.state.turn_usage,
    )


def _error_event(error: PlaitError, elapsed_s: float, adapter: str) -> Error:
    code = error.error_code if isinstance(error, ModelError) else error.code
    status = error.status if isinstance(error, ModelError) else None
    text = f"{error.message}. {error.hint}" if error.hint else error.message
    return Error(text, type(error).__name__, error.message, code, status, round(elapsed_s, 3), adapter)
