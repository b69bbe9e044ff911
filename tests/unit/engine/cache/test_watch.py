"""A conversation's cache, watched while it goes on over a real socket, in both colours, and after a resume."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plait.core.clock import SystemClock
from plait.core.errors import CacheProofError
from plait.core.events import Committed, Event, Notice
from plait.core.facts import Fact, MessageAdded, Observation
from plait.core.messages import user
from plait.engine.agent import Agent
from plait.engine.cache.ledger import REQUEST, CacheLedger
from plait.engine.cache.proof import CacheTerms, ProofMode
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.kernel.effects import End
from plait.kernel.log import MemoryLog
from plait.kernel.ports import Setup
from plait.kernel.rerun import rerun
from plait.kernel.rules import Retry, Rules
from plait.kernel.tools import Tool, ToolTable
from plait.models.chat_model import ChatModel, chat_model
from plait.models.endpoint import endpoint_of
from plait.store.opening import open_journal
from plait.testing import Call, Say, ScriptServer
from plait.testing.faults import Status
from tests.unit.engine.runs import Colour, both

LONG = "A system prompt that is worth caching. " * 400
HI = Tool("hi", "Say hi.", lambda: "hi")


def terms(system: str = LONG, tools: tuple[Tool, ...] = (), mode: ProofMode = False, **more: Any) -> Terms:
    """Return what a conversation is held under."""
    table = ToolTable(tools)
    rules = Rules(retry=Retry(base_s=0.001))
    return Terms(table, Setup(system, table.schemas), rules=rules, cache=CacheTerms(mode, **more))


class Talk:
    """A conversation and what was heard of it."""

    def __init__(self, model: ChatModel, held: Terms, log: Any = None, state: Any = None) -> None:
        self.log: Any = log or MemoryLog(SystemClock().now_ms)
        self.conversation = Conversation(model, held, Workbench(), log=self.log, alog=self.log, state=state)
        self.heard: list[Event] = []
        self.conversation.observers.add(self.heard.append, Committed, Notice)

    def ask(self, text: str, colour: Colour = "sync") -> End:
        """Run one turn."""
        if colour == "sync":
            return self.conversation.turn((user(text),))

        async def turn() -> End:
            end = await self.conversation.aturn((user(text),))
            await self.conversation.aclose()
            return end

        return asyncio.run(turn())

    @property
    def facts(self) -> list[Fact]:
        """Every fact that became safe."""
        return [event.entry.fact for event in self.heard if isinstance(event, Committed)]

    @property
    def notes(self) -> list[dict[str, Any]]:
        """What was recorded of requests, digests left out."""
        found = [dict(fact.data) for fact in self.facts if isinstance(fact, Observation) and fact.type == REQUEST]
        return [{name: value for name, value in note.items() if name != "sections"} for note in found]

    @property
    def notices(self) -> list[tuple[str, dict[str, Any]]]:
        """What was told about the cache."""
        return [(event.type, dict(event.data)) for event in self.heard if isinstance(event, Notice)]


@contextmanager
def served(*steps: Any, usage: str = "openai") -> Iterator[ChatModel]:
    """Serve a script and return the model that speaks it."""
    with ScriptServer(steps, usage=usage) as server:
        model = chat_model("m", server.url)
        yield model
        model.close()


@both
def test_an_ordinary_step_is_recorded_by_its_answer_alone(colour: Colour) -> None:
    """The first request leaves the digests of its head in the log; later ones that extend it leave nothing."""
    with served([Call("hi")], "one", "two", "three") as model:
        talk = Talk(model, terms(tools=(HI,)))
        for text in ("a", "b", "c"):
            talk.ask(text, colour)

    assert [{"min_tokens": 0, "ttl_s": 3_600.0}] == talk.notes
    assert [] == talk.notices
    found = CacheLedger().take_all(talk.facts, range(len(talk.facts)))
    assert ["first", "hit", "hit", "hit"] == [request.blame for request in found]


@both
def test_a_changed_message_is_told_before_the_answer_and_blamed_on_us(colour: Colour) -> None:
    """An edit of what was sent is recorded with its place and its reason, before the answer whose cache it cost."""
    with served("one", "two", "three", "four") as model:
        talk = Talk(model, terms("short"))
        talk.ask(LONG, colour)
        talk.ask("b", colour)
        talk.conversation.rewrite(0, 1, (user(f"Other. {LONG}"),), "host_edit")
        talk.ask("c", colour)
        talk.ask("d", colour)

    assert [{"part": "message", "index": 0, "why": "host_edit"}] == talk.notes[1:]
    ((name, data),) = talk.notices
    assert ("cache_miss", "ours", "message 0", "host_edit") == (name, data["blame"], data["place"], data["why"])
    assert 0 == data["cached"]
    assert data["expected"] > 3_000
    places = [index for index, fact in enumerate(talk.facts) if isinstance(fact, Observation)]
    answer = talk.facts[places[-1] + 1]
    assert isinstance(answer, MessageAdded)
    assert "three" == answer.message.content
    notice = next(index for index, event in enumerate(talk.heard) if isinstance(event, Notice))
    before = talk.heard[notice - 1]
    assert isinstance(before, Committed)
    assert answer == before.entry.fact, "the answer is heard of first"


@pytest.mark.parametrize(
    "changed, part, why",
    [
        (terms(f"Now. {LONG}"), "system", "terms_changed"),
        (terms(tools=(HI,)), "tools", "terms_changed"),
        (None, "model", "model_changed"),
    ],
    ids=["system", "tools", "model"],
)
@both
def test_changed_terms_are_told(colour: Colour, changed: Terms | None, part: str, why: str) -> None:
    """Another system prompt, other tools, another model: the next request names the first part that differs."""
    with served("one", "two", "three") as model:
        talk = Talk(model, terms())
        talk.ask("a", colour)
        talk.conversation.change(model if changed else model.with_model("n"), changed or terms())
        talk.ask("b", colour)
        talk.ask("c", colour)

    assert [(part, None, why)] == [(note["part"], note.get("index"), note["why"]) for note in talk.notes[1:]]
    # The server has one cache for all models.
    misses = [] if part == "model" else [("cache_miss", "ours", part)]
    assert misses == [(name, data["blame"], data["place"]) for name, data in talk.notices]


def test_a_line_that_was_closed_in_between_changes_nothing() -> None:
    """What the next line sends is compared with what the last one did."""
    with served("one", "two") as model:
        talk = Talk(model, terms())
        talk.ask("a")
        talk.conversation.close()
        talk.ask("b")

    assert 1 == len(talk.notes)


def test_a_failed_request_does_not_hide_a_change() -> None:
    """The request that is made again is compared with the last one that was answered."""
    with served("one", Status(503), "two") as model:
        talk = Talk(model, terms())
        talk.ask("a")
        talk.conversation.rewrite(0, 1, (user("A"),), "host_edit")
        talk.ask("b")

    assert [{"part": "message", "index": 0, "why": "host_edit"}] == talk.notes[1:]


def test_a_provider_that_lost_its_cache_is_blamed() -> None:
    """The request extended the one before it, and nothing was read: that is the provider's doing."""
    lost = {"prompt_tokens": 5_000, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}
    with served("one", Say("two", usage=lost)) as model:
        talk = Talk(model, terms())
        talk.ask("a")
        talk.ask("b")

    ((name, data),) = talk.notices
    assert ("cache_miss", "provider", None, None) == (name, data["blame"], data["place"], data["why"])


