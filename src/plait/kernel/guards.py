"""Notices when a turn gets nowhere: empty answers, cut answers, the same calls again and again.

Floor: 1. Owns: what counts as no progress, and the words the model is told; never: an effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from plait.core.messages import Message
from plait.kernel.effects import Stop
from plait.kernel.rules import Guards
from plait.kernel.state import State

_EMPTY: Final = "Your last answer was empty. Answer the task in words, or call a tool."
_CUT: Final = "Your last answer was cut off by the output limit. Go on exactly where it stopped, more briefly."
_REPEATED: Final = (
    "The last {count} rounds made the same tool calls and got the same results. "
    "Repeating them will not help: try another way, or say what stands in the way."
)
_PERIODS: Final = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Nudge:
    """Tell the model this, and go on."""

    text: str


def before_step(state: State, guards: Guards) -> Nudge | Stop | None:
    """Look at the rounds so far, before the model is asked again."""
    count = repeats(state.history[state.turn_began :])
    if count >= guards.repeats_max:
        return Stop("loop_guard", f"the same tool calls gave the same results {count} times")
    if count >= guards.repeats_told and count % guards.repeats_told == 0:
        return _nudge(state, guards, _REPEATED.format(count=count), "loop_guard", "the model keeps repeating itself")
    return None


def at_answer(state: State, guards: Guards) -> Nudge | Stop | None:
    """Look at an answer without tool calls, before it ends the turn."""
    if state.last_stop == "content_filter":
        return Stop("content_filter", "the provider's content filter cut the answer off")
    if state.last_stop == "length":
        return _nudge(state, guards, _CUT, "truncated", "the answer was cut off by the output limit again and again")
    if state.last_stop != "refusal" and not state.history[-1].content.strip():
        return _nudge(state, guards, _EMPTY, "loop_guard", "the model gave empty answers")
    return None


def repeats(history: Sequence[Message]) -> int:
    """Return how many rounds in a row, up to the last one, repeat what went before: alone, in twos or in threes."""
    rounds = _rounds(history)
    return max((_repeats_of(rounds, period) for period in _PERIODS), default=0)


def _repeats_of(rounds: Sequence[object], period: int) -> int:
    same = 0
    for index in range(len(rounds) - 1, period - 1, -1):
        if rounds[index] != rounds[index - period]:
            break
        same += 1
    return same // period + 1 if same else 0


def _rounds(history: Sequence[Message]) -> list[tuple[object, ...]]:
    """The trailing rounds of calls, each as what was asked and what came back, ids left out."""
    rounds: list[tuple[object, ...]] = []
    for index in range(len(history) - 1, 0, -1):
        message = history[index]
        if message.role == "tool":
            calls = history[index - 1].tool_calls
            asked = tuple((call.name, call.raw) for call in calls)
            came = tuple((result.content, result.status) for result in message.tool_results)
            rounds.append((asked, came))
        elif message.role != "assistant":
            break
    rounds.reverse()
    return rounds


def _nudge(state: State, guards: Guards, text: str, reason: str, detail: str) -> Nudge | Stop:
    return Nudge(text) if state.nudges < guards.nudges_max else Stop(reason, detail)
