"""Calls whose end nobody saw, through a conversation with a real journal, in both colours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.facts import Decided, Fact, MessageAdded, ToolStart, TurnStart
from plait.core.messages import ToolCall, ToolResult, assistant, user
from plait.engine.calls import Finishing
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.engine.hosts.stage import Policy
from plait.engine.recovery import open_starts, resolver
from plait.engine.validation import compile_schema
from plait.kernel.effects import Allow, Ask, Deny
from plait.kernel.ports import Setup
from plait.kernel.state import State, fold
from plait.kernel.tools import Recovery, Tool, ToolContext, ToolTable
from plait.store.opening import load_journal, open_journal
from plait.store.syncer import AsyncJsonlLog, Syncer
from plait.testing import Call, ScriptedModel
from plait.tools.toolbox import Toolbox

colours = pytest.mark.parametrize("colour", ["sync", "async"])


def terms(*tools: Tool, policy: Policy | None = None) -> Terms:
    """Return terms with these tools."""
    table = ToolTable(tools, compile=compile_schema)
    return Terms(table, Setup("", table.schemas), policy or Policy())


@contextmanager
def durable(model: ScriptedModel, held: Terms, folder: Path) -> Iterator[Conversation]:
    """Hold a conversation whose facts go to a journal in a folder."""
    opened, syncer = open_journal(folder, "s1", lambda: 1), Syncer()
    alog = AsyncJsonlLog(opened.log, syncer)
    with closing(syncer), closing(opened.log):
        yield Conversation(model, held, Workbench(), state=opened.state, log=opened.log, alog=alog, id="s1")


def run(conversation: Conversation, colour: str, *texts: str, resume: bool = False) -> Any:
    """Run a turn in a colour."""
    inputs = tuple(map(user, texts))
    if colour == "sync":
        return conversation.turn(inputs, resume=resume)
    return asyncio.run(conversation.aturn(inputs, resume=resume))


def facts_in(folder: Path) -> list[Fact]:
    """Return what a journal holds now."""
    return [entry.fact for entry in load_journal(folder / "journal.jsonl").entries]


def started(folder: Path) -> list[ToolStart]:
    """Return how calls were started."""
    return [fact for fact in facts_in(folder) if isinstance(fact, ToolStart)]


def intending(text: str, call: ToolContext) -> Mapping[str, object]:
    """Say what will show that the call took effect."""
    return {"key": f"{call.call_id}:{text}"}


def tool_that(fn: Any, settle: Any = lambda keywords, call: "found out") -> Tool:
    """Return a tool that can find out what became of its calls."""
    recovery = Recovery(lambda keywords, call: intending(str(keywords["text"]), call), settle)
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return Tool("note", "Notes.", fn, parameters=parameters, mutates=True, recovery=recovery)


@colours
def test_the_intent_is_on_disk_before_the_call_runs(colour: str, tmp_path: Path) -> None:
    """What will show that a call took effect stands in the journal when the call begins, and the call is told."""
    seen: list[object] = []

    def note(text: str, call: ToolContext) -> str:
        seen.append((started(tmp_path / "s")[0].intent, call.intent))
        return "noted"

    with (
        ScriptedModel([Call("note", {"text": "x"}, id="c1"), "done"]) as model,
        durable(model, terms(tool_that(note)), tmp_path / "s") as conversation,
    ):
        run(conversation, colour, "go")

    assert [({"key": "c1:x"}, {"key": "c1:x"})] == seen


@colours
def test_without_a_journal_nothing_is_intended(colour: str) -> None:
    """A conversation that keeps nothing plans nothing twice."""

    def note(text: str, call: ToolContext) -> str:
        return repr(call.intent)

    with ScriptedModel([Call("note", {"text": "x"}, id="c1"), "done"]) as model:
        conversation = Conversation(model, terms(tool_that(note)), Workbench())
        run(conversation, colour, "go")

    assert ["None"] == [result.content for result in model.requests[1].messages[-1].tool_results]


class Judge:
    """Says once what it is told to."""

    def __init__(self, said: Allow | Ask | Deny) -> None:
        self._said = said

    def approve(self, call: ToolCall, tool: Tool) -> Allow | Ask | Deny:
        """Judge a call."""
        return self._said


@colours
def test_the_intent_is_of_the_call_as_it_was_allowed(colour: str, tmp_path: Path) -> None:
    """Arguments that an approver has changed are what is planned for."""
    allowed = Allow(ToolCall("c1", "note", '{"text": "y"}'))
    with (
        ScriptedModel([Call("note", {"text": "x"}, id="c1"), "done"]) as model,
        durable(
            model, terms(tool_that(lambda text: text), policy=Policy(Judge(allowed))), tmp_path / "s"
        ) as conversation,
    ):
        run(conversation, colour, "go")

    assert [ToolStart("c1", '{"text": "y"}', {"key": "c1:y"})] == started(tmp_path / "s")


@colours
def test_a_yes_from_another_process_has_an_intent_too(colour: str, tmp_path: Path) -> None:
    """A call that waited for its approval in the journal is planned when it begins, not when it was asked about."""
    held = terms(tool_that(lambda text: text), policy=Policy(Judge(Ask("q1"))))
    with (
        ScriptedModel([Call("note", {"text": "x"}, id="c1")]) as model,
        durable(model, held, tmp_path / "s") as asking,
    ):
        assert "approval_required" == run(asking, colour, "go").reason
        asking.log.append((Decided("c1", True),))
        asking.log.commit()
    with ScriptedModel(["done"]) as model, durable(model, held, tmp_path / "s") as conversation:
        assert "completed" == run(conversation, colour, resume=True).reason

    assert [ToolStart("c1", None, {"key": "c1:x"})] == started(tmp_path / "s")


@colours
def test_a_plan_that_fails_leaves_the_call_to_itself(colour: str, tmp_path: Path) -> None:
    """What goes wrong while a call is planned does not end the turn: the call runs and says what is wrong."""

    def broken(keywords: Mapping[str, object], call: ToolContext) -> None:
        raise OSError("no such place")

    tool = Tool("note", "", lambda text: text, mutates=True, recovery=Recovery(broken, lambda keywords, call: ""))
    with (
        ScriptedModel([Call("note", {"text": "x"}, id="c1"), "done"]) as model,
        durable(model, terms(tool), tmp_path / "s") as conversation,
    ):
        assert "done" == run(conversation, colour, "go").reply

    assert [ToolStart("c1")] == started(tmp_path / "s")


BEGUN = (
    TurnStart(),
    MessageAdded(user("go")),
    MessageAdded(assistant("", [ToolCall.of("c1", "note", {"text": "x"})]), None, "tool_calls"),
)


def begun(folder: Path, *more: Fact) -> None:
    """Leave a journal as a process does that dies."""
    opened = open_journal(folder, "s1", lambda: 1)
    opened.log.append((*BEGUN, *more))
    opened.log.commit()
    opened.log.close()


@colours
def test_a_lost_call_is_looked_after_once(colour: str, tmp_path: Path) -> None:
    """Its tool finds out what became of it, from the intent; the answer is recorded, and nobody asks again."""
    asked: list[object] = []

    def settle(keywords: Mapping[str, object], call: ToolContext) -> str:
        asked.append((dict(keywords), call.intent, call.idempotency_key))
        return "it had been noted"

    begun(tmp_path / "s", ToolStart("c1", '{"text": "y"}', {"key": "k"}))
    held = terms(tool_that(lambda text: pytest.fail("it ran again"), settle))
    with ScriptedModel(["recovered"]) as model, durable(model, held, tmp_path / "s") as conversation:
        assert "recovered" == run(conversation, colour, resume=True).reply
    with ScriptedModel(["next"]) as model, durable(model, held, tmp_path / "s") as conversation:
        run(conversation, colour, "go on")

    assert [({"text": "y"}, {"key": "k"}, "//c1")] == asked
    assert ["it had been noted"] == [result.content for result in model.requests[0].messages[2].tool_results]


@pytest.mark.parametrize("case", ["no intent", "no recovery", "it fails", "no such tool"])
def test_what_cannot_be_found_out_is_unknown(case: str, tmp_path: Path) -> None:
    """Without an intent, without a way to find out, or when finding out fails, the model is told to check."""

    def fails(keywords: Mapping[str, object], call: ToolContext) -> str:
        raise OSError("gone")

    tool = tool_that(lambda text: pytest.fail("it ran again"), fails)
    if case in ("no recovery", "no such tool"):
        tool = Tool("note" if case == "no recovery" else "other", "", tool.fn, mutates=True)
    begun(tmp_path / "s", ToolStart("c1", intent=None if case == "no intent" else {"key": "k"}))
    with ScriptedModel(["recovered"]) as model, durable(model, terms(tool), tmp_path / "s") as conversation:
        run(conversation, "sync", resume=True)

    (result,) = model.requests[0].messages[-1].tool_results
    assert "unknown" == result.status
    assert "Check before repeating it" in result.content


@pytest.mark.parametrize("idempotent", [False, True])
def test_only_what_says_so_is_run_again(idempotent: bool, tmp_path: Path) -> None:
    """That a tool may run beside others does not mean that it may run twice."""
    ran: list[str] = []
    tool = Tool("note", "", lambda text: ran.append(text), parallel_safe=True, idempotent=idempotent)
    begun(tmp_path / "s", ToolStart("c1"))
    with ScriptedModel(["recovered"]) as model, durable(model, terms(tool), tmp_path / "s") as conversation:
        run(conversation, "sync", resume=True)

    assert (["x"] if idempotent else []) == ran
    assert ["ok" if idempotent else "unknown"] == [
        result.status for result in model.requests[0].messages[-1].tool_results
    ]


def test_what_is_found_out_is_shaped_like_every_result() -> None:
    """A result that comes late is redacted and bounded as it would have been in time."""
    table = ToolTable([tool_that(None, lambda keywords, call: "secret " * 100)], compile=compile_schema)
    resolve = resolver(table, Finishing(result_tokens_max=10, redact=lambda text: text.replace("secret", "***")))

    outcome = resolve(ToolCall.of("c1", "note", {"text": "x"}), ToolStart("c1", intent={}), Cancel())

    assert outcome.result is not None
    assert "***" in outcome.result.content
    assert "secret" not in outcome.result.content
    assert "truncated" in outcome.result.content


@colours
def test_a_turn_that_is_stopped_stops_the_looking_after(colour: str, tmp_path: Path) -> None:
    """The cancel signal reaches a tool that waits for what still runs, and its answer counts."""
    cancel = Cancel()

    def settle(keywords: Mapping[str, object], call: ToolContext) -> ToolResult:
        stopped = threading.Event()
        call.cancel.on_cancel(stopped.set)
        cancel.cancel("interrupted")
        assert stopped.wait(10)
        return ToolResult("", "stopped it", status="cancelled")

    begun(tmp_path / "s", ToolStart("c1", intent={"key": "k"}))
    held = terms(tool_that(lambda text: "", settle))
    with ScriptedModel([]) as model, durable(model, held, tmp_path / "s") as conversation:
        end = (
            conversation.turn(resume=True, cancel=cancel)
            if colour == "sync"
            else asyncio.run(conversation.aturn(resume=True, cancel=cancel))
        )

    assert "interrupted" == end.reason
    assert ["stopped it"] == [result.content for result in conversation.state.history[-1].tool_results]


@pytest.mark.parametrize("holds, words", [("new", "Applied."), ("old", "Not applied."), ("theirs", "Changed since.")])
def test_durable_17_killed_between_an_effect_and_its_record(tmp_path: Path, holds: str, words: str) -> None:
    """A file was written and the process killed before it said so: the write is not made again, and told as it is."""
    (work := tmp_path / "work").mkdir()
    (work / "f").write_text("old")
    box = Toolbox(work)
    call = ToolCall.of("c1", "write_file", {"path": "f", "content": "new"})
    recovery = box.recovery("write_file")
    assert recovery is not None
    intent = recovery.intend(call.arguments, ToolContext("c1", "k", Cancel()))
    opened = open_journal(tmp_path / "s", "s1", lambda: 1)
    asked = MessageAdded(assistant("", [call]), None, "tool_calls")
    opened.log.append((TurnStart(), MessageAdded(user("go")), asked, ToolStart("c1", intent=intent)))
    opened.log.commit()
    opened.log.close()
    (work / "f").write_text(holds)

    with ScriptedModel(["recovered"]) as model, durable(model, terms(*box.tools()), tmp_path / "s") as conversation:
        run(conversation, "sync", resume=True)

    (result,) = model.requests[0].messages[-1].tool_results
    assert (True, holds) == (result.content.startswith(words), (work / "f").read_text())
    box.close()


def test_open_starts_are_what_recovery_still_needs() -> None:
    """A call that has its result is needed no more."""
    assert () == open_starts(State())
    assert (ToolStart("c1"),) == open_starts(fold([*BEGUN, ToolStart("c1")]))
