"""Which messages of a history may give way to a summary.

Floor: 1. Owns: that choice, pure, and what of it stays word for word; never: the summary (`compact`).

Laws: a call and its results are never parted; the task of the turn and pinned messages stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from plait.core.messages import PINNED, Message
from plait.kernel.deferral import is_mute
from plait.kernel.rules import Shrinking
from plait.kernel.state import State

CHARS_PER_TOKEN: Final = 4
IMAGE_TOKENS: Final = 1_000


class Span(NamedTuple):
    """Which messages go: from `start` up to `end`; `task` is one among them that stays word for word.

    So does what the user said right behind it: together they are the question.
    """

    start: int
    end: int
    task: Message | None


class Compactable(NamedTuple):
    """A history in three parts, which make it up in this order."""

    leading_summary: tuple[Message, ...]
    """The summaries it begins with, which a new one takes the place of."""
    compactable: tuple[Message, ...]
    retained: tuple[Message, ...]


def select(history: Sequence[Message], turn_began: int, keep_last_units: int) -> Span | None:
    """Return what may be summarised, or None when nothing older is left."""
    starts = [index for index, message in enumerate(history) if message.role != "tool"]
    if len(starts) <= keep_last_units:
        return None
    return _until(history, turn_began, starts[-keep_last_units] if keep_last_units else len(history))


def select_turns(history: Sequence[Message], keep_last_turns: int) -> Span | None:
    """Return what may be summarised when whole turns are kept, or None when nothing older is left.

    Where there are no more turns than that, as many steps of the last one are kept instead, and its task.
    """
    turns = _turns(history)
    if keep_last_turns == 0 or len(turns) > keep_last_turns:
        end = turns[-keep_last_turns] if keep_last_turns else len(history)
        return Span(0, end, None) if end > 1 else None
    steps = [index for index, message in enumerate(history) if message.role == "assistant"]
    if not turns or len(steps) <= keep_last_turns:
        return None
    end, task_index = steps[-keep_last_turns], turns[-1]
    if task_index >= end:
        return Span(0, end, None) if end > 1 else None
    start, task = (_end_of_question(history, 0), None) if task_index == 0 else (0, history[task_index])
    return Span(start, end, task) if end - start > 1 else None


def select_within(history: Sequence[Message], turn_began: int, keep_last_turns: int, tokens_max: int) -> Span | None:
    """Return what may be summarised in the middle of a turn, so that what is kept fits into `tokens_max`.

    So many turns are kept where they fit, else fewer; where the last one alone does not fit, so many of its steps, else
    fewer. None when nothing older is left.
    """
    turns, found = _turns(history), None
    ends = [turns[-keep] for keep in range(keep_last_turns, 0, -1) if len(turns) > keep]
    last = turns[-1] if turns else 0
    steps = [index for index in range(last, len(history)) if history[index].role == "assistant"]
    ends += [steps[-keep] for keep in range(max(1, keep_last_turns), 0, -1) if len(steps) > keep]
    for end in ends:
        found = _until(history, turn_began, end) or found
        if found is not None and found.end == end and estimated(history[end:]) <= tokens_max:
            break
    return found


def select_compactable(messages: Sequence[Message], keep_recent_turns: int) -> Compactable:
    """Divide a history into the summaries it begins with, what a summary may take the place of, and what stays.

    Put together they are the history. A turn with an unanswered call stays, and so does everything after it.
    """
    lead = 0
    while lead < len(messages) and messages[lead].role == "summary":
        lead += 1
    turns = [index for index in _turns(messages) if index >= lead]
    end = len(messages) if keep_recent_turns == 0 else turns[-keep_recent_turns] if turns[keep_recent_turns:] else lead
    whole, open_ids = lead, set[str]()
    for index in range(lead, end):
        message = messages[index]
        if index in turns and not open_ids:
            whole = index
        open_ids.update(call.id for call in message.tool_calls)
        open_ids.difference_update(result.call_id for result in message.tool_results)
    end = whole if open_ids else end
    return Compactable(tuple(messages[:lead]), tuple(messages[lead:end]), tuple(messages[end:]))


def choose(state: State, shrinking: Shrinking, why: str) -> Span | None:
    """Return what goes now; after an overflow less is kept with every try, down to the last unit."""
    is_overflow = why == "overflow"
    halvings = state.shrinks if is_overflow else 0
    span = None
    if shrinking.keep_last_turns is not None:
        tokens_max = shrinking.kept_tokens_max >> halvings
        span = select_within(state.history, state.turn_began, shrinking.keep_last_turns >> halvings, tokens_max)
    if shrinking.keep_last_turns is None or (is_overflow and span is None):
        keep = shrinking.keep_last_units
        if not is_overflow:
            span = select(state.history, state.turn_began, keep)
        else:
            keep = max(1, keep >> halvings)
            while (span := select(state.history, state.turn_began, keep)) is None and keep > 1:
                keep //= 2
    return None if span is None or _chars(state.history, span) < shrinking.chars_min else span


def at(state: State, start: int, end: int) -> Span:
    """Return the span of these bounds."""
    index = _task_index(state.history, state.turn_began)
    return Span(start, end, state.history[index] if index is not None and start <= index < end else None)


def kept_of(history: Sequence[Message], span: Span) -> tuple[Message, ...]:
    """Return what of a span stays word for word: the task, and what is pinned."""
    return tuple(_kept(history[span.start : span.end], span.task))


def estimated(messages: Sequence[Message]) -> int:
    """Guess how many tokens messages are."""
    return sum(map(estimate_tokens, messages))


def estimate_tokens(message: Message) -> int:
    """Guess a message's tokens: a quarter of its characters, a thousand for each picture, at least one."""
    chars = len(message.content)
    chars += sum(len(call.name) + len(call.raw) for call in message.tool_calls)
    chars += sum(len(result.content) for result in message.tool_results)
    return max(1, chars // CHARS_PER_TOKEN + IMAGE_TOKENS * len(message.images))


def size_chars(messages: Sequence[Message]) -> int:
    """Return how much text messages hold."""
    total = 0
    for message in messages:
        total += len(message.content) + len(message.reasoning)
        total += sum(len(call.name) + len(call.raw) for call in message.tool_calls)
        total += sum(len(result.content) for result in message.tool_results)
    return total


def weight(messages: Sequence[Message]) -> int:
    """Return how much messages weigh in a request: their text, in characters, and pictures as much as they cost."""
    images = sum(len(message.images) for message in messages)
    return size_chars(messages) + images * IMAGE_TOKENS * CHARS_PER_TOKEN


def is_task(message: Message) -> bool:
    """Say whether a message is somebody's question, not a word of the loop's."""
    return message.role == "user" and not message.marked("guard") and not is_mute(message)


def _until(history: Sequence[Message], turn_began: int, end: int) -> Span | None:
    """Return what goes when everything from `end` on is kept, with the turn's task."""
    start, task = 0, None
    task_index = _task_index(history, turn_began)
    if task_index is not None and task_index < end:
        if task_index == 0:
            start = min(_end_of_question(history, 0), end)
        else:
            task = history[task_index]
    return Span(start, end, task) if end - start >= 2 else None


def _turns(history: Sequence[Message]) -> list[int]:
    return [
        index
        for index, message in enumerate(history)
        if is_task(message) and not (index and is_task(history[index - 1]))
    ]


def _task_index(history: Sequence[Message], turn_began: int) -> int | None:
    return next((index for index in range(turn_began, len(history)) if is_task(history[index])), None)


def _kept(messages: Sequence[Message], task: Message | None) -> Iterator[Message]:
    is_pinned = is_question = False
    for message in messages:
        is_pinned = is_pinned if message.role == "tool" else message.marked(PINNED)
        is_question = message is task or (is_question and is_task(message))
        if is_question or is_pinned:
            yield message


def _end_of_question(history: Sequence[Message], start: int) -> int:
    end = start
    while end < len(history) and is_task(history[end]):
        end += 1
    return end


def _chars(history: Sequence[Message], span: Span) -> int:
    return size_chars(history[span.start : span.end])
