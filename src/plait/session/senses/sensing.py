"""The senses of one session: what its model is told beside questions and results.

Floor: 5. Owns: when something is told, and that it is recorded with the message that carries it; never: how it is found
out (`context`), or the standing words in the prompt (`prompt`).

Everything here goes to the end of the conversation and stays there as it was sent: into the question, or below a
result. So a resume, or a replay, sends the same bytes, and no request is another one because time went on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from plait.context.machine import Where, clock_line, system_lines, user_lines
from plait.context.senses import Senses, reminder, session_time, token_usage, tool_time
from plait.core.asides import ENVIRONMENT
from plait.core.clock import Clock
from plait.core.facts import SENSED, TOKEN_BUDGET, Fact, MessageAdded, Observation, ToolEnd, ToolStart
from plait.core.messages import Message, ToolCall, ToolResult
from plait.core.values import dataclass
from plait.kernel.effects import Outcome
from plait.kernel.state import State
from plait.kernel.tools import ToolTable
from plait.session.hooks.scratch import Scratch

if TYPE_CHECKING:
    from plait.context.ground import Ground
    from plait.session.live import Live

_HEAD: Final = ENVIRONMENT
_TAIL: Final = "</environment>"


@dataclass(frozen=True, slots=True)
class Before:
    """What of a session's past counts for what is told of time."""

    began_ms: int
    asked_ms: int | None = None
    """When the last question was put."""
    tool_ms: int | None = None
    """How long the last call ran."""

    @classmethod
    def of(cls, began_ms: int, facts: Sequence[Fact], times_ms: Sequence[int]) -> Before:
        """Find it in what was recorded."""
        asked_ms = tool_ms = None
        ended: tuple[str, int] | None = None
        for fact, at_ms in zip(reversed(facts), reversed(times_ms), strict=False):
            if asked_ms is None and isinstance(fact, MessageAdded) and _is_question(fact.message):
                asked_ms = at_ms
            if ended is None and isinstance(fact, ToolEnd):
                ended = (fact.result.call_id, at_ms)
            elif tool_ms is None and ended is not None and isinstance(fact, ToolStart) and fact.call_id == ended[0]:
                tool_ms = ended[1] - at_ms
            if asked_ms is not None and tool_ms is not None:
                break
        return cls(began_ms, asked_ms, tool_ms)


