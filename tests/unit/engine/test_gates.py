"""Somebody with a word before and after calls, and at the end of a turn: the same under both hosts."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any

from plait.core.cancel import Cancel
from plait.core.messages import ToolCall, ToolResult, user
from plait.engine.approval import AutoApprover
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.engine.gates import Gate
from plait.engine.hosts.stage import Policy
from plait.engine.limits import Limits
from plait.engine.validation import compile_schema
from plait.kernel.effects import NOTHING, Allow, Ask, Deny, End, Interrupted, Plan, Stop, Think
from plait.kernel.ports import Setup
from plait.kernel.tools import Tool, ToolTable
from plait.testing import Call, Say, ScriptedModel
from tests.unit.engine.runs import Colour, both


@dataclass
class Words:
    """Gates that say what a test tells them to."""

    gate: Any = None
    """Called with a call; returns its gate."""
    answer: Allow | Deny | None = None
    ends: list[Plan] = field(default_factory=list)
    halt: Stop | None = None
    suffix: str = ""
    heard: list[str] = field(default_factory=list)
    blocks: threading.Event | None = None

    def before(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Gate:
        """Judge a call."""
        self.heard.append(f"before {call.name}")
        if self.blocks is not None:
            self.blocks.set()
            cancel.wait(30)
        return Gate(call) if self.gate is None else self.gate(call)

    def permission(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Allow | Deny | None:
        """Answer for the approver."""
        self.heard.append(f"permission {call.name}")
        return self.answer

    def after(self, call: ToolCall, tool: Tool, result: ToolResult, cancel: Cancel) -> ToolResult:
        """Change a result."""
        self.heard.append(f"after {call.name}")
        return replace(result, content=result.content + self.suffix)

    def before_think(self, ask: Think, cancel: Cancel) -> None:
        """Hear of a request."""
        self.heard.append(f"think {ask.purpose}")

    def at_end(self, cancel: Cancel) -> Plan:
        """Say what is to happen at the end."""
        self.heard.append("end")
        return self.ends.pop(0) if self.ends else NOTHING

    def stop(self) -> Stop | None:
        """Say that the turn is to end."""
        return self.halt

    def tell(self) -> None:
        """Have nothing to tell."""


class Person:
    """An approver that remembers what it was asked."""

    def __init__(self, says: Any = True) -> None:
        self.says = says
        self.asked: list[tuple[str, str]] = []

    def approve(self, call: ToolCall, tool: Tool) -> Any:
        """Be asked as usual."""
        self.asked.append((call.name, "usual"))
        return self.says

    def approve_asked(self, call: ToolCall, tool: Tool, why: str) -> Any:
        """Be asked because a hook wants it."""
        self.asked.append((call.name, why))
        return self.says


def echo(text: str) -> str:
    """Say it again."""
    return f"echo:{text}"


ECHO = Tool("echo", "Say it again.", echo, requires_approval=True)
ROUND = [Say(calls=[Call("echo", {"text": "hi"})]), "done"]


def turn(colour: Colour, script: list[Any], policy: Policy, tool: Tool = ECHO) -> tuple[End, Conversation]:
    """Run one turn of a conversation and return its end."""
    table = ToolTable([tool], compile=compile_schema)
    with ScriptedModel(script) as model:
        conversation = Conversation(model, Terms(table, Setup("", table.schemas), policy), Workbench())

        async def go() -> End:
            try:
                return await conversation.aturn((user("go"),))
            finally:
                await conversation.aclose()

        return (asyncio.run(go()) if colour == "async" else conversation.turn((user("go"),))), conversation


def results(conversation: Conversation) -> list[tuple[str, str]]:
    """Return how the calls ended, and with what text."""
    found = [result for message in conversation.state.history for result in message.tool_results]
    return [(result.status, result.content) for result in found]


@both
def test_a_gate_hears_of_everything_in_order(colour: Colour) -> None:
    """Requests, calls and the end pass by, results come out as the gate leaves them, and an end can be put off once."""
    words = Words(suffix="!", ends=[Plan(inject=(user("more"),))])

    end, conversation = turn(colour, [*ROUND, "really"], Policy(gates=words))

    assert ("completed", "really") == (end.reason, end.reply)
    assert [("ok", "echo:hi!")] == results(conversation)
    heard = ["think step", "before echo", "after echo", "think step", "end", "think step", "end"]
    assert heard == words.heard


@both
def test_words_of_a_gate_and_of_the_approver(colour: Colour) -> None:
    """Deny needs nobody, allow spares the approver, ask makes it a person's question, silence leaves it as it was."""
    cases: list[tuple[Any, Any, list[tuple[str, str]], tuple[str, str]]] = [
        ("deny", Person(), [], ("denied", "why")),
        ("allow", Person(says=False), [], ("ok", "echo:hi")),
        ("ask", Person(), [("echo", "why")], ("ok", "echo:hi")),
        ("ask", Person(says=False), [("echo", "why")], ("denied", "Denied by user.")),
        (None, Person(), [("echo", "usual")], ("ok", "echo:hi")),
    ]
    for word, person, asked, result in cases:
        words = Words(gate=lambda call, word=word: Gate(call, word, "why"))
        _, conversation = turn(colour, ROUND, Policy(person, gates=words))
        assert (asked, [result]) == (person.asked, results(conversation)), word

    for approver in (None, AutoApprover("auto_allow")):
        words = Words(gate=lambda call: Gate(call, "ask", "why"))
        _, conversation = turn(colour, ROUND, Policy(approver, gates=words))
        assert "denied" == results(conversation)[0][0]


