"""Making room: replace old history by a summary of it.

Floor: 1. Owns: what stands in when no model can write a summary, when a summary is no gain; never: which messages go
(`spans`), how a model is asked (`summarizing`), or when it is due (the loop's rules and the host's plan say that).

Laws: a call and its results are never parted; the task of the turn stays word for word; an earlier summary is
merged into the new one; what gains nothing is not applied.

There are two ways in: `compact` makes room inside a turn and always comes to something, a list of what went if no model
helps; `compact_now` is somebody's wish between turns, and leaves the history alone where no summary of it could be had.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple

from plait.core.exchange import ProviderFailed, Reply
from plait.core.facts import Observation, Reset
from plait.core.messages import CUT, Message, Text
from plait.core.usage import Usage
from plait.kernel.budget import Room, sizes_around
from plait.kernel.deferral import carried
from plait.kernel.effects import Effect, End, Interrupted
from plait.kernel.rules import Rules
from plait.kernel.spans import Span, at, choose, kept_of, select_turns, weight
from plait.kernel.state import State, record
from plait.kernel.summarizing import asks, fitting, summary_of

_ASKED: Final = "asked"
"""Why history is made shorter between turns."""
SKIPPED: Final = "compaction_skipped"
"""Why there is a `Reset` that replaces nothing, and how a compaction ends that gained nothing."""
_NO_GAIN: Final = "the summary is not shorter than what it stands for"
NOTHING_OLDER: Final = "there is nothing older than what is kept"
NO_SUMMARY: Final = "the model wrote no summary"
UNPREPARED: Final = "compaction_preparation_skipped"
"""A note: no model wrote a summary, a list of what went stands in its place."""
OVERFLOWED: Final = "context_overflow_retry"
"""A note: a request did not fit, history was made shorter, and it is made again."""
RETRIED: Final = "compaction_retry"
"""A note: the conversation did not fit the request for a summary, only what goes is sent."""


class Summary(NamedTuple):
    """What stands for history, what a model took for it, and what there is to tell of it."""

    text: str
    usage: Usage | None
    notes: tuple[Observation, ...] = ()


def compact(
    state: State, rules: Rules, why: str, bounds: tuple[int, int] | None = None
) -> Generator[Effect, Any, bool]:
    """Summarise old history and record the replacement; say whether anything was gained.

    Args:
        bounds: what goes, where that has been decided already.
    """
    span = choose(state, rules.shrinking, why) if bounds is None else at(state, *bounds)
    if span is None:
        return False
    # After an overflow the whole history is known not to fit; otherwise the whole prefix is already cached.
    lengths: tuple[int, ...] = (len(state.history), span.end)
    if why == "overflow":
        span, shown = fitting(state, rules, span) if bounds is None else (span, span.end)
        lengths = (shown,)
    summary = yield from _summarise(state, span, rules, tuple(dict.fromkeys(lengths)))
    return (yield from _replace(state, span, summary, why, rules.room))


def compact_now(state: State, keep_last_turns: int, rules: Rules | None = None) -> Generator[Effect, Any, End]:
    """Between turns, summarise all but the last turns; the end says how it went.

    It is `completed` where history was replaced, else the end's `detail` or `error` says why it was not. A failed
    request changes nothing, except where the conversation does not fit the model: then the list of what went stands in.
    """
    span = select_turns(state.history, keep_last_turns)
    if span is None:
        return End(SKIPPED, detail=NOTHING_OLDER)
    text, usage, notes = structural(state.history[span.start : span.end]), None, list[Observation]()
    # The whole conversation is in the endpoint's cache; where it does not fit, what goes may.
    rules = rules or Rules()
    for attempt, ask in enumerate(asks(state, rules, tuple(dict.fromkeys((len(state.history), span.end)))), 1):
        if attempt > 1:
            notes.append(noted(RETRIED, keep=len(state.history) - ask.length))
        try:
            reply: Reply = yield from summary_of(state, rules, ask, attempt)
        except Interrupted as interrupt:
            if interrupt.usage is not None:
                yield from record(state, _spent(state, span, interrupt.usage, room=rules.room))
            return End(interrupt.reason, error=interrupt.__cause__)
        except ProviderFailed as failure:
            if failure.usage is not None:
                yield from record(state, _spent(state, span, failure.usage, room=rules.room))
            if failure.kind != "context_overflow":
                return End("error", error=failure)
        else:
            text, usage = notes_in(reply), reply.usage
            break
    if not text:
        yield from record(state, _spent(state, span, usage, room=rules.room))
        return End(SKIPPED, detail=NO_SUMMARY)
    is_gain = yield from _replace(state, span, Summary(text, usage, tuple(notes)), _ASKED, rules.room)
    return End("completed") if is_gain else End(SKIPPED, detail=_NO_GAIN)


def notes_in(reply: Reply) -> str:
    """Return the summary that an answer holds; empty where it is none: no words, or a refusal."""
    text = reply.message.content.strip()
    is_refused = reply.stop == "content_filter"
    return "" if is_refused or not any(map(str.isalnum, text)) else text


def noted(event: str, **said: object) -> Observation:
    """Return what tells people, and no fold, of something that happened on the way."""
    return Observation("note", {"event": event, **said})


def _replace(state: State, span: Span, summary: Summary, why: str, room: Room | None) -> Generator[Effect, Any, bool]:
    """Put a summary in the place of history, where that is shorter; count what it cost in either case."""
    old, kept = state.history[span.start : span.end], kept_of(state.history, span)
    gone = [message for message in old if not any(message is each for each in kept)]
    new = (Message("summary", (Text(summary.text),)), *carried(gone), *kept)
    # What is only told comes after what counts, so that a turn that is resumed here has got somewhere.
    if weight(new) >= weight(old):
        if summary.usage is not None or why not in ("overflow", _ASKED):
            yield from record(state, _spent(state, span, summary.usage, why, room), *summary.notes)
        return False
    overflowed = (noted(OVERFLOWED, retries=state.shrinks + 1),) if why == "overflow" else ()
    sizes = sizes_around(state, room, old, new)
    reset = Reset(span.start, span.end, new, "compaction", summary.usage, sizes)
    yield from record(state, reset, *summary.notes, *overflowed)
    return True


def _spent(state: State, span: Span, usage: Usage | None, why: str = "", room: Room | None = None) -> Reset:
    """Return what is recorded of a summary that is of no use: nothing is replaced, and it is paid for all the same."""
    sizes = sizes_around(state, room, (), ())
    return Reset(span.start, span.start, (), "overflow_skipped" if why == "overflow" else SKIPPED, usage, sizes)


def structural(messages: Sequence[Message]) -> str:
    """Return what can be said of messages without a model: how many, which tools, which paths, which words asked."""
    roles = Counter(message.role for message in messages)
    calls = [call for message in messages for call in message.tool_calls]
    lines = [f"Earlier: {roles['user']} user and {roles['assistant']} assistant messages."]
    earlier = [message.content for message in messages if message.role == "summary"]
    asked = [message.content for message in messages if message.role == "user" and not message.marked("guard")]
    lines += [text[:4000] for text in earlier]
    lines += [f"Asked: {text[:500]}" for text in asked[-5:]]
    if calls:
        used = Counter(call.name for call in calls)
        lines.append("Tools used: " + ", ".join(f"{name} ×{count}" for name, count in sorted(used.items())))
    paths = sorted({path for call in calls for path in _paths(call.raw)})
    if paths:
        lines.append("Files: " + ", ".join(paths[:50]))
    return "\n".join(lines)


def _summarise(state: State, span: Span, rules: Rules, lengths: tuple[int, ...]) -> Generator[Effect, Any, Summary]:
    """Have the model write a summary; whatever comes of that, one is there in the end."""
    listed, usage, problem = structural(state.history[span.start : span.end]), None, NO_SUMMARY
    notes: list[Observation] = []
    for attempt, ask in enumerate(asks(state, rules, lengths), 1):
        if attempt > 1:
            notes.append(noted(RETRIED, keep=len(state.history) - ask.length))
        try:
            reply: Reply = yield from summary_of(state, rules, ask, attempt)
        except ProviderFailed as failure:
            usage, problem = _sum(usage, failure.usage), str(failure)
            if failure.kind == "context_overflow":
                continue
            break
        except Interrupted as interrupt:
            interrupt.partial = None  # half a summary is no answer
            raise
        usage = _sum(usage, None if reply.usage == Usage.UNAVAILABLE else reply.usage)
        if text := notes_in(reply):
            # What was cut off has not come to what is next; of what was not shown it says nothing.
            unsaid = listed if reply.stop in CUT else structural(state.history[ask.length : span.end])
            is_whole = reply.stop not in CUT and ask.length >= span.end
            return Summary(text if is_whole else f"{text}\n{unsaid}", usage, tuple(notes))
        break
    return Summary(listed, usage, (*notes, noted(UNPREPARED, reason=problem)))


def _sum(one: Usage | None, other: Usage | None) -> Usage | None:
    return other if one is None else one if other is None else one + other


def _paths(raw: str) -> list[str]:
    try:
        arguments = json.loads(raw)
    except ValueError:
        return []
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return [path] if isinstance(path, str) else []
