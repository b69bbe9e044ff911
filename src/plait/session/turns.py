"""One turn of a session: from a task to its result.

Floor: 5. Owns: `run_turn`, and what stands between a host's list and the loop; never: a policy of the loop's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, TypeVar, Unpack, overload

from plait.core.cancel import Cancel
from plait.core.errors import PolicyError
from plait.core.images import ImageSource, image_of
from plait.core.messages import Image, Message, user
from plait.engine.conversation import check_images
from plait.engine.result import status_of
from plait.engine.structured import settle
from plait.kernel.effects import End
from plait.kernel.ports import Model
from plait.session.aside_notes import settle_asides
from plait.session.asked import keep_pin, model_asked
from plait.session.background import with_notice
from plait.session.cancelling import CancelToken, turn_signal
from plait.session.catching_up import catch_up, error_told
from plait.session.hooks.hooked import hooked, rejected, submitted
from plait.session.live import Live
from plait.session.mcp import take_over
from plait.session.readying import begin, held, note_setup, prepare, take_edits
from plait.session.result import SessionResult
from plait.session.sender import sender_header, sender_label, senders_noted
from plait.session.senses.sensing import settled, with_senses
from plait.session.session import Session
from plait.session.summaries.compacting import at_turn_end
from plait.session.turn_seat import sitting

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
    again, calls whose end nobody saw are looked into. A history that the host has edited is recorded before that. What
    goes wrong inside is on the result; what a handler or an approver raises is raised here, once history is closed.

    Args:
        client: what `create_client` returned, any object with `chat.completions.create`, or a model.
        model: the name that requests ask for.
        task: what is asked; None only goes on with an unfinished turn, or else sends the conversation as it stands.
        output_type: what the answer has to be, in place of the session's own type; see `plait.Agent`.
        cancel: ends the turn from another thread. Ctrl-C in the main thread does the same.
        timeout: seconds after which the turn ends.
        sender: `{"kind": …, "name": …}` of who asks, when it is not the user.
        images: pictures that belong to the task: `Image`s, paths, URLs or bytes.
        tool_executor: runs the turn's calls (`ToolExecutor`); hooks and servers stay where they are.

    Raises:
        ValueError: the timeout is negative, or the kind of the sender unknown.
        SessionBusy: a turn of this session is running.
        JournalError: the journal cannot be made or written; nothing that was told is lost.
        ConfigError: `session` is no open session; its messages, a picture, the output type or the executor is none, or
            its fence is another workspace's.
        UnsupportedFeature: pictures were given and the model takes none.
        RequestTooLarge: a picture is larger than the endpoint takes.
    """
    header, label = sender_header(sender), sender_label(sender)
    with (
        turn_signal(cancel, timeout) as signal,
        held(session) as live,
        sitting(live, tool_executor) as sit,
        hooked(live) as tell_end,
        settled(live),
    ):
        began_s, live.signal = time.monotonic(), signal
        pictures, asked = tuple(map(image_of, images)), model_asked(live, client, model, session)
        check_images(asked, pictures)
        is_unfinished = live.conversation.state.in_turn
        _prepared(session, live, asked, None if is_unfinished else output_type, signal)
        sit()
        end = _finish_unfinished(live, signal, is_all=task is None)
        if end is None:
            if is_unfinished and output_type is not None:
                prepare(session, live, asked, output_type)
                note_setup(live)
            try:
                more = "" if task is None else with_senses(live, submitted(live, task, sender, signal))
            except PolicyError as error:
                catch_up(session, live)
                return rejected(session, live, error)
            live.mirror.note = senders_noted(live.mirror.items[-1] if task and _waits(live) else None, sender)
            text = None if task is None else _worded(live, f"{header}\n{task}" if header else str(task), more)
            inputs = () if text is None else (_question(live, text, pictures),)
            end = live.conversation.turn(inputs, cancel=signal, sender=label)
        tell_end(end)
        keep_pin(live)
        return _result(session, live, end, began_s)


def _prepared(session: Session, live: Live, model: Model, output_type: object, signal: Cancel) -> None:
    """Bring a session to where its turn can begin: its tools and terms those of now, its journal made and true."""
    take_over(session, live, signal)
    prepare(session, live, model, output_type)
    begin(session, live)
    take_edits(session, live)


def _finish_unfinished(live: Live, signal: Cancel, *, is_all: bool) -> End | None:
    """Bring a turn to its end that an earlier process left open; return that when nothing is to follow."""
    state = live.conversation.state
    if not state.in_turn or state.lacks_question:
        return None
    end = live.conversation.turn(cancel=signal, resume=True)
    return end if is_all or end.reason == "interrupted" else None


def _worded(live: Live, text: str, more: str) -> str:
    """Return the task with what is to be told beside it, and with what its answer has to be where words say that."""
    wanted, text = live.conversation.terms.policy.wanted, with_notice(live, text)
    text = f"{text}\n\n{more}" if more else text
    return text if wanted is None else wanted.question(text)


def _question(live: Live, text: str, images: tuple[Image, ...]) -> Message:
    """Return the task as a message; a question before it that was never answered becomes part of it."""
    history, last = live.conversation.state.history, _waits(live)
    if last is None:
        return user(text, images)
    # Two messages of the user in a row are refused by some endpoints and misread by others.
    live.conversation.rewrite(len(history) - 1, len(history), (), "user_merge")
    live.conversation.commit()
    return user(f"{last.content}\n\n{text}", images)


def _waits(live: Live) -> Message | None:
    """Return the question at the end of the history that was never answered, and that another one may go on from."""
    history = live.conversation.state.history
    last = history[-1] if history else None
    return last if last is not None and last.role == "user" and last.content and not last.images else None


def _result(session: Session, live: Live, end: End, began_s: float) -> SessionResult[Any]:
    at_turn_end(session, live, end)
    settle_asides(session, live)
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
