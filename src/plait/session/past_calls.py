"""What became of the calls of kept sessions, and what a set of rules would have made of them.

Floor: 5. Owns: reading calls out of journals, and telling which of them a rule set would flip; never: a rule's meaning
(`engine.permissions`). Nothing but journals is read, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from plait.core.facts import Fact, MessageAdded, Observation, ToolEnd, ToolStart
from plait.core.messages import ToolCall
from plait.core.side_calls import side_call_of
from plait.core.values import dataclass
from plait.engine.permissions.rule import Rule
from plait.engine.permissions.ruling import Permissions
from plait.engine.permissions.subject import subject_of
from plait.kernel.tools import Tool
from plait.store.layout import SessionFolder
from plait.store.opening import load_journal

Became = Literal["ran", "denied"]
Would = Literal["run", "asked", "denied"]


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call that ran, or was denied."""

    call: ToolCall
    """As it ran: with the arguments that a hook gave it."""
    became: Became


@dataclass(frozen=True, slots=True)
class Flip:
    """A call that rules would have treated in another way."""

    session: str
    past: PastCall
    would: Would
    why: str
    """The deciding rule with its place, or the doubt that decided."""
    rule: str | None

    def to_dict(self) -> dict[str, object]:
        """Return `{session, call_id, tool, arguments, was, would, rule, why}`."""
        call = self.past.call.to_dict()
        return {
            "session": self.session,
            "call_id": call["id"],
            "tool": call["name"],
            "arguments": call["arguments"],
            "was": self.past.became,
            "would": self.would,
            "rule": self.rule,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Tried:
    """What a set of rules would have made of one session."""

    calls: int
    """Calls that ran or were denied."""
    flips: Sequence[Flip]


def try_rules(place: SessionFolder, rules: Sequence[Rule]) -> Tried:
    """Judge every call of a session as rules would have; paths lead where they lead now, from the session's folder.

    Raises:
        JournalError: the journal cannot be read.
    """
    facts = load_journal(place.journal).facts
    past = past_calls(facts)
    permissions = Permissions(tuple(rules), _root(facts))
    name = place.path.name
    return Tried(len(past), [flip for each in past if (flip := _flip(name, each, permissions)) is not None])


def past_calls(facts: Iterable[Fact]) -> list[PastCall]:
    """Return the calls of a session that ran or were denied, in the order of their ends; those without an end too."""
    asked: dict[str, ToolCall] = {}
    started: set[str] = set()
    found: list[PastCall] = []
    for call, fact in _told(facts):
        if isinstance(fact, ToolStart):
            asked[call.id] = call if fact.arguments is None else replace(call, raw=fact.arguments)
            started.add(call.id)
            continue
        # An id may come again in a later answer: this is the end of the call that had it last.
        has_run, last = call.id in started, asked.pop(call.id, call)
        started.discard(call.id)
        if fact.result.status == "denied":
            found.append(PastCall(last, "denied"))
        elif has_run:
            found.append(PastCall(last, "ran"))
    return [*found, *(PastCall(asked[each], "ran") for each in asked if each in started)]


def _told(facts: Iterable[Fact]) -> Iterator[tuple[ToolCall, ToolStart | ToolEnd]]:
    """Yield what is told of calls, each with the call as the model, or a program, has asked for it."""
    calls: dict[str, ToolCall] = {}
    for fact in facts:
        if isinstance(fact, MessageAdded):
            calls.update((call.id, call) for call in fact.message.tool_calls)
        elif isinstance(fact, ToolStart) and fact.call_id in calls:
            yield calls[fact.call_id], fact
        elif isinstance(fact, ToolEnd) and fact.result.call_id in calls:
            yield calls[fact.result.call_id], fact
        elif isinstance(fact, Observation) and (side := side_call_of(fact)) is not None:
            yield side


def _root(facts: Iterable[Fact]) -> str:
    said = (fact.data.get("cwd") for fact in facts if isinstance(fact, Observation) and fact.type == "session_start")
    return next((folder for folder in said if isinstance(folder, str) and folder), "/")


def _flip(session: str, past: PastCall, permissions: Permissions) -> Flip | None:
    ruling = permissions.judge(subject_of(past.call, _stand_in(past.call.name), permissions.root))
    would: Would | None = None
    if past.became == "ran" and ruling.action in ("ask", "deny"):
        would = "denied" if ruling.action == "deny" else "asked"
    elif past.became == "denied" and ruling.action == "allow":
        would = "run"
    if would is None:
        return None
    rule = None if ruling.rule is None else f"{ruling.rule.action} {ruling.rule.text}"
    return Flip(session, past, would, ruling.why, rule)


def _stand_in(name: str) -> Tool:
    """Return a tool of a name: only that is asked of it."""
    return Tool(name, "", lambda: None)