@both
def test_who_answers_before_somebody_is_asked(colour: Colour) -> None:
    """An answer in the approver's place counts; where nobody would be asked, nobody answers for them."""
    for answer, result in ((Deny("never"), ("denied", "never")), (None, ("ok", "echo:hi"))):
        words, person = Words(answer=answer), Person()
        _, conversation = turn(colour, ROUND, Policy(person, gates=words))
        assert ([result], answer is None) == (results(conversation), bool(person.asked))
    words = Words(answer=Deny("never"))
    _, conversation = turn(colour, ROUND, Policy(AutoApprover("auto_allow"), gates=words))
    assert ([("ok", "echo:hi")], False) == (results(conversation), "permission echo" in words.heard)


@both
def test_changed_arguments_are_checked_and_recorded(colour: Colour) -> None:
    """A change that fits runs and stands in the log; one that does not, or that would have to wait, is denied."""

    def changed(raw: str, word: Any = None) -> Words:
        return Words(gate=lambda call: Gate(replace(call, raw=raw), word))

    _, conversation = turn(colour, ROUND, Policy(gates=changed('{"text": "you"}')))
    assert [("ok", "echo:you")] == results(conversation)
    _, conversation = turn(colour, ROUND, Policy(gates=changed('{"word": "you"}')))
    ((status, text),) = results(conversation)
    assert ("denied", True) == (status, "what a hook made of it cannot run. Invalid arguments for 'echo'" in text)
    waiting = Policy(Person(Ask("r1")), gates=changed('{"text": "you"}', "ask"))
    _, conversation = turn(colour, ROUND, waiting)
    assert "denied" == results(conversation)[0][0]


@both
def test_a_gate_can_end_the_turn(colour: Colour) -> None:
    """What a gate wants is the end at the next boundary, and a limit's status."""
    end, _ = turn(colour, [], Policy(gates=Words(halt=Stop("stopped", "enough"))))

    assert ("stopped", "enough") == (end.reason, end.detail)


@both
def test_calls_side_by_side_are_looked_at_in_their_threads(colour: Colour) -> None:
    """Every result of a batch passes the gate, and the results stand in the order of the calls."""
    tool = replace(ECHO, parallel_safe=True, timeout_s=30)
    calls = [Call("echo", {"text": text}, id=text) for text in "abc"]

    _, conversation = turn(colour, [Say(calls=calls), "done"], Policy(None, Limits(), gates=Words(suffix="!")), tool)

    assert [("ok", f"echo:{text}!") for text in "abc"] == results(conversation)


def test_a_cancelled_task_stops_what_a_gate_waits_for() -> None:
    """The event loop never blocks; a cancellation reaches the gate, closes the turn, and asks nobody else."""
    begun, person = threading.Event(), Person()
    words = Words(blocks=begun, gate=lambda call: Gate(call, "ask"))
    table = ToolTable([ECHO])

    async def go() -> Conversation:
        with ScriptedModel(ROUND, allow_unused=True) as model:
            policy = Policy(person, gates=words)
            conversation = Conversation(model, Terms(table, Setup("", table.schemas), policy), Workbench())
            task = asyncio.ensure_future(conversation.aturn((user("go"),)))
            while not begun.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            began_s = time.monotonic()
            results = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(results[0], asyncio.CancelledError)
            assert 20 > time.monotonic() - began_s
            await conversation.aclose()
            return conversation

    conversation = asyncio.run(go())

    assert ([], ["cancelled"], False) == (
        person.asked,
        [status for status, _ in results(conversation)],
        conversation.state.in_turn,
    )


@both
def test_a_gate_may_forbid_a_request(colour: Colour) -> None:
    """What it raises ends the turn with a valid history."""

    class Closed(Words):
        def before_think(self, ask: Think, cancel: Cancel) -> None:
            raise Interrupted("error") from RuntimeError("not now")

    end, _ = turn(colour, [], Policy(gates=Closed()))

    assert ("error", "not now") == (end.reason, end.detail)
