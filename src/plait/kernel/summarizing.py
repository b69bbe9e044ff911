"""How a model is asked for a summary: in which words, of how much, and again where it failed for the moment.

Floor: 1. Owns: that request; never: which messages go (`spans`), or what takes their place (`compact`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from plait.core.exchange import ProviderFailed, Reply, View
from plait.core.facts import RetryScheduled
from plait.core.messages import user
from plait.kernel.budget import Room, answered_beyond, estimate, left_for_answer, sizes_around
from plait.kernel.effects import Effect, Think, Wait
from plait.kernel.rules import Rules
from plait.kernel.spans import Span, at
from plait.kernel.state import State, record

PURPOSE: Final = "compaction"
_REQUEST: Final = """The conversation is about to be shortened.
Write the notes that the work can go on from, and nothing else:
1. Objective: what was asked for, with every constraint that was stated.
2. State: what is done, what is under way, what was decided and why.
3. Files: each path that was read or changed, with what matters about it.
4. Errors: what failed, and what was learned from it.
5. Next: the steps that remain, in order.
Keep names, numbers, paths and quotations exact. Do not call a tool."""
_LEAST_TOKENS: Final = 1_000
"""A summary that may not have so many is asked for with less before it; in a small window a sixteenth of that."""
_SMALL: Final = 16
_ANSWER: Final = 4
"""The part of a window that is kept for an answer, where nobody has said how much."""


def rules_told(state: State, rules: Rules, failure: ProviderFailed) -> Rules:
    """Return rules with the window that a refusal shows, where it is smaller than what was known of it."""
    room, limit = rules.room, _limit_in(state, rules, failure)
    if limit is None or (room is not None and room.window is not None and room.window <= limit):
        return rules
    if room is None:
        return replace(rules, room=Room(limit, reserve=limit // _ANSWER))
    reserve = min(room.reserve, limit // _ANSWER)
    narrow = Room(limit, reserve=reserve, system=room.system, tools=room.tools, count=room.count, origin=room.origin)
    return replace(rules, room=narrow)


def _limit_in(state: State, rules: Rules, failure: ProviderFailed) -> int | None:
    """Return what a refusal shows of the window, in the tokens that sizes are estimated in.

    A number that larger requests were answered beyond is not believed. Without one, what was answered last has fitted;
    where nothing was ever reported, only the refusal says how far estimates are off.
    """
    requested, limit = failure.tokens or (None, None)
    measures = state.gauge.measures
    if limit and answered_beyond(state, limit, rules.room.origin if rules.room else ""):
        return None
    if measures:
        fitted = measures[-1].input
        return limit or (fitted if fitted >= _LEAST_TOKENS else None)
    guessed = estimate(state, rules.room or Room(None)).tokens
    if limit:
        return min(limit, limit * guessed // requested) if requested else limit
    return guessed - guessed // 8 if guessed >= 2 * _LEAST_TOKENS else None


def fitting(state: State, rules: Rules, span: Span) -> tuple[Span, int]:
    """Return what is to go, and how many messages the request for its summary shows: all up to there if they fit.

    Where they would leave no room for an answer, only so much of the beginning goes as leaves some, if that is enough.
    If it is not, all of it goes, and the model writes of the part that it can be shown.
    """
    if rules.room is None or _fits(state, rules, span.end):
        return span, span.end
    ends = [end for end in range(span.start + 2, span.end) if state.history[end].role != "tool"]
    found = bisect_left(ends, True, key=lambda end: not _fits(state, rules, end))
    if not found:
        return span, span.end
    shorter = at(state, span.start, ends[found - 1])
    _, after = sizes_around(state, rules.room, state.history[shorter.start : shorter.end], ())
    window = rules.room.window or rules.room.usual or 0
    is_enough = after + rules.room.reserve + _least(rules, window) <= window
    return shorter if is_enough else span, shorter.end


def _fits(state: State, rules: Rules, length: int) -> bool:
    return not asks(state, rules, (length,))[0].is_tight


class Ask(NamedTuple):
    """One request for a summary: of so many messages, with so many tokens for the answer (None: as every answer)."""

    length: int
    output_max: int | None
    fault: str = ""
    """Why it is not sent: it is known not to fit."""
    is_tight: bool = False
    """The window leaves less than a summary needs."""


def asks(state: State, rules: Rules, lengths: Sequence[int]) -> list[Ask]:
    """Return the requests for a summary, in order, each for when the one before it did not fit.

    An answer is asked for that the window has room for, and what leaves too little of it is not asked where another
    request shows less. One that is known not to fit is returned with its fault.
    """
    return [_ask(state, rules, length, is_last=length == lengths[-1]) for length in lengths]


def _ask(state: State, rules: Rules, length: int, *, is_last: bool) -> Ask:
    room, wanted = rules.room, rules.shrinking.summary_tokens_max
    request = (user(_REQUEST, mark=PURPOSE),)
    left = None if room is None else left_for_answer(state, room, request, length)
    if room is None or left is None:
        return Ask(length, wanted)
    window = room.window or room.usual or 0
    least = _least(rules, window)
    if left >= least:
        return Ask(length, left if left < (wanted or room.reserve) else wanted)
    if room.window is not None and (not is_last or estimate(state, room, request, length).least > room.window):
        size = room.window - room.window // 64 - left
        return Ask(length, None, is_tight=True, fault=f"it has about {size:,} tokens, and the window {room.window:,}")
    return Ask(length, least if wanted is not None else None, is_tight=True)


def _least(rules: Rules, window: int) -> int:
    """Return how many tokens a summary needs at the least."""
    return min(rules.shrinking.summary_tokens_max or _LEAST_TOKENS, _LEAST_TOKENS, max(1, window // _SMALL))


def summary_of(state: State, rules: Rules, ask: Ask, attempt: int = 1) -> Generator[Effect, Any, Reply]:
    """Ask, and ask again after a failure that may pass, as patiently as for a step; the last failure is raised.

    A process that goes on in the middle of that waits for what is left of the wait, and counts on.
    """
    view = View(state.epoch, state.history, ask.length, (user(_REQUEST, mark=PURPOSE),))
    pending = state.retry if state.in_turn and state.retry is not None and state.retry.purpose else None
    attempt = attempt if pending is None else pending.attempt + 1
    while True:
        if pending is not None:
            yield Wait(max(0, pending.delay_ms - state.waited_ms) / 1000)
        try:
            timeout_s = rules.shrinking.summary_timeout_s
            reply: Reply = yield Think(view, PURPOSE, attempt, ask.output_max, timeout_s, ask.fault)
        except ProviderFailed as failure:
            delay_s = rules.retry.delay_s(failure, attempt)
            if delay_s is None:
                raise
            told = failure.message
            pending = RetryScheduled(attempt, round(delay_s * 1000), failure.kind, told, failure.usage, PURPOSE)
        else:
            return reply
        yield from record(state, pending)
        attempt += 1
