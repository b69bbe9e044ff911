"""A question beside the conversation: the model answers it with all that was said before its eyes, and forgets it.

Floor: 5. Owns: `side_query`, what it sends and how it counts; never: the conversation, which it leaves as it is.

It may be asked from a `step_reducer`, from any other thread during a turn, and between turns. What it sends goes on
from the conversation's own requests, byte for byte, so that the endpoint's cache holds all but the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed, View
from plait.core.facts import SIDE_QUERY, Observation
from plait.core.messages import Message, ToolResult, user
from plait.core.usage import Usage
from plait.events.reducer import counts
from plait.kernel.effects import Interrupted, Think
from plait.kernel.ports import Channel, Model, Setup
from plait.kernel.state import State
from plait.models.errors import to_error
from plait.session.aside_notes import Asides, settle_asides
from plait.session.clients import Wishes, model_for
from plait.session.defaults import BENCH
from plait.session.live import Live, live_of
from plait.session.readying import held, prepare
from plait.session.session import Session

PREAMBLE: Final = (
    "A question aside, about this conversation as it stands. Answer it in words and call no tool; the work goes on "
    "afterwards as if it had not been asked."
)
_RUNNING: Final = "[still running: {name}]"
_FIRST_EPOCH: Final = -1


def side_query(
    client: object,
    model: str,
    session: Session,
    question: str,
    *,
    max_tokens: int | None = None,
    preamble: str | None = PREAMBLE,
    count_usage: bool = False,
) -> str:
    """Ask the session's model something about its conversation, and leave the conversation as it is.

    The request has the system prompt, the tools and the messages of the session's own requests, forbids calls, and
    ends with the question. Calls that still run are shown as such. It may be asked from any thread, during a turn and
    between turns; a `step_reducer` uses it to digest a step.

    Args:
        client, model: as for `run_turn`.
        question: what is asked.
        max_tokens: of the answer; what the session's answers may have unless given.
        preamble: stands before the question; None or empty for nothing.
        count_usage: what it takes counts in `usage_totals`, and comes as a `usage` event with the purpose `side_query`.

    Returns:
        the answer's words, stripped; empty where it has none.

    Raises:
        ValueError: `max_tokens` is less than 1. ConfigError: it is no open session.
        ModelError: there is no answer, after as many tries as a step has.

    Durability: question, answer and usage are noted in the journal, with the next barrier.
    """
    if max_tokens is not None and max_tokens < 1:
        raise ValueError(f"an answer cannot have {max_tokens} tokens")
    live = live_of(session)
    asked = _model(session, live, client, model)
    if not live.running.locked() and (live.model is None or live.model[2] is asked):
        with held(session):
            prepare(session, live, asked, None)
    text = f"{preamble}\n\n{question}" if preamble else question
    ask = Think(_view(live.conversation.state, live.asides, text), "side_query", 1, max_tokens)
    answer, usage = _answered(live, asked, ask)
    told = counts(usage)
    _note(
        session,
        live,
        {"question": question, "answer": answer, "usage": told, **({"counts": True} if count_usage else {})},
    )
    return answer


def _note(session: Session, live: Live, data: Mapping[str, object]) -> None:
    live.asides.waiting.append(Observation("note", {"event": SIDE_QUERY, **data}))
    if live.running.acquire(blocking=False):
        try:
            settle_asides(session, live)
            live.conversation.commit()
        finally:
            live.running.release()


def _model(session: Session, live: Live, client: object, name: str) -> Model:
    """Return the model of the turn where it is the same, else one that the session does not keep."""
    if live.model is not None and live.model[0] is client and live.model[1] == name:
        return live.model[2]
    reports = session["reports_prompt_tokens"]
    wishes = Wishes(session["structured"], live.settings.streams, live.settings.context_window, reports_input=reports)
    return model_for(client, name, wishes)


def _view(state: State, asides: Asides, text: str) -> View:
    """Return what the request shows: the history of this moment, every call with a result, and the question."""
    round_, history = state.round, list(state.history)
    extra: list[Message] = []
    calls = history[-1].tool_calls if history else ()
    if calls:
        ended = dict(round_.ended) if round_ is not None and round_.of == len(history) - 1 else {}
        results = (ended.get(call.id) or ToolResult(call.id, _RUNNING.format(name=call.name)) for call in calls)
        extra.append(Message("tool", tuple(results)))
    asides.asked += 1
    # An epoch of its own each time: the line compares what it holds with what is shown.
    return View(_FIRST_EPOCH - asides.asked, history, len(history), (*extra, user(text)))


def _answered(live: Live, model: Model, ask: Think) -> tuple[str, Usage]:
    """Ask until there is an answer, as often as for a step."""
    asides, setup = live.asides, live.conversation.terms.setup
    cancel = Cancel() if live.signal is None or not live.running.locked() else live.signal.child()
    is_mine = asides.busy.acquire(blocking=False)
    channel: Channel | None = None
    try:
        channel = _line(live, model, setup) if is_mine else model.open(setup)
        live.conversation.in_form(channel)
        return _asked(live, channel, ask, cancel)
    finally:
        cancel.detach()
        if is_mine:
            asides.busy.release()
        elif channel is not None:
            channel.close()


def _line(live: Live, model: Model, setup: Setup) -> Channel:
    line = live.asides.line
    if line is None or line[0] is not model or line[1] != setup:
        line = live.asides.line = (model, setup, model.open(setup))
    return line[2]


def _asked(live: Live, channel: Channel, ask: Think, cancel: Cancel) -> tuple[str, Usage]:
    retry, attempt = live.settings.rules.retry, 1
    while True:
        try:
            reply = channel.think(ask, None, cancel)
            return reply.message.content.strip(), reply.usage
        except ProviderFailed as failed:
            delay_s = retry.delay_s(failed, attempt)
            if delay_s is None:
                failed.gave_up = retry.why_not(failed, attempt)
                at = live.conversation.model
                raise to_error(failed, model=at.name, endpoint=str(getattr(at, "endpoint", ""))) from failed
        if BENCH.clock.sleep(delay_s, cancel):
            raise Interrupted(cancel.reason or "interrupted")
        attempt += 1