class Sensing:
    """Tells the model of one session what its senses say. One turn at a time, in the turn's thread."""

    def __init__(
        self, senses: Senses, where: Where, before: Before, clock: Clock, state: Callable[[], tuple[State, ToolTable]]
    ) -> None:
        """Know where and since when a session runs; nothing is looked at before its first turn.

        Args:
            state: returns the conversation as it stands, and its tools.
        """
        self.senses = senses
        self.scratch = Scratch()
        self._where = where
        self._clock = clock
        self._state = state
        self._began_ms = before.began_ms
        self._asked_ms = before.asked_ms
        self._tool_ms = before.tool_ms
        self._ground = _ground(where.cwd) if senses.change else None
        self._has_asked = False
        self._counted: tuple[int, int] | None = None
        self._counts = 0
        self._is_low: bool | None = None

    def beside_question(self) -> tuple[list[str], Observation | None]:
        """Return what goes with the next question, and what is recorded of it."""
        texts = self._environment()
        told: dict[str, object] = {}
        now_ms = self._clock.now_ms()
        if self.senses.time:
            elapsed_s = max(0, now_ms - self._began_ms) / 1_000
            since_s = None if self._asked_ms is None else (now_ms - self._asked_ms) / 1_000
            tool_s = None if self._tool_ms is None else self._tool_ms / 1_000
            texts.append(session_time(elapsed_s, tool_s, since_s))
            told["session_time"] = {
                "elapsed_seconds": elapsed_s,
                "last_tool_ms": self._tool_ms,
                "since_previous_message_seconds": since_s,
            }
        self._asked_ms = now_ms
        moved = None if self._ground is None else self._ground.moved()
        if moved is not None:
            texts.append(moved.note())
            told["ground_moved"] = {"git_changed": moved.is_git_changed, "files": list(moved.files)}
        return texts, Observation(SENSED, told) if told else None

    def after_turn(self) -> None:
        """Take in what the turn itself has changed."""
        if self._ground is not None:
            self._ground.settle()

    def note_results(
        self, outcomes: tuple[Outcome, ...], begun_ms: Mapping[str, int], now_ms: int
    ) -> tuple[Outcome, ...]:
        """Look at calls that have ended and note below their results what there is to tell; see `engine.Noting`."""
        return tuple(self._noted(outcome, begun_ms.get(outcome.call_id), now_ms) for outcome in outcomes)

    def _see(self, call: ToolCall, result: ToolResult) -> None:
        """Take in what one call has read and changed."""
        if self._ground is None:
            return
        tool = self._state()[1].get(call.name)
        data = result.data or {}
        files = data.get("files")
        if isinstance(files, (list, tuple)):
            self._ground.touched(str(path) for path in files)
        elif tool is not None and "sha256" in data and call.is_valid:
            self._ground.touched([str(tool.keywords(call.arguments).get("path", ""))])
        elif tool is None or tool.mutates or tool.runs_code:
            self._ground.ran()

    def _noted(self, outcome: Outcome, began_ms: int | None, now_ms: int) -> Outcome:
        result, round_ = outcome.result, self._state()[0].round
        call = None if round_ is None else next((each for each in round_.calls if each.id == outcome.call_id), None)
        if result is None or round_ is None or call is None:
            return outcome  # a program's own call is no part of the conversation
        self._see(round_.as_started(call), result)
        if began_ms is not None:
            self._tool_ms = now_ms - began_ms
            if self.senses.stamps_results:
                result = result.noted(tool_time(began_ms, now_ms))
        if self.senses.token:
            result = self._counted_below(result)
        return outcome if result is outcome.result else replace(outcome, result=result)

    def _counted_below(self, result: ToolResult) -> ToolResult:
        """Return a result with a count of the tokens below it: once for an answer, where one is due."""
        state, senses = self._state()[0], self.senses
        usage, round_ = state.last_usage, state.round
        if round_ is None or usage is None or usage.input is None or "input" in usage.estimated:
            return result
        place = (state.epoch, round_.of)
        if place == self._counted:
            return result
        self._counted, self._counts = place, self._counts + 1
        used, budget = usage.input, senses.budget_tokens
        was_low = _was_low(state.history) if self._is_low is None else self._is_low
        self._is_low = budget - used < senses.reminder_tokens
        is_new = self._is_low and not was_low
        if not is_new and self._counts % senses.update_every:
            return result
        lines = [token_usage(used, budget), *([reminder(budget - used)] if is_new else [])]
        told = {
            "used": used,
            "budget": budget,
            "remaining": budget - used,
            "below_reminder_threshold": self._is_low,
        }
        return result.noted("\n".join(lines), **{TOKEN_BUDGET: told})

    def _environment(self) -> list[str]:
        """Return where the session is, unless its history says so; of one that was opened again, what is new of it."""
        senses, is_first = self.senses, not self._has_asked
        self._has_asked = True
        # Looked for each time: a question may have been lost, emptied away, or summarised.
        if any(_HEAD in message.content for message in self._state()[0].history if message.role == "user"):
            lines = self._again() if is_first and senses.system else []
        else:
            lines = system_lines(self._placed(), self._clock.now_ms()) if senses.system else []
            lines += user_lines(os.environ) if senses.user else []
            lines += _git(self._where.cwd) if senses.git else []
        # Its end cannot be forged by a name in it.
        text = "\n".join(lines).replace(_TAIL, "<\\/environment>")
        return [f"{_HEAD}\n{text}\n{_TAIL}"] if lines else []

    def _again(self) -> list[str]:
        scratchpad = self._placed().scratchpad
        return ["The session was opened again.", *clock_line(self._clock.now_ms(), scratchpad)]

    def _placed(self) -> Where:
        return replace(self._where, scratchpad=self.scratch.folder() or "")


def _ground(cwd: str) -> Ground:
    from plait.context.ground import Ground  # a session without this sense needs none of it

    return Ground(cwd)


def _git(cwd: str) -> list[str]:
    from plait.context.git_lines import git_lines  # nor of this

    return git_lines(cwd)


def _is_question(message: Message) -> bool:
    return message.role == "user" and not message.marked("guard") and not message.marked("hook")


def _was_low(history: Sequence[Message]) -> bool:
    """Say whether the last count that a history holds was below the threshold."""
    for message in reversed(history):
        for result in reversed(message.tool_results):
            told = None if result.data is None else result.data.get(TOKEN_BUDGET)
            if isinstance(told, Mapping):
                return told.get("below_reminder_threshold") is True
    return False


def with_senses(live: Live, more: str) -> str:
    """Return what goes with a question: what the senses say, then what others have to say.

    Durability: recorded with the question.
    """
    if live.sensing is None:
        return more
    texts, told = live.sensing.beside_question()
    if told is not None:
        live.conversation.note(told)
    return "\n\n".join(filter(None, (*texts, more)))


@contextmanager
def settled(live: Live) -> Iterator[None]:
    """Hold a turn; what it has changed is its own, however it ends."""
    try:
        yield
    finally:
        if live.sensing is not None:
            live.sensing.after_turn()
