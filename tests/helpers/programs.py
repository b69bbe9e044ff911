"""Random worlds whose every answer follows from the state alone, so that a crash anywhere can be played on from.

A `Program` is data: what the model says in which step, what fails before, what is asked, denied, rewritten, deferred,
injected, replaced. `ProgramWorld` plays it to its end, over as many resumes as it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

from plait.core.errors import ErrorClass
from plait.core.exchange import Reply
from plait.core.facts import Asked, Decided, Fact, ToolEnd
from plait.core.messages import Message, StopReason, ToolCall, ToolResult, assistant, user
from plait.kernel.effects import Allow, Ask, Boundary, Compact, Deny, End, Outcome, Plan, Replace, Stop, Think
from plait.kernel.rules import Guards, Retry, Rules, Shrinking
from plait.kernel.state import State, fold
from tests.helpers.worlds import TASK, World, call, failed, said

Fate = Literal["run", "slow", "deny", "ask-yes", "ask-no", "rewrite", "break", "fail", "defer"]
Event = Literal["steer", "hook", "compact", "replace", "stop", "reply"]

SUSPENDED = ("approval_required", "waiting")


@dataclass(frozen=True)
class Asking:
    """One call a model makes: to which tool, with valid arguments or not, and what becomes of it."""

    tool: str
    fate: Fate
    is_valid: bool = True


@dataclass(frozen=True)
class Saying:
    """One answer of a model, and what fails before it comes."""

    text: str = ""
    calls: tuple[Asking, ...] = ()
    stop: StopReason | None = None
    failures: tuple[ErrorClass, ...] = ()


@dataclass(frozen=True)
class Program:
    """A whole turn: answers in order, what happens at which boundary, and how calls finish together."""

    sayings: tuple[Saying, ...]
    events: tuple[tuple[int, Event], ...] = ()
    together: int = 10
    busy: int = 0
    """So often each request for a summary fails first; with three a list stands in."""
    rules: Rules = field(
        default_factory=lambda: Rules(8, Retry(3, base_s=1), Guards(2, 4, 2), Shrinking(keep_last_units=2, tries_max=2))
    )


class ProgramWorld(World):
    """Plays a program; everything it answers is a function of the state, so it can start anywhere."""

    def __init__(self, program: Program, facts: Sequence[Fact] = ()) -> None:
        self._program = program
        super().__init__(self._think, plans=self._plan, together=program.together, rules=program.rules)
        self.facts = list(facts)
        self._verdicts = _Verdicts(self)
        self._results = _Results(self)

    def to_the_end(self, *inputs: Message) -> End:
        """Play the turn, answer what it asks for from outside, and go on until it ends for good."""
        resume = bool(self.facts)
        for _ in range(50):
            self._answer_from_outside()
            end = self.turn(*inputs, resume=resume).end
            assert end is not None
            if end.reason not in SUSPENDED:
                return end
            inputs, resume = (), True
        raise AssertionError("the turn never ends")

    def fate_of(self, call_id: str) -> Fate:
        """Return what becomes of a call."""
        step, index = call_id[1:].split("c")
        return self._saying(int(step)).calls[int(index)].fate

    def _saying(self, step: int) -> Saying:
        """The answer of a step; the last one is given again and again."""
        return self._program.sayings[min(step, len(self._program.sayings) - 1)]

    def _answer_from_outside(self) -> None:
        """Record the answers that a suspended turn waits for."""
        state = fold(self.facts)
        if state.round is not None and not state.in_turn:
            self.facts += [_answer_to(asked, self.fate_of(asked.call_id)) for asked in state.round.asked.values()]

    def _think(self, state: State, ask: Think) -> Any:
        if ask.purpose == "compaction":
            tried = state.retry.attempt if state.retry is not None and state.retry.purpose else 0
            if tried < self._program.busy:
                return failed("overloaded")
            return said(f"notes {state.epoch}")
        saying = self._saying(state.steps)
        overflows = saying.failures.count("context_overflow")
        transient = [kind for kind in saying.failures if kind != "context_overflow"]
        if state.shrinks < overflows:
            return failed("context_overflow")
        if state.attempts < len(transient):
            return failed(transient[state.attempts])
        return self._reply_of(saying, state.steps)

    def _reply_of(self, saying: Saying, step: int) -> Reply:
        calls = tuple(
            call(asking.tool, f"s{step}c{index}", f'{{"n": {index}, "s": {step}}}' if asking.is_valid else '{"n": ')
            for index, asking in enumerate(saying.calls)
        )
        message = assistant(saying.text, calls)
        return said(message, saying.stop)

    def _plan(self, state: State, at: Boundary) -> Plan:
        plan = Plan()
        for step, event in self._program.events:
            if step == at.step and plan == Plan():
                plan = self._event(event, state, at)
        return plan

    def _event(self, event: Event, state: State, at: Boundary) -> Plan:
        """One thing that happens at a boundary: once, as far as the state can tell."""
        message = user(f"{event} {at.step}", mark=event)
        is_new = message not in state.history
        if event == "steer" and at.phase == "step" and is_new:
            return Plan(inject=(message,))
        if event == "hook" and at.phase == "final" and is_new:
            return Plan(inject=(message,))
        if event == "compact" and state.epoch == 0 and state.since_shrink and not at.shrunk:
            return Plan(compact=Compact())
        if event == "replace" and state.epoch == 0 and at.phase == "step":
            return Plan(replace=Replace(0, 1, (user("the task, shorter"),), "reduce"))
        if event == "stop" and at.phase == "step":
            return Plan(stop=Stop("limit", "as planned"))
        if event == "reply" and at.phase == "step":
            return Plan(final_reply="as planned")
        return Plan()


class _Verdicts(dict[str, Any]):
    """What is said of a call, by its fate."""

    def __init__(self, world: ProgramWorld) -> None:
        super().__init__()
        self._world = world

    def get(self, call_id: str, default: Any = None) -> Any:
        fate = self._world.fate_of(call_id)
        asked = self._world.approvals[-1]
        if fate == "deny":
            return Deny("denied")
        if fate in ("ask-yes", "ask-no"):
            return Ask(f"q-{call_id}")
        if fate == "rewrite":
            return Allow(_rewritten(asked), {"target": call_id})
        if fate == "break":
            return Allow(ToolCall(call_id, asked.name, "[]"))
        return default


class _Results(dict[str, Any]):
    """What a call brings, by its fate."""

    def __init__(self, world: ProgramWorld) -> None:
        super().__init__()
        self._world = world

    def get(self, call_id: str, default: Any = None) -> Any:
        fate = self._world.fate_of(call_id)
        if fate == "fail":
            return Outcome.of(ToolResult(call_id, "it broke", is_error=True))
        if fate == "defer":
            return Outcome(call_id, "deferred", None, f"r-{call_id}")
        return default


def _rewritten(asked: ToolCall) -> ToolCall:
    return ToolCall(asked.id, asked.name, '{"n": 99}')


def _answer_to(asked: Asked, fate: Fate) -> Fact:
    if fate == "defer":
        return ToolEnd(ToolResult(asked.call_id, "came later"))
    return Decided(asked.call_id, fate == "ask-yes", "" if fate == "ask-yes" else "no")


def history_after(facts: Sequence[Fact], program: Program) -> list[Message]:
    """Go on from a prefix of a turn's facts and return the history in the end."""
    world = ProgramWorld(program, facts)
    world.to_the_end(*rest_of_inputs(facts))
    return world.state.history


