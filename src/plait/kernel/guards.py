"""Notices when a turn gets nowhere: empty answers, cut answers, the same calls again and again.

Floor: 1. Owns: what counts as no progress, and the words the model is told; never: an effect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from plait.core.messages import Message, ToolCall, ToolResult
from plait.core.values import dataclass
from plait.kernel.deferral import is_mute
from plait.kernel.effects import Stop
from plait.kernel.rounds import CUT_OFF
from plait.kernel.rules import Guards
from plait.kernel.state import State

_EMPTY: Final = "Your last answer was empty. Answer the task in words, or call a tool."
_CUT: Final = "Your last answer was cut off by the output limit. Go on exactly where it stopped, more briefly."
_REPEATED: Final = (
    "The last {count} rounds made the same tool calls and got the same results. "
    "Repeating them will not help: try another way, or say what stands in the way."
)
_CUT_AGAIN: Final = "the answer was cut off by the output limit again"
_CIRCLING: Final = "loop_guard"
_TRUNCATED: Final = "truncated"
_PERIODS: Final = (1, 2, 3)
_COMMENTS: Final = frozenset("label description explanation reason reasoning thought note comment purpose".split())
"""Arguments with which a model says why it calls a tool: a count in one of them makes no other call of it."""
_COMPARED_CHARS_MAX: Final = 4_000


@dataclass(frozen=True, slots=True)
class Nudge:
    """Tell the model this, and go on."""

    text: str


def before_step(state: State, guards: Guards) -> Nudge | Stop | None:
    """Look at the rounds so far, before the model is asked again."""
    if state.history and state.history[-1].marked("guard"):
        return None  # told already, by a process that ended before it could ask
    cut_off = _cut_off_rounds(state.history, state.turn_began)
    if cut_off > guards.tellings_max:
        # Told by the results of its calls, each time.
        return Stop(_TRUNCATED if state.last_stop == "length" else "content_filter", _CUT_AGAIN)
    count = repeats(state.history, state.turn_began)
    if count >= guards.repeats_max:
        return Stop(_CIRCLING, f"the same tool calls gave the same results {count} times")
    if count >= guards.repeats_told and count % guards.repeats_told == 0:
        words = _REPEATED.format(count=count)
        if not _was_said(state.history, words):
            return _nudge(state, guards, words, Stop(_CIRCLING, "the model keeps repeating itself"))
    return None


def _was_said(history: Sequence[Message], words: str) -> bool:
    """Say whether the model was just told that: where it repeats itself in threes, three rounds have the same count."""
    return any(message.marked("guard") and message.content == words for message in history[-2 * _PERIODS[-1] :])


def at_answer(state: State, guards: Guards) -> Nudge | Stop | None:
    """Look at an answer without tool calls, before it ends the turn."""
    if state.last_stop == "content_filter":
        return Stop("content_filter", "the provider's content filter cut the answer off")
    if state.last_stop == "length":
        return _tell(state, guards, _CUT, Stop(_TRUNCATED, _CUT_AGAIN))
    if state.last_stop != "refusal" and not state.history[-1].content.strip():
        return _tell(state, guards, _EMPTY, Stop(_CIRCLING, "the model gave empty answers"))
    return None


def repeats(history: Sequence[Message], begin: int = 0) -> int:
    """Return how many rounds in a row, up to the last one, repeat what went before: alone, in twos or in threes.

    Looks back only as far as the repetition goes, so that a long turn costs no more than a short one.
    """
    source = _rounds_back(history, begin)
    seen = list(islice(source, _PERIODS[-1] + 1))
    asked = [_asked(history[index - 1]) for index in seen]
    told = [_told(history[index]) for index in seen]
    longest = 0
    for period in _PERIODS:
        same = 0
        # Most rounds differ in what they were told; to compare what they asked may take reading it.
        while same + period < len(seen) and told[same] == told[same + period]:
            if not _is_alike(asked[same], asked[same + period]):
                break
            same += 1
            if same + period == len(seen) and (earlier := next(source, None)) is not None:
                seen.append(earlier)
                asked.append(_asked(history[earlier - 1]))
                told.append(_told(history[earlier]))
        longest = max(longest, same // period + 1 if same else 0)
    return longest


def _asked(message: Message) -> list[tuple[str, str]]:
    return [(part.name, part.raw) for part in message.parts if isinstance(part, ToolCall)]


def _is_alike(one: list[tuple[str, str]], other: list[tuple[str, str]]) -> bool:
    """Say whether two rounds made the same calls, but for words beside them that no tool acts on."""
    if one == other or [name for name, _ in one] != [name for name, _ in other]:
        return one == other
    return all(
        mine == theirs or _bare(mine) == _bare(theirs) for (_, mine), (_, theirs) in zip(one, other, strict=True)
    )


def is_same_call(one: ToolCall, other: ToolCall) -> bool:
    """Say whether two calls ask the same of the same tool, but for words beside them that no tool acts on."""
    return one.name == other.name and (one.raw == other.raw or _bare(one.raw) == _bare(other.raw))


def _bare(raw: str) -> object:
    """Return arguments without what only comments on them; long ones as they are."""
    if len(raw) > _COMPARED_CHARS_MAX:
        return raw
    try:
        arguments = json.loads(raw)
    except ValueError:
        return raw
    if not isinstance(arguments, dict):
        return raw
    return {name: value for name, value in arguments.items() if name not in _COMMENTS}


def _told(message: Message) -> list[tuple[str, str]]:
    return [(part.said, part.status) for part in message.parts if isinstance(part, ToolResult)]


def _rounds_back(history: Sequence[Message], begin: int) -> Iterator[int]:
    """Where the results of the trailing rounds stand, the last one first; each round's calls stand before them."""
    index = len(history) - 1
    while index > begin:
        message = history[index]
        if message.role == "tool":
            yield index
            index -= 2
        elif message.marked("guard") or is_mute(message):
            index -= 1
        else:
            return


def _cut_off_rounds(history: Sequence[Message], begin: int) -> int:
    """Return how many rounds in a row, up to the last one, were not run because their answer was cut off."""
    count = 0
    for index in _rounds_back(history, begin):
        if not all(result.said == CUT_OFF for result in history[index].tool_results):
            break
        count += 1
    return count


def _tell(state: State, guards: Guards, text: str, stop: Stop) -> Nudge | Stop:
    """Say something to the model of its last answer, unless it was told so often and has done nothing else since."""
    told = 0
    for index in range(len(state.history) - 2, state.turn_began, -2):
        message, answer = state.history[index], state.history[index - 1]
        if not message.marked("guard") or answer.role != "assistant" or answer.tool_calls:
            break
        told += message.content == text
    return stop if told >= guards.tellings_max else _nudge(state, guards, text, stop)


def _nudge(state: State, guards: Guards, text: str, stop: Stop) -> Nudge | Stop:
    return Nudge(text) if state.nudges < guards.nudges_max else stop
