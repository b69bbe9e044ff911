"""A host's own way to make a step shorter, before the next request is made.

Floor: 5. Owns: what a `step_reducer` is given and may return; never: recording it (`turns`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from plait.core.errors import ConfigError
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
        messages: chat-completions messages; nothing takes the step out.
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
    kept = _checked(reduction.messages, reduction.final_reply)
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


def _checked(messages: object, reply: object) -> list[Item]:
    """Return what a host's function returned as messages of our own; its types may be anything."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise ConfigError(
            f"the step_reducer returned {messages!r}", hint="return a list of messages, a StepReduction, or None"
        )
    if reply is not None and not isinstance(reply, str):
        raise ConfigError(f"the step_reducer's final_reply is {reply!r}", hint="it is text, or None")
    kept = [_message(item) for item in messages]
    fault = _fault_in(kept)
    if fault:
        raise ConfigError(
            f"the step_reducer returned a step that no endpoint would take: {fault}",
            hint="return a result behind its call, or neither",
        )
    return kept


def _fault_in(items: Sequence[Item]) -> str:
    """Return what no endpoint would take: a result that is not behind its call. One that is left out is said to be."""
    unanswered: list[object] = []
    for item in items:
        if item["role"] == "assistant":
            unanswered = [call.get("id") for call in item.get("tool_calls") or () if isinstance(call, Mapping)]
        elif item["role"] == "user":
            unanswered = []
        elif (call_id := item.get("tool_call_id")) in unanswered:
            unanswered.remove(call_id)
        else:
            return f"there is a result of {call_id!r} and no call right before it"
    return ""


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
