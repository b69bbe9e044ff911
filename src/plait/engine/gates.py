"""Where somebody else has a word in a turn: before a call, after it, before a summary, at the end.

Floor: 4. Owns: the seam that hooks hang on, and the order of their word and the approver's; never: a hook.

Everything here is sync and may block: a sync host calls it in place, an async one in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Protocol

from plait.core.cancel import Cancel
from plait.core.messages import Message, ToolCall, ToolResult
from plait.core.values import dataclass
from plait.engine.approval import Approver, Verdict
from plait.kernel.effects import NOTHING, Allow, Ask, Deny, Plan, Stop, Think
from plait.kernel.tools import Tool, ToolTable

NOBODY: Final = "ERROR: tool call denied: a hook wants the user to be asked, and there is nobody to ask{reason}"
_CHANGED: Final = "ERROR: tool call denied: a hook changed it, and a changed call cannot wait for an outside answer."


@dataclass(frozen=True, slots=True)
class Gate:
    """What is said of a call before anybody else is asked."""

    call: ToolCall
    """The call, with other arguments where they were changed."""
    word: Literal["allow", "deny", "ask"] | None = None
    """`ask`: somebody is asked, whatever the tool is. `allow`: nobody is."""
    reason: str = ""
    refusal: str = ""
    """What the model is told of a no to what is asked, before the words of whoever said it."""


class Gates(Protocol):
    """Has a word in one turn; every method but `stop` and `tell` may block until `cancel` is given."""

    def before(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Gate:
        """Judge a call before the approver does."""
        ...

    def permission(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Allow | Deny | None:
        """Answer in place of somebody who is about to be asked; None leaves it to them."""
        ...

    def after(self, call: ToolCall, tool: Tool, result: ToolResult, cancel: Cancel) -> ToolResult:
        """Look at what a call that ran came to, and return what the model gets; in any thread."""
        ...

    def before_think(self, ask: Think, cancel: Cancel) -> None:
        """Hear of a request before it is made; raise `Interrupted` where it may not be."""
        ...

    def at_end(self, cancel: Cancel) -> Plan:
        """Say what is to happen when the model has answered and the turn would end."""
        ...

    def stop(self) -> Stop | None:
        """Return the end of the turn that somebody wanted meanwhile."""
        ...

    def tell(self) -> None:
        """Tell the observers what there is to tell; in the turn's own thread."""
        ...


class GatesBefore(Gates):
    """Stands before other gates: what it has nothing to say of is theirs to say, or nobody's."""

    def __init__(self, inner: Gates | None) -> None:
        self._inner = inner

    def before(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Gate:
        """Let the others judge a call."""
        return Gate(call) if self._inner is None else self._inner.before(call, tool, cancel)

    def permission(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Allow | Deny | None:
        """Let the others answer, or whoever is about to be asked."""
        return None if self._inner is None else self._inner.permission(call, tool, cancel)

    def after(self, call: ToolCall, tool: Tool, result: ToolResult, cancel: Cancel) -> ToolResult:
        """Let the others look at a result."""
        return result if self._inner is None else self._inner.after(call, tool, result, cancel)

    def before_think(self, ask: Think, cancel: Cancel) -> None:
        """Let the others hear of a request."""
        if self._inner is not None:
            self._inner.before_think(ask, cancel)

    def at_end(self, cancel: Cancel) -> Plan:
        """Let the others say what follows an answer."""
        return NOTHING if self._inner is None else self._inner.at_end(cancel)

    def stop(self) -> Stop | None:
        """Return the end that the others want."""
        return None if self._inner is None else self._inner.stop()

    def tell(self) -> None:
        """Let the others tell what they have to tell."""
        if self._inner is not None:
            self._inner.tell()


@dataclass(frozen=True, slots=True)
class Blocking:
    """Something to be done that may block, in a thread where that matters; its answer is what it returns."""

    work: Callable[[Cancel], Any]


@dataclass(frozen=True, slots=True)
class Question:
    """The approver is to be asked; its answer is a verdict."""

    call: ToolCall
    tool: Tool
    insists: str | None = None
    """A person is to be asked, and why; None is an ordinary question."""


Step = Blocking | Question


@dataclass(frozen=True, slots=True)
class Ground:
    """What judging needs to know of the turn."""

    gates: Gates
    approver: Approver | None
    tools: ToolTable
    history: Sequence[Message]
    is_plan: bool
    """All calls of a message are judged at once, by the approver."""


def judged(ground: Ground, call: ToolCall, tool: Tool, *, is_asked: bool) -> Generator[Step, Any, Verdict]:
    """Judge one call: the gate first, then whoever answers for the approver, then the approver.

    Args:
        is_asked: the approver is to be asked unless the gate has a word for it.
    """
    gate: Gate = yield Blocking(lambda cancel: ground.gates.before(call, tool, cancel))
    if gate.word == "deny":
        return Deny(gate.reason)
    is_changed = gate.call.raw != call.raw
    problem = ground.tools.check(gate.call, ground.history) if is_changed else None
    if problem is not None:
        return Deny(f"ERROR: tool call denied: what a hook made of it cannot run. {problem.content}")
    if gate.word != "ask" and (not is_asked or (gate.word == "allow" and not ground.is_plan)):
        return Allow(gate.call)
    approver = ground.approver
    if approver is None:
        return Deny(gate.refusal or NOBODY.format(reason=f": {gate.reason}" if gate.reason else "."))
    insists = gate.reason if gate.word == "ask" else None
    if insists is not None or would_ask(approver, gate.call, tool):
        said: Allow | Deny | None = yield Blocking(lambda cancel: ground.gates.permission(gate.call, tool, cancel))
        if isinstance(said, Deny) or (said is not None and not ground.is_plan):
            return said
    verdict: Verdict = yield Question(gate.call, tool, insists)
    if isinstance(verdict, Deny) and gate.refusal:
        return Deny(f"{gate.refusal} {verdict.reason}")
    return Deny(_CHANGED) if is_changed and isinstance(verdict, Ask) else verdict


def would_ask(approver: Approver, call: ToolCall, tool: Tool) -> bool:
    """Say whether an approver would ask somebody; one that does not say so is believed to."""
    knows = getattr(approver, "would_ask", None)
    return knows is None or knows(call, tool) is True


def question_to(approver: Approver, insists: str | None) -> Callable[[ToolCall, Tool], Any]:
    """Return how an approver is asked: by its `approve_asked(call, tool, why)`, where a person has to be; one that has
    no such method finds the reason below what the tool says of itself."""
    own = None if insists is None else getattr(approver, "approve_asked", None)
    if own is None and insists:
        why = f"You are asked because of {insists}"
        return lambda call, tool: approver.approve(call, replace(tool, description=f"{tool.description}\n\n{why}"))
    if own is None:
        return approver.approve  # it need not look for a person
    return lambda call, tool: own(call, tool, insists)


def looked_over(gates: Gates, call: ToolCall, tool: Tool, result: ToolResult, cancel: Cancel) -> ToolResult:
    """Return the result of a call that ran as the gates let it through; what never ran is nobody's to judge."""
    if result.status not in ("ok", "error"):
        return result
    said = gates.after(call, tool, result, cancel)
    return said if said.call_id == call.id else replace(said, call_id=call.id)
