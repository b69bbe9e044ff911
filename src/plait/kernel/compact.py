"""Making room: replace old history by a summary of it.

Floor: 1. Owns: which messages go, what the summary request says, what stands in when no model can write one;
never: when it is due (the loop's rules and the host's plan say that).

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

from plait.core.exchange import ProviderFailed, Reply, View
from plait.core.facts import Reset
from plait.core.messages import Message, Text, user
from plait.core.usage import Usage
from plait.kernel.deferral import carried, is_mute
from plait.kernel.effects import Effect, End, Interrupted, Think
from plait.kernel.rules import Shrinking
from plait.kernel.state import State, record

_REQUEST: Final = """The conversation is about to be shortened.
Write the notes that the work can go on from, and nothing else:
1. Objective: what was asked for, with every constraint that was stated.
2. State: what is done, what is under way, what was decided and why.
3. Files: each path that was read or changed, with what matters about it.
4. Errors: what failed, and what was learned from it.
5. Next: the steps that remain, in order.
Keep names, numbers, paths and quotations exact. Do not call a tool."""
SKIPPED: Final = "compaction_skipped"
"""Why there is a `Reset` that replaces nothing, and how a compaction ends that gained nothing."""
_NO_GAIN: Final = "the summary is not shorter than what it stands for"


class Span(NamedTuple):
    """Which messages go: from `start` up to `end`; `task` is one among them that stays word for word."""

    start: int
    end: int
    task: Message | None


class Summary(NamedTuple):
    """What stands for history, and what a model took for it."""

    text: str
    usage: Usage | None


def select(history: Sequence[Message], turn_began: int, keep_last_units: int) -> Span | None:
    """Return what may be summarised, or None when nothing older is left."""
    starts = [index for index, message in enumerate(history) if message.role != "tool"]
    if len(starts) <= keep_last_units:
        return None
    end = starts[-keep_last_units] if keep_last_units else len(history)
    start = 0
    task_index = _task_index(history, turn_began)
    task = None
    if task_index is not None and task_index < end:
        if task_index == 0:
            start = 1
        else:
            task = history[task_index]
    if end - start < 2:
        return None
    return Span(start, end, task)


def select_turns(history: Sequence[Message], keep_last_turns: int) -> Span | None:
    """Return what may be summarised when whole turns are kept, or None when nothing older is left.

    Where there are no more turns than that, as many steps of the last one are kept instead, and its task.
    """
    turns = [index for index, message in enumerate(history) if _is_task(message) and not _follows_task(history, index)]
    if keep_last_turns == 0 or len(turns) > keep_last_turns:
        end = turns[-keep_last_turns] if keep_last_turns else len(history)
        return Span(0, end, None) if end > 1 else None
    steps = [index for index, message in enumerate(history) if message.role == "assistant"]
    if not turns or len(steps) <= keep_last_turns:
        return None
    end, task_index = steps[-keep_last_turns], turns[-1]
    if task_index >= end:
        return Span(0, end, None) if end > 1 else None
    start, task = (1, None) if task_index == 0 else (0, history[task_index])
    return Span(start, end, task) if end - start > 1 else None


def compact(state: State, shrinking: Shrinking, why: str) -> Generator[Effect, Any, bool]:
    """Summarise old history and record the replacement; say whether anything was gained."""
    span = _span(state, shrinking, why)
    if span is None:
        return False
    text, usage = yield from _summarise(state, span, why)
    text = text or structural(state.history[span.start : span.end])
    return (yield from _replace(state, span, Summary(text, usage), why))


def compact_now(state: State, keep_last_turns: int) -> Generator[Effect, Any, End]:
    """Between turns, summarise all but the last turns; the end says how it went.

    It is `completed` where history was replaced, else the end's `detail` or `error` says why it was not. A failed
    request changes nothing, except where the conversation does not fit the model: then the list of what went stands in.
    """
    span = select_turns(state.history, keep_last_turns)
    if span is None:
        return End(SKIPPED, detail="there is nothing older than what is kept")
    text, usage = structural(state.history[span.start : span.end]), None
    # The whole conversation is in the endpoint's cache; where it does not fit, what goes may.
    for length in dict.fromkeys((len(state.history), span.end)):
        try:
            reply: Reply = yield Think(_request(state, length), "compaction")
        except Interrupted as interrupt:
            if interrupt.usage is not None:
                yield from record(state, _spent(span, interrupt.usage))
            return End(interrupt.reason, error=interrupt.__cause__)
        except ProviderFailed as failure:
            if failure.usage is not None:
                yield from record(state, _spent(span, failure.usage))
            if failure.kind != "context_overflow":
                return End("error", error=failure)
        else:
            text, usage = reply.message.content.strip(), reply.usage
            break
    if not text:
        yield from record(state, _spent(span, usage))
        return End(SKIPPED, detail="the model wrote no summary")
    is_gain = yield from _replace(state, span, Summary(text, usage), "asked")
    return End("completed") if is_gain else End(SKIPPED, detail=_NO_GAIN)


def _replace(state: State, span: Span, summary: Summary, why: str) -> Generator[Effect, Any, bool]:
    """Put a summary in the place of history, where that is shorter; count what it cost in either case."""
    old = state.history[span.start : span.end]
    kept = () if span.task is None else (span.task,)
    new = (Message("summary", (Text(summary.text),)), *carried(old), *kept)
    if size_chars(new) >= size_chars(old):
        if summary.usage is not None:
            yield from record(state, _spent(span, summary.usage, why))
        return False
    yield from record(state, Reset(span.start, span.end, new, "compaction", summary.usage))
    return True


def _spent(span: Span, usage: Usage | None, why: str = "") -> Reset:
    """Return what is recorded of a summary that is of no use: nothing is replaced, and it is paid for all the same."""
    return Reset(span.start, span.start, (), "overflow_skipped" if why == "overflow" else SKIPPED, usage)


def _span(state: State, shrinking: Shrinking, why: str) -> Span | None:
    """What goes this time: after an overflow, half as much is kept with every try, down to the last unit."""
    keep = shrinking.keep_last_units
    if why != "overflow":
        return select(state.history, state.turn_began, keep)
    keep = max(1, keep >> state.shrinks)
    while (span := select(state.history, state.turn_began, keep)) is None and keep > 1:
        keep //= 2
    return span


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


def size_chars(messages: Sequence[Message]) -> int:
    """Return how much text messages hold."""
    total = 0
    for message in messages:
        total += len(message.content) + len(message.reasoning)
        total += sum(len(call.name) + len(call.raw) for call in message.tool_calls)
        total += sum(len(result.content) for result in message.tool_results)
    return total


def _summarise(state: State, span: Span, why: str) -> Generator[Effect, Any, tuple[str, Usage | None]]:
    # After an overflow the whole history is known not to fit; otherwise the whole prefix is already cached.
    view = _request(state, span.end if why == "overflow" else len(state.history))
    try:
        reply: Reply = yield Think(view, "compaction")
    except ProviderFailed as failure:
        return "", failure.usage
    except Interrupted as interrupt:
        interrupt.partial = None  # half a summary is no answer
        raise
    return reply.message.content.strip(), reply.usage


def _request(state: State, length: int) -> View:
    return View(state.epoch, state.history, length, (user(_REQUEST, mark="compaction"),))


def _task_index(history: Sequence[Message], turn_began: int) -> int | None:
    for index in range(turn_began, len(history)):
        if _is_task(history[index]):
            return index
    return None


def _is_task(message: Message) -> bool:
    return message.role == "user" and not message.marked("guard") and not is_mute(message)


def _follows_task(history: Sequence[Message], index: int) -> bool:
    return index > 0 and _is_task(history[index - 1])


def _paths(raw: str) -> list[str]:
    try:
        arguments = json.loads(raw)
    except ValueError:
        return []
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return [path] if isinstance(path, str) else []
