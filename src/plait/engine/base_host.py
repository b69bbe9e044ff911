"""What both hosts have in common: the turn's policy, the draft of an answer, who watches.

Floor: 4. Owns: everything about a turn that has no colour; never: waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from plait.core.cancel import Cancel
from plait.core.clock import Clock
from plait.core.events import AttemptReset, Event, Piece, StreamEnd
from plait.core.exchange import ProviderFailed, Reply
from plait.core.facts import Fact, ToolStart
from plait.core.messages import Message, Text, ToolCall
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.engine import limits as budget
from plait.engine.approval import PLAN_DENIED, Approver, Planned
from plait.engine.cache_watch import CacheWatch
from plait.engine.calls import Around, Finishing, keywords
from plait.engine.gates import Gates, Ground
from plait.engine.limits import Limits
from plait.engine.observers import Observers
from plait.engine.threads import Threads
from plait.kernel.effects import (
    NOTHING,
    Act,
    Allow,
    Ask,
    Boundary,
    Compact,
    Deny,
    Interrupted,
    Outcome,
    Plan,
    Stop,
    Think,
)
from plait.kernel.rules import Rules
from plait.kernel.state import State
from plait.kernel.threshold import is_due
from plait.kernel.tools import Tool, ToolTable

if TYPE_CHECKING:
    from plait.engine.structured import Wanted
    from plait.engine.turn_results import TurnResults

GRACE_S: Final = 5.0
"""How long a tool that was told to stop is waited for."""
_LATE: Final = "late"
"""Why a request was stopped that had a deadline of its own."""

Noting = Callable[[tuple[Outcome, ...], Mapping[str, int], int], tuple[Outcome, ...]]
"""Looks at calls that have ended, in the turn's thread, before their results are recorded, and may note something below
what they say. It gets when each was started, and when they ended: milliseconds since 1970. It is quick and does not
raise."""

Resolve = Callable[[ToolCall, ToolStart, Cancel], Outcome]
"""Finds out what became of a call that an earlier process started; `ToolStart` is what it recorded before.

Sync, and may take as long as what still runs; given the cancel signal it stops that. It does not raise.
"""

BoundaryHook = Callable[[Boundary], Any]
"""Asked at every boundary; returns a `Plan`, or None for nothing. May be a coroutine in an async host."""


@dataclass(frozen=True)
class Policy:
    """How a conversation's turns are run; the same for both colours."""

    approver: Approver | None = None
    """None: every call that the table holds may run."""
    limits: Limits = field(default_factory=Limits)
    finishing: Finishing = field(default_factory=Finishing)
    plan_mode: bool = False
    """One decision for all calls of a message, through the approver's `approve_plan`."""
    on_boundary: BoundaryHook | None = None
    on_results: Noting | None = None
    before_call: Callable[[ToolCall, Tool], Allow | Deny | None] | None = None
    """Judges a call before the approver does; None leaves it to the approver."""
    gates: Gates | None = None
    """Have a word before and after calls, and at the end: hooks."""
    wanted: Wanted | None = None
    """What the turn's answer has to be, where it is more than text."""
    shrinks: bool = False
    """History is summarised when it has grown large, as the rules say; False: `on_boundary` decides that."""
    is_watched: bool = False
    """Somebody is to know of every call before it runs, so that each start is made durable."""


@dataclass(frozen=True)
class Stage:
    """What one turn is played on."""

    state: State
    tools: ToolTable
    policy: Policy
    observers: Observers
    cancel: Cancel
    clock: Clock
    threads: Threads
    resolve: Resolve
    cache: CacheWatch
    is_durable: bool = False
    """Facts outlive the process, so that calls are started with what will show whether they took effect."""
    rules: Rules = field(default_factory=Rules)
    """What the loop goes by."""
    before_s: float = 0.0
    """Seconds that the conversation's turns took before this one."""


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
        self._draft: list[Piece] = []
        self._shown = 0
        self._planned: tuple[int, bool] | None = None
        self._let: set[str] = set()
        """Calls that were let through, where their number has a limit."""
        self._begun_ms: dict[str, int] = {}
        limits = stage.policy.limits
        self._is_limited = budget.has_ceilings(limits)
        self._shaping: TurnResults | None = None
        if limits.max_turn_result_tokens is not None or limits.dedupe_reads:
            from plait.engine.turn_results import TurnResults  # most turns may show what they like

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
        text = "".join(text for kind, text in self._draft if kind == "content")
        self._draft.clear()
        return Message("assistant", (Text(text),)) if text else None

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
        if self._shown:
            self.publish(AttemptReset(self._state.steps + 1, ask.attempt, self._shown))
        self._draft.clear()
        self._shown = 0
        return self._emit

    def _end_thinking(self, reply: Reply, channel: object, append: Callable[[tuple[Fact, ...]], None]) -> Reply:
        """Take the answer to a step: the draft is over, and what the cache did is recorded before it."""
        self._draft.clear()
        self._shown = 0
        self.publish(StreamEnd(self._state.steps + 1))
        reply, facts = self._cache.weigh(reply, channel, self._clock.now_ms())
        if facts:
            append(facts)
        return reply

    def _emit(self, pieces: Sequence[Piece]) -> None:
        self._draft.extend(pieces)
        self._shown += len(pieces)
        if self._observers.wants_deltas:
            self._observers.publish_pieces(pieces, self._state.steps + 1)

    def _early_plan(self, at: Boundary) -> Plan:
        """What the turn's own limits say at a boundary, before anybody is asked."""
        self._observers.raise_fault()
        if self._planned is not None and not self._planned[1]:
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

    @contextmanager
    def _deadline(self, timeout_s: float) -> Iterator[Cancel]:
        """Yield what stops a request that has a deadline of its own: past that it has failed."""
        cancel = self.cancel.child()
        timer = threading.Timer(min(timeout_s, threading.TIMEOUT_MAX), cancel.cancel, (_LATE,))
        timer.daemon = True
        timer.start()
        try:
            yield cancel
        except Interrupted as interrupt:
            if cancel.reason != _LATE or self.cancel.reason is not None:
                raise
            told = f"no answer within {timeout_s:g} seconds"
            raise ProviderFailed("timeout", told, usage=interrupt.usage, retryable=False) from None
        finally:
            timer.cancel()
            cancel.detach()

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

    def _plan_verdict(self, call: ToolCall) -> Allow | Deny | None:
        """Answer for one call of a plan that was judged; None while it was not."""
        round_ = self._state.round
        if self._planned is None or round_ is None or self._planned[0] != round_.of:
            return None
        return Allow(call) if self._planned[1] else Deny(PLAN_DENIED)

    def _plan(self) -> Planned:
        """Return all calls of the open round that are known."""
        round_ = self._state.round
        assert round_ is not None, "the loop asked about a call outside of a round"
        return [(each, tool) for each in round_.calls if (tool := self._tools.get(each.name)) is not None]

    def _keep_plan(self, call: ToolCall, said: bool) -> Allow | Deny:
        """Remember how the plan was judged, and answer for one of its calls."""
        assert self._state.round is not None
        self._planned = (self._state.round.of, said)
        return Allow(call) if said else Deny(PLAN_DENIED)

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


def rules_of(limits: Limits, base: Rules, seed: int) -> Rules:
    """Return the loop's rules with this conversation's ceiling of steps and jitter."""
    return Rules(limits.max_steps, base.retry.of(seed), base.guards, base.shrinking, token_counter=base.token_counter)
