"""A world for the loop without a world: answers its effects from a script and keeps account of them.

The scripted interpreter plays; a `World` gives it the answers and checks at every request that a provider would take
the history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from plait.core.exchange import ProviderFailed, Reply
from plait.core.facts import Fact
from plait.core.messages import Message, StopReason, ToolCall, ToolResult, assistant, user
from plait.core.usage import Usage
from plait.kernel.effects import (
    NOTHING,
    Act,
    Allow,
    Approve,
    Boundary,
    Effect,
    End,
    Outcome,
    Plan,
    Record,
    Think,
)
from plait.kernel.history import fault_in
from plait.kernel.loop import Loop, turn
from plait.kernel.rules import Rules
from plait.kernel.scripted import Answer, Trace, play
from plait.kernel.state import State, fold
from plait.kernel.tools import Check, Tool, ToolTable

SPENT = Usage(input=10, output=1)
TASK = user("Do the task.")


def needs_number(schema: Mapping[str, object]) -> Check:
    """Compile a schema whose only rule is that a declared `n` is a whole number."""
    wants = "n" in str(schema)

    def check(arguments: Mapping[str, object]) -> str | None:
        return None if not wants or isinstance(arguments.get("n"), int) else "'n' must be a whole number"

    return check


TOOLS = (
    Tool(
        "look", "Look at something.", lambda **_: "", parallel_safe=True, idempotent=True, parameters={"type": "object"}
    ),
    Tool("write", "Change something.", lambda **_: "", mutates=True, parameters={"type": "object"}),
    Tool(
        "count",
        "Count.",
        lambda **_: "",
        parallel_safe=True,
        idempotent=True,
        parameters={"properties": {"n": {"type": "integer"}}},
    ),
)
TABLE = ToolTable(TOOLS, compile=needs_number)


def call(name: str, id: str, raw: str = "{}") -> ToolCall:
    """Make a tool call."""
    return ToolCall(id, name, raw)


def look_at(id: str) -> ToolCall:
    """Make a call that is unlike every other one."""
    return call("look", id, f'{{"at": "{id}"}}')


def said(what: str | ToolCall | Sequence[ToolCall] | Message, stop: StopReason | None = None) -> Reply:
    """Make a whole answer of words, of calls, or of a message."""
    if isinstance(what, str):
        message = assistant(what)
    elif isinstance(what, Message):
        message = what
    else:
        message = assistant(calls=[what] if isinstance(what, ToolCall) else what)
    return Reply(message, stop or ("tool_calls" if message.tool_calls else "end_turn"), SPENT)


def failed(kind: Any = "overloaded", message: str = "no", **more: Any) -> ProviderFailed:
    """Make the failure of one attempt."""
    return ProviderFailed(kind, message, **more)


def texts(history: Sequence[Message]) -> list[str]:
    """Return a history in short: role and words, calls and results by their ids."""
    return [
        f"{message.role}: "
        + (
            message.content
            or ",".join([*(c.id for c in message.tool_calls), *(r.call_id for r in message.tool_results)])
        )
        for message in history
    ]


class World:
    """Answers effects from scripts; what no script says is allowed, succeeds, and goes on.

    Args:
        replies: what `Think` is answered with, in order or by a function; exceptions are thrown in.
        plans: by (step, phase), or a function of the state.
        verdicts: by call id; the rest is allowed.
        results: outcomes by call id; the rest is `did <id>`.
        together: how many outcomes a `Wait` hands over at most.
    """

    def __init__(
        self,
        replies: Sequence[Any] | Callable[[State, Think], Any],
        *,
        plans: Mapping[tuple[int, str], Plan] | Callable[[State, Boundary], Plan] | None = None,
        verdicts: Mapping[str, Any] | None = None,
        results: Mapping[str, Any] | None = None,
        together: int = 10,
        rules: Rules | None = None,
        tools: ToolTable = TABLE,
    ) -> None:
        self.state = State()
        self.facts: list[Fact] = []
        self.rules = rules or Rules()
        self.tools = tools
        self.thinks: list[Think] = []
        self.requests: list[tuple[Message, ...]] = []
        self.boundaries: list[tuple[int, str]] = []
        self.approvals: list[ToolCall] = []
        self.acts: list[Act] = []
        self.waits: list[float | None] = []
        self.ran: Counter[str] = Counter()
        self._replies = replies
        self._plans = plans or {}
        self._verdicts = dict(verdicts or {})
        self._results = dict(results or {})
        self._together = together
        self._running: list[ToolCall] = []
        self._effect: Effect | None = None

    def script(self, replies: Any, *, plans: Any = None) -> World:
        """Go on with other replies and plans, and forget the requests so far."""
        self._replies, self._plans = replies, plans or {}
        self.thinks, self.requests = [], []
        return self

    def turn(self, *inputs: Message, resume: bool = False, answers: Sequence[Answer] | None = None) -> Trace:
        """Play a turn from where the facts so far stand; `answers` overrides the script with a plain list."""
        self.state = fold(self.facts)
        loop = turn(self.state, self.tools, self.rules, inputs, resume=resume)
        trace = play(self._watched(loop), iter(self._answer, None) if answers is None else iter(answers))
        self.facts += trace.facts
        assert_same_state(self.state, fold(self.facts))
        return trace

    def run(self, *inputs: Message) -> End:
        """Play a whole turn and return its end."""
        end = self.turn(*(inputs or (TASK,))).end
        assert end is not None
        return end

    def record(self, *facts: Fact) -> None:
        """Put facts into the log from outside, as an answer to an approval does."""
        self.facts += facts

    def of_type(self, *types: type[Fact]) -> list[Any]:
        """Return the facts of these types."""
        return [fact for fact in self.facts if isinstance(fact, types)]

    def result(self, call_id: str) -> ToolResult:
        """Return the one result that the history has for a call."""
        (found,) = (
            result for message in self.state.history for result in message.tool_results if result.call_id == call_id
        )
        return found

    @property
    def history(self) -> list[str]:
        """The history in short."""
        return texts(self.state.history)

    def _watched(self, loop: Loop) -> Generator[Effect, Any, End]:
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = loop.send(answer) if error is None else loop.throw(error)
            except StopIteration as done:
                end: End = done.value
                return end
            self._see(effect)
            answer = error = None
            try:
                answer = yield effect
            except GeneratorExit:
                loop.close()
                raise
            except Exception as thrown:  # what is thrown in goes to the loop
                error = thrown

    def _see(self, effect: Effect) -> None:
        self._effect = effect
        if isinstance(effect, Act):
            self.acts.append(effect)
            self._running += effect.calls
        elif not isinstance(effect, Record):
            assert self.state.in_turn

    def _answer(self) -> Answer:
        effect = self._effect
        if isinstance(effect, Boundary):
            self.boundaries.append((effect.step, effect.phase))
            if callable(self._plans):
                return self._plans(self.state, effect)
            return self._plans.get((effect.step, effect.phase), NOTHING)
        if isinstance(effect, Think):
            return failed("context_overflow", effect.fault) if effect.fault else self._reply(effect)
        if isinstance(effect, Approve):
            self.approvals.append(effect.call)
            return self._verdicts.get(effect.call.id, Allow(effect.call))
        return self._wait()

    def _reply(self, ask: Think) -> Answer:
        shown = tuple(ask.view.messages)
        assert fault_in(shown) is None, f"a provider would refuse {texts(shown)}"
        assert self.state.round is None
        self.thinks.append(ask)
        self.requests.append(shown)
        if callable(self._replies):
            return self._replies(self.state, ask)
        return self._replies[len(self.thinks) - 1]

    def _wait(self) -> Answer:
        assert self._effect is not None
        if not self._running:
            self.waits.append(self._effect.timeout_s)  # type: ignore[union-attr]
            return ()
        done, self._running = self._running[: self._together], self._running[self._together :]
        return tuple(self._outcome(call) for call in done)

    def _outcome(self, call: ToolCall) -> Outcome:
        self.ran[call.id] += 1
        given = self._results.get(call.id, f"did {call.id}")
        return given if isinstance(given, Outcome) else Outcome.of(ToolResult(call.id, given))


def assert_same_state(one: State, other: State) -> None:
    """Assert that two states agree in everything: what memory holds is what the log says."""
    for name in State.__slots__:
        assert getattr(one, name) == getattr(other, name), name