@both
def test_proof_that_fails_ends_the_turn_and_keeps_the_answer(colour: Colour) -> None:
    """The answer was paid for: it stands in the history, its calls are closed without having run, and the turn ends
    with the error. The next turn goes on, and is told what is missing."""
    ran: list[str] = []
    tool = Tool("run", "Run.", lambda: ran.append("x") or "done")

    with served(Say("Let me.", calls=[Call("run")]), "two", usage="plain") as model:
        talk = Talk(model, terms(tools=(tool,), mode=True))
        end = talk.ask("a", colour)
        state = talk.conversation.state
        roles = [message.role for message in state.history]
        statuses = [result.status for result in state.history[-1].tool_results]
        again = talk.ask("b", colour)

    assert ("error", None) == (end.reason, end.reply)
    assert isinstance(end.error, CacheProofError)
    assert "--no-strict-cache-proof" in end.error.hint
    assert (["user", "assistant", "tool"], ["cancelled"], []) == (roles, statuses, ran)
    assert "Let me." == state.history[1].content
    assert "completed" == again.reason
    assert ["cache_proof_missing"] == [name for name, _ in talk.notices]


@pytest.mark.parametrize(
    "first",
    [
        "one",
        Say("cut here", finish_reason="length"),
        Say("x", calls=[Call("hi"), Call("nope")]),
        Say("x", calls=[Call("nope")]),
    ],
    ids=["text", "cut", "calls", "unknown"],
)
def test_a_turn_that_proof_ended_can_be_run_again_from_its_log(first: Any) -> None:
    """Whatever the answer was that ended a turn, its facts lead the loop to the same end."""
    with served(first, "two", usage="plain") as model:
        held = terms(tools=(HI,), mode=True)
        talk = Talk(model, held)
        reasons = [talk.ask("a").reason, talk.ask("b").reason]
        facts = [replace(fact, sent="") if isinstance(fact, MessageAdded) else fact for fact in talk.facts]
        again = rerun(facts, held.tools, held.rules, lambda ask: "")

    assert ["error", "completed"] == reasons
    assert (None, 2, 0) == (again.difference, again.turns, again.followed)


