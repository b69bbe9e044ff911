"""A host's own way to make a step shorter, before the next request is made.

Floor: 5. Owns: what a `step_reducer` is given and may return; never: recording it (`turns`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final, Protocol

from plait.core.errors import ConfigError
from plait.core.values import dataclass
from plait.events.named import StepReduced

if TYPE_CHECKING:
    from plait.session.session import Session

Item = dict[str, Any]
STEP_REDUCER: Final = "step_reducer"
"""Why a step was replaced."""
_GO_ON: Final = "Go on."
_ROLES: Final = frozenset({"user", "assistant", "tool"})


@dataclass(frozen=True, slots=True)
class StepReduction:
    """What takes the place of a step.

    Args:
        messages: chat-completions messages, with all results of the calls in them; none only with a `final_reply`.
        final_reply: ends the turn, as if the model had answered this.
    """

    messages: Sequence[Mapping[str, Any]] = ()
    final_reply: str | None = None


class StepReducer(Protocol):
    """Looks at each step when its calls have ended, and may put something shorter in its place."""

    def __call__(
        self, session: Session, step: list[Item], *, client: object, model: str
    ) -> StepReduction | Sequence[Mapping[str, Any]] | None:
        """Return what takes the place of a step; None leaves it as it is.

        It runs in the turn's thread, before the next request. After a crash it may see a step once more.

        Args:
            session: the session, in the middle of its turn.
            step: copies of the answer with its calls, and of their results.
            client, model: those of the turn, for a request of its own.
        """


@dataclass(frozen=True, slots=True)
class Reduced:
    """A step that is shorter now."""

    start: int
    """Where it begins in the list."""
    items: list[Item]
    final_reply: str | None
    told: StepReduced


def reduce_step(reducer: StepReducer, session: Session, client: object, model: str) -> Reduced | None:
    """Ask a reducer about the step that the session's list ends with; None when there is none, or it stays.

    Raises:
        ConfigError: what it returned is no step. Whatever the reducer raises.
    """
    start = _start_of_step(session["messages"])
    if start is None:
        return None
    said = reducer(session, [dict(item) for item in session["messages"][start:]], client=client, model=model)
    items: list[Item] = session["messages"]
    if said is None or start != _start_of_step(items):
        return None  # or it has changed the list itself
    reduction = said if isinstance(said, StepReduction) else StepReduction(said)
    before = {call.get("id") for item in items[:start] for call in item.get("tool_calls") or ()}
    kept = _checked(reduction.messages, reduction.final_reply, before)
    told = StepReduced(len(items) - start, len(kept), _chars(items[start:]), _chars(kept), reduction.final_reply)
    if reduction.final_reply is None and _ends_answered(items, start, kept):
        # Else what the reducer wrote would pass for the model's own last word.
        kept.append({"role": "user", "content": _GO_ON})
    return Reduced(start, kept, reduction.final_reply, told)


def _ends_answered(items: Sequence[Item], start: int, kept: Sequence[Item]) -> bool:
    last = kept[-1] if kept else items[start - 1] if start else {}
    return last.get("role") == "assistant" and not last.get("tool_calls")


def _start_of_step(items: Sequence[Item]) -> int | None:
    """Return where the last step begins; None where the list does not end with a call's results."""
    start = len(items)
    while start and items[start - 1].get("role") == "tool":
        start -= 1
    has_calls = 0 < start < len(items) and items[start - 1].get("tool_calls")
    return start - 1 if has_calls else None


def _checked(messages: object, reply: object, taken: Set[object]) -> list[Item]:
    """Return what a host's function returned as messages of our own; its types may be anything."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise ConfigError(
            f"the step_reducer returned {messages!r}", hint="return a list of messages, a StepReduction, or None"
        )
    if reply is not None and not isinstance(reply, str):
        raise ConfigError(f"the step_reducer's final_reply is {reply!r}", hint="it is text, or None")
    kept = [_message(item) for item in messages]
    fault = (
        _fault_in(kept, taken) if kept or reply is not None else "it is empty, and the model would do the step again"
    )
    if fault:
        raise ConfigError(
            f"the step_reducer returned a step that no endpoint would take: {fault}",
            hint="return calls with all of their results behind them, in order, or neither; None leaves the step alone",
        )
    return kept


def _fault_in(items: Sequence[Item], taken: Set[object]) -> str:
    """Return what no endpoint would take, or nothing: each call has one result, right behind it, in the calls' order.

    Args:
        taken: ids of calls before the step.
    """
    known, waiting = set(taken), list[object]()
    for number, item in enumerate(items, 1):
        if item["role"] == "tool":
            call_id = item.get("tool_call_id")
            if not waiting or call_id not in waiting:
                return f"message {number} is a result of {call_id!r} and no call right before it"
            if call_id != waiting.pop(0):
                return f"message {number} is the result of {call_id!r}, before those of earlier calls"
            continue
        if waiting:
            return f"message {number} stands between the calls {_listed(waiting)} and their results"
        calls, fault = _calls_of(item)
        if fault:
            return f"message {number} {fault}"
        ids = [call["id"] for call in calls]
        if again := [call_id for at, call_id in enumerate(ids) if call_id in known or call_id in ids[:at]]:
            return f"message {number} has a call {again[0]!r}, as another message or call has"
        if not calls and not _says_something(item.get("content")):
            return f"message {number} is empty"
        known.update(ids)
        waiting = ids
    return f"the calls {_listed(waiting)} have no results" if waiting else ""


def _calls_of(item: Item) -> tuple[list[Mapping[str, Any]], str]:
    """Return the calls of a message, and what is wrong with them."""
    calls = item.get("tool_calls")
    if calls is None:
        return [], ""
    if item["role"] != "assistant" or not isinstance(calls, list):
        return [], "has tool calls that are none"
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not name:
            return [], f"has a call {call!r}, which names no tool"
        if not isinstance(call.get("id"), str) or not call["id"]:
            return [], f"has a call of {name!r} without an id"
    return calls, ""


def _says_something(content: object) -> bool:
    return bool(content.strip()) if isinstance(content, str) else bool(content)


def _listed(ids: Sequence[object]) -> str:
    return ", ".join(map(repr, ids))


def _message(item: object) -> Item:
    if not isinstance(item, Mapping) or item.get("role") not in _ROLES:
        raise ConfigError(
            f"the step_reducer returned a message {item!r}", hint="each is a dict with a role: user, assistant or tool"
        )
    return dict(item)


def _chars(items: Sequence[Mapping[str, Any]]) -> int:
    """Return how much text messages hold."""
    total = 0
    for item in items:
        content = item.get("content")
        total += len(content) if isinstance(content, str) else len(str(content or ""))
        for call in item.get("tool_calls") or ():
            function = call.get("function") or {}
            total += len(str(function.get("name", ""))) + len(str(function.get("arguments", "")))
    return total
