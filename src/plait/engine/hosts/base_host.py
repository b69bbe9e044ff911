"""What both hosts have in common: how a turn's policy answers the loop's effects.

Floor: 4. Owns: every decision about a turn that has no colour; never: waiting, or the terms themselves (`stage`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from plait.core.cancel import Cancel
from plait.core.events import Event, Piece
from plait.core.exchange import Reply
from plait.core.facts import Fact, ToolStart
from plait.core.messages import Message, ToolCall
from plait.core.usage import Usage
from plait.engine import limits as budget
from plait.engine.approval import PLAN_DENIED
from plait.engine.calls import Around, keywords
from plait.engine.gates import Gates, Ground
from plait.engine.hosts.draft import Draft
from plait.engine.hosts.plan_mode import PlanMode
from plait.engine.hosts.stage import Stage
from plait.engine.limits import Limits
from plait.kernel.effects import NOTHING, Act, Allow, Ask, Boundary, Compact, Deny, Outcome, Plan, Stop, Think
from plait.kernel.state import State
from plait.kernel.threshold import is_due
from plait.kernel.tools import Tool

if TYPE_CHECKING:
    from plait.engine.hosts.turn_results import TurnResults

GRACE_S: Final = 5.0
"""How long a tool that was told to stop is waited for."""


class BaseHost:
    """State of one turn in progress."""

    def __init__(self, stage: Stage) -> None:
        self.cancel = stage.cancel
        self._state = stage.state
        self._tools = stage.tools
        self._policy = stage.policy
        self._observers = stage.observers
        self._clock = stage.clock
        self._threads = stage.threads
        self._find_out = stage.resolve
        self._is_durable = stage.is_durable
        self._cache = stage.cache
        self._rules = stage.rules
        self._began_s = stage.clock.monotonic_s()
        self._before_s = stage.before_s
        self._draft = Draft(stage.state, stage.observers)
        self._plan = PlanMode(stage.state, stage.tools)
        self._let: set[str] = set()
        """Calls that were let through, where their number has a limit."""
        self._begun_ms: dict[str, int] = {}
        limits = stage.policy.limits
        self._is_limited = budget.has_ceilings(limits)
        self._shaping: TurnResults | None = None
        if limits.max_turn_result_tokens is not None or limits.dedupe_reads:
            from plait.engine.hosts.turn_results import TurnResults  # most turns may show what they like

            self._shaping = TurnResults(stage.state, stage.tools, limits, stage.policy.finishing)

    def needs_barrier(self, calls: Sequence[ToolCall]) -> bool:
        """A start must be durable unless running the call twice is as good as once."""
        return self._policy.is_watched or not all(self._tools.is_repeatable(call) for call in calls)

    def asks(self, call: ToolCall) -> bool:
        """Whoever looks at a call may find it again after a crash: the approver, and every gate."""
        return self._policy.gates is not None or self._asks(call)

    def _asks(self, call: ToolCall) -> bool:
        """The approver is asked about a gated call, and about every call of a plan but one that only answers."""
        policy = self._policy
        if policy.approver is None:
            return False
        tool = self._tool(call)
        return tool.gated or (policy.plan_mode and not tool.ends_turn)

    def partial(self) -> Message | None:
        """Return what the model had said so far, once."""
        return self._draft.partial()

    def publish(self, event: Event) -> None:
        """Tell the observers; an exception of theirs is raised at the next effect."""
        self._observers.publish(event)

    def _note_start(self, act: Act) -> None:
        """Remember when calls were started, where somebody wants to know."""
        if self._policy.on_results is not None and not act.resolve:
            self._begun_ms.update(dict.fromkeys((call.id for call in act.calls), self._clock.now_ms()))

    def _noted(self, outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
        """Return what calls came to as it is recorded: within the turn's limits, with what is noted below it."""
        note = self._policy.on_results
        outcomes = outcomes if self._shaping is None else self._shaping.shaped(outcomes)
        return outcomes if note is None or not outcomes else note(outcomes, self._begun_ms, self._clock.now_ms())

    def _begin_thinking(self, ask: Think) -> Callable[[Sequence[Piece]], None] | None:
        """Forget the last draft; return who takes the fragments, or None when they are not for people."""
        self._observers.raise_fault()
        if ask.purpose != "step":
            return None
        self._draft.begin(ask.attempt)
        return self._draft.take

    def _end_thinking(self, reply: Reply, channel: object, append: Callable[[tuple[Fact, ...]], None]) -> Reply:
        """Take the answer to a step: the draft is over, and what the cache did is recorded before it."""
        self._draft.end()
        reply, facts = self._cache.weigh(reply, channel, self._clock.now_ms())
        if facts:
            append(facts)
        return reply

    def _early_plan(self, at: Boundary) -> Plan:
        """What the turn's own limits say at a boundary, before anybody is asked."""
        self._observers.raise_fault()
        if self._plan.is_denied:
            return Plan(stop=Stop("plan_denied", PLAN_DENIED))
        stop = self._spent(budget.check) if at.phase == "step" else None
        if stop is None and self._policy.gates is not None:
            stop = self._policy.gates.stop()
        return NOTHING if stop is None else Plan(stop=stop)

    def _whole_plan(self, at: Boundary, plan: Plan) -> Plan:
        """Return the plan, or the output type's word, with what tells the model of tools that were loaded."""
        if plan is NOTHING:
            if self._policy.shrinks and self._is_full(at):
                return Plan(compact=Compact())
            wanted = self._policy.wanted
            if wanted is not None:
                plan = wanted.plan(at, self._state, self._policy.limits.max_steps)
        if self._tools.deferral is None:
            return plan
        from plait.engine.loading import announced  # most conversations show all their tools

        return announced(plan, at, self._state.history, self._tools)

    def _is_full(self, at: Boundary) -> bool:
        """Say whether history is to be made shorter now, where the face leaves that to its host."""
        return at.phase == "step" and not at.shrunk and is_due(self._state, self._rules)

    def _spent(self, check: Callable[[State, Limits, float, float], Stop | None]) -> Stop | None:
        """Return the stop that a ceiling calls for, or None."""
        if not self._is_limited:
            return None
        limits = self._policy.limits
        return check(self._state, limits, self._clock.monotonic_s() - self._began_s, self._before_s)

    def _judge(self, call: ToolCall) -> tuple[ToolCall, Tool, Allow | Deny | None]:
        """Judge a call for which nobody has to be asked; no verdict means that the approver has the word."""
        self._observers.raise_fault()
        tool = self._tool(call)
        spent = self._spent(budget.spent)
        if spent is not None:
            # The turn ends at the next boundary; until then nothing more is begun.
            return call, tool, Deny(f"Not run: {spent.detail}.")
        if self._policy.limits.max_tool_calls is not None and not tool.ends_turn:
            why = budget.refusal_of_call(self._state, self._policy.limits, self._let)
            if why is not None:
                return call, tool, Deny(why)
            self._let.add(call.id)
        said = None if self._policy.before_call is None else self._policy.before_call(call, tool)
        if isinstance(said, Deny):
            return call, tool, said
        if said is not None:
            call = said.call
        # A plan is judged whole, so that none of it has run when it is denied.
        return call, tool, None if self._asks(call) else said or Allow(call)

    def _start_of(self, call: ToolCall) -> ToolStart | None:
        round_ = self._state.round
        return None if round_ is None else round_.started.get(call.id)

    def _resolve(self, call: ToolCall, cancel: Cancel) -> Outcome:
        """Find out what became of a call; in any thread."""
        start = self._start_of(call)
        assert start is not None, "the loop asked what became of a call that was never started"
        try:
            return self._find_out(call, start, cancel)
        finally:
            cancel.detach()

    def _keywords(self, tool: Tool, call: ToolCall, cancel: Cancel, start: ToolStart | None) -> dict[str, object]:
        """Return what the tool's function is called with; in any thread."""
        if tool.context_parameter is None:
            return tool.keywords(call.arguments)  # most want nothing else, and every call comes by here
        around = Around(self._state.history, self._tools.schemas)
        return keywords(tool, call, self._policy.finishing, cancel, start, around=around)

    def _leaves_traces(self, verdict: Allow | Deny | Ask) -> bool:
        """Say whether a call that may run now is to be started with an intent."""
        return self._is_durable and isinstance(verdict, Allow) and self._tools.recovery(verdict.call) is not None

    def _with_intent(self, allow: Allow) -> Allow:
        """Return the yes with what will show whether the call took effect; in any thread."""
        call = allow.call
        tool, recovery = self._tool(call), self._tools.recovery(call)
        if allow.intent is not None or recovery is None:
            return allow
        try:
            context = self._policy.finishing.context(call, self.cancel, None)
            return Allow(call, recovery.intend(tool.keywords(call.arguments), context))
        except Exception:  # boundary: whatever is wrong with the call, running it says so in its own words
            return allow

    def _ground(self, gates: Gates) -> Ground:
        policy = self._policy
        return Ground(gates, policy.approver, self._tools, self._state.history, policy.plan_mode)

    def _tool(self, call: ToolCall) -> Tool:
        tool = self._tools.get(call.name)
        assert tool is not None, f"the loop asked about {call.name!r}, which the table does not hold"
        return tool


def spent_on(channel: object) -> Usage | None:
    """Return what an interrupted request had used, from a line that knows; None where it does not."""
    known: Callable[[], Usage | None] | None = getattr(channel, "spent", None)
    return None if known is None else known()
