"""Exact counts of tokens, and the requests that are not sent because of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from plait.cli.specs import built_in_spec
from plait.core.errors import ConfigError, ContextWindowExceededError
from plait.core.exchange import ToolSchema
from plait.core.facts import MessageAdded, TurnStart
from plait.core.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult, user
from plait.engine.agent import Agent
from plait.engine.limits import Limits
from plait.kernel.budget import Room, estimate, is_hopeless, overflow_of, weigh
from plait.kernel.state import State, fold
from plait.kernel.tools import Tool
from plait.models.chat_model import chat_model
from plait.models.token_counters import family_of, token_counter_of
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, Request, Say, ScriptServer
from plait.testing.faults import Status

WORDS = "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 10


def by_words(text: str) -> int:
    """Count words, of which four bytes say nothing."""
    return len(text.split())


def talk(*messages: Message) -> State:
    return fold((TurnStart(), *map(MessageAdded, messages)))


@pytest.mark.parametrize("name", ["o200k", "cl100k", "auto"])
def test_a_vocabulary_counts_without_a_network(name: str) -> None:
    """The extra's vocabularies count known texts exactly, and take every text that Python holds."""
    pytest.importorskip("rs_bpe")
    count = token_counter_of(name, "openai/gpt-4o-mini")

    assert count is not None
    assert [2, 0, 12_500] == [count("hello world"), count(""), count("a" * 100_000)]
    assert 0 < count("\ud800 is no letter") < 12


def test_auto_goes_by_the_models_name() -> None:
    """A model that is not known is not counted; the names of both families are told apart."""
    names = ["gpt-4o", "gpt-4", "gpt-4.1-mini", "gpt-3.5-turbo", "openai/o3", "gpt-oss:20b", "qwen3-coder", ""]

    assert ["o200k", "cl100k", "o200k", "cl100k", "o200k", "o200k", "", ""] == [family_of(name) for name in names]
    assert None is token_counter_of("auto", "qwen3-coder") is token_counter_of(None) is token_counter_of("")


def test_a_file_of_ones_own_counts(tmp_path: Path) -> None:
    """A `tokenizer.json` counts for its model; one that is damaged is named."""
    pytest.importorskip("tokenizers")
    vocabulary = {"model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1}, "unk_token": "[UNK]"}}
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}} | vocabulary)
    )
    (tmp_path / "odd.json").write_text("{")
    count = token_counter_of(str(tmp_path / "tokenizer.json"))

    assert count is not None
    assert 3 == count("hello big world")
    with pytest.raises(ConfigError, match=r"odd\.json"):
        token_counter_of(str(tmp_path / "odd.json"))


def test_what_cannot_count_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown name, a missing library and a function that does not count are typed errors that say what to do."""
    monkeypatch.setitem(sys.modules, "rs_bpe.bpe", None)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    wrong = {
        "o200k": r"plait\[tokens\]",
        "x.json": "pip install tokenizers",
        "p50k": "auto, o200k, cl100k",
        7: "function",
    }

    for wanted, advice in wrong.items():
        with pytest.raises(ConfigError) as caught:
            token_counter_of(wanted)
        assert advice.replace("\\", "") in caught.value.hint
    with pytest.raises(ConfigError, match="returns 'many'"):
        token_counter_of(lambda text: "many")
    with pytest.raises(ConfigError, match="o200k"):
        init_session({**built_in_spec("any", "http://127.0.0.1:9"), "token_counter": "o200k"})


def test_a_counter_makes_sizes_exact_for_text() -> None:
    """What is certain is the sum of the texts; what is likely has the frames, pictures and reasoning on top."""
    call = ToolCall("c1", "look", '{"path": "a b"}')
    result = ToolResult("c1", "one two three", images=(Image("eA=="),))
    state = State()
    state.history = [
        user(WORDS),
        Message("assistant", (Reasoning("well then"), Text("I look."), call)),
        Message("tool", (result,)),
    ]
    room = Room(
        10_000, system="be brief", tools=(ToolSchema("look", "Look at it.", {"type": "object"}),), count=by_words
    )

    found = estimate(state, room)

    certain = 260 + 2 + 3 + 3 + 2 + 3
    assert certain == found.least
    assert certain + 3 * 4 + 2 * 8 + 1 + 2 + 1_000 + 4 + 8 + 1 + 2 == found.tokens
    parts = {part.name: part.tokens.value for part in weigh(state, room).parts}
    assert (6, 14) == (parts["system"], parts["tools"])


def test_exactly_what_does_not_fit_by_the_counter_is_known_not_to() -> None:
    """A window that the texts fill is not refused, one token less is, whatever their bytes would say."""
    state = talk(user(WORDS))

    assert None is overflow_of(state, Room(262, system="be brief", count=by_words))
    failed = overflow_of(state, Room(261, system="be brief", count=by_words))
    assert failed is not None
    assert "context_overflow" == failed.kind
    assert "system prompt 6, tools 0, messages 264; large are message 1 (user) 264" in failed.message
    assert None is overflow_of(state, Room(261, system="be brief"))
    assert [False, True] == [is_hopeless(state, Room(size, count=by_words)) for size in (260, 259)]


def test_what_is_known_not_to_fit_by_a_counter_is_never_sent() -> None:
    """Agents and sessions with a counter send what fits and nothing else; the server never sees the rest."""
    with ScriptServer(lambda _: "Fine.") as server:
        model = chat_model("any", server.url, context_window=1_000)
        agent = Agent(model, token_counter=by_words, redact=False)
        assert "completed" == agent.run("small " * 900).status
        refused = agent.run("small " * 1_001)
        assert "ContextWindowExceededError" == type(refused.error).__name__
        spec = {**built_in_spec("any", server.url), "context_window": 1_000}
        with (
            create_client(spec) as client,
            init_session(spec, token_counter=by_words, bare=True, strict_cache_proof=False, durable=False) as session,
        ):
            result = run_turn(client, "any", session, "small " * 1_001)

    assert isinstance(result.error, ContextWindowExceededError)
    assert 1 == len(server.requests)


def test_a_long_run_with_a_counter_is_never_refused() -> None:
    """An endpoint that counts as the counter does sees no request beyond its window, and the task in each."""
    window, sizes = 600, list[int]()

    def answer(request: Request) -> object:
        messages = request.json["messages"]
        texts = [str(item.get("content") or "") for item in messages]
        texts += [call["function"]["arguments"] for item in messages for call in item.get("tool_calls", ())]
        sizes.append(sum(map(by_words, texts)))
        if sizes[-1] > window:
            return Status(400, {"error": {"code": "context_length_exceeded", "message": "too long"}})
        assert any("find the fault" in text for text in texts)
        if "about to be shortened" in texts[-1]:
            return Say("Objective: find the fault. Next: go on.", usage={})
        return Say(calls=[Call("look", {"at": len(sizes)})], usage={}) if len(sizes) < 40 else Say("found", usage={})

    look = Tool("look", "Look.", lambda at: f"{at} nothing " * 70, {"type": "object"}, idempotent=True)
    with ScriptServer(answer) as server:
        model = chat_model("any", server.url, context_window=window)
        agent = Agent(model, [look], token_counter=by_words, limits=Limits(max_steps=60))
        result = agent.run("find the fault")

    assert ("completed", "found") == (result.status, result.text), result.error
    assert max(sizes) <= window