def rest_of_inputs(facts: Sequence[Fact]) -> tuple[Message, ...]:
    """The inputs that are not in the log: whoever began the turn still has what was never acknowledged."""
    return () if any(getattr(fact, "message", None) == TASK for fact in facts) else (TASK,)


askings = st.builds(
    Asking,
    st.sampled_from(["look", "write", "count", "look", "write", "nope"]),
    st.sampled_from(["run", "run", "run", "deny", "ask-yes", "ask-no", "rewrite", "break", "fail", "defer"]),
    st.sampled_from([True, True, True, False]),
)
_failures = st.lists(st.sampled_from(["overloaded", "timeout", "context_overflow"]), max_size=2).map(tuple)
sayings = st.builds(
    Saying,
    st.sampled_from(["", "words", "more words"]),
    st.lists(askings, max_size=3).map(tuple),
    st.sampled_from([None] * 8 + ["length", "content_filter", "pause", "refusal"]),
    st.sampled_from([()] * 6 + [("auth",)]) | _failures,
)
_events = st.tuples(
    st.integers(1, 4), st.sampled_from(["steer", "steer", "hook", "hook", "compact", "replace", "stop", "reply"])
)
programs = st.builds(
    Program,
    st.lists(sayings, min_size=1, max_size=5).map(tuple),
    # One at a boundary: a host asked again after a crash would otherwise come with the next one early.
    st.lists(_events, max_size=3, unique_by=lambda event: event[0]).map(tuple),
    st.integers(1, 3),
    st.sampled_from([0, 0, 1, 2, 3]),
)