def test_every_answer_has_to_prove_something() -> None:
    """With "every" a later answer that was not cached ends the turn too, and is kept."""
    lost = {"prompt_tokens": 5_000, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}
    with served("one", Say("two", usage=lost)) as model:
        talk = Talk(model, terms(mode="every"))
        first, second = talk.ask("a"), talk.ask("b")

    assert ("completed", "error") == (first.reason, second.reason)
    assert "two" == talk.conversation.state.history[-1].content
    assert [("cache_proof_missing", "provider")] == [(name, data["blame"]) for name, data in talk.notices]


@pytest.mark.parametrize("reports, expected", [(True, "error"), (False, "completed")])
def test_an_agent_asks_for_proof_where_it_is_to_be_had(reports: bool, expected: str) -> None:
    """An agent is strict with an endpoint that is known to report cached tokens, and gives any other one notice."""
    heard: list[Event] = []
    with ScriptServer(["one"], usage="plain") as server:
        at = endpoint_of(server.url)
        model = chat_model("m", at.with_profile(replace(at.profile, reports_cache=reports)))
        result = Agent(model, on_event=heard.append).run("a")

    assert expected == result.status
    if reports:
        with pytest.raises(CacheProofError):
            result.raise_for_status()
        assert "one" == result.messages[-1].content
    else:
        assert ["cache_unmeasurable"] == [event.type for event in heard if isinstance(event, Notice)]


def test_an_agent_can_do_without_proof_in_an_event_loop_too() -> None:
    """`strict_cache_proof=True` ends an async run, False none."""

    async def statuses() -> list[str]:
        with ScriptServer(["one", "two"], usage="plain") as server:
            model = chat_model("m", server.url)
            results = [await Agent(model, strict_cache_proof=proof).arun("a") for proof in (True, False)]
            await model.aclose()
            return [result.status for result in results]

    assert ["error", "completed"] == asyncio.run(statuses())


def resumed(folder: Path, model: ChatModel, held: Terms) -> Talk:
    """Open a journal as a process does that was not there before."""
    opened = open_journal(folder, "s", SystemClock().now_ms)
    talk = Talk(model, held, opened.log, opened.state)
    talk.conversation.cache.remember(opened.journal.facts, opened.journal.told.times_ms)
    return talk


def test_a_resumed_conversation_goes_on_with_its_cache(tmp_path: Path) -> None:
    """Another process sends what extends the last request, and nothing is recorded; with another system prompt the
    first request says so, and that it was a resume. The first answer after it is not the first of all."""
    reasons = []
    with served("one", "two", "three") as model:
        for system in (LONG, LONG, f"Now. {LONG}"):
            talk = resumed(tmp_path / "s", model, terms(system, mode="every"))
            reasons.append(talk.ask("a").reason)
            talk.conversation.close()
            talk.log.close()

    assert ["completed", "completed", "error"] == reasons
    assert [("system", "resumed")] == [(note["part"], note["why"]) for note in talk.notes]
    assert [("cache_proof_missing", "ours")] == [(name, data["blame"]) for name, data in talk.notices]


def test_what_an_earlier_process_replaced_is_told_by_the_next(tmp_path: Path) -> None:
    """An edit that was recorded and never sent is the reason for the first request after the resume."""
    with served("one", "two", "three") as model:
        talk = resumed(tmp_path / "s", model, terms())
        talk.ask("a")
        talk.conversation.rewrite(0, 1, (user("A"),), "host_edit")
        talk.conversation.close()
        talk.log.close()
        talk = resumed(tmp_path / "s", model, terms())
        talk.ask("b")
        talk.ask("c")
        talk.log.close()

    assert [{"part": "message", "index": 0, "why": "host_edit"}] == talk.notes


def test_a_cache_that_went_cold_between_processes_is_nobodys_fault(tmp_path: Path) -> None:
    """After a resume the age of the last answer decides: too old, and even "every" goes on."""
    with served("one", "two", usage="plain") as model:
        first = resumed(tmp_path / "s", model, terms())
        first.ask("a")
        first.log.close()
        second = resumed(tmp_path / "s", model, terms(mode="every", ttl_s=1e-9))
        end = second.ask("b")
        second.log.close()

    assert "completed" == end.reason
    ((name, data),) = second.notices
    assert ("cache_cold", 1e-9, True) == (name, data["ttl"], data["age"] > 0)


def test_another_endpoint_has_proved_nothing_yet() -> None:
    """What one model's answers proved is not another's: its first answer has to prove it again."""
    with served("one", Say("two", usage={"prompt_tokens": 9, "completion_tokens": 1})) as model:
        talk = Talk(model, terms(mode=True))
        talk.ask("a")
        talk.conversation.change(model.with_model("n"), terms(mode=True))
        end = talk.ask("b")

    assert isinstance(end.error, CacheProofError)
