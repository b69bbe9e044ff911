"""What the requests of a line declare, wire by wire, and which wires take which way of loading."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import ConfigError
from plait.core.exchange import ToolSchema, View
from plait.core.messages import Message, ToolCall, ToolResult, assistant, user
from plait.kernel.deferral import ActivationLimits, Deferral, Loading, active, announcement, carried, receipt
from plait.kernel.effects import Think
from plait.kernel.ports import Setup
from plait.models.client_model import ClientModel
from plait.models.loading import Shown, wire_for
from plait.wire.anthropic import encode as anthropic_encode
from plait.wire.chat.encode import message_dicts
from plait.wire.chat.history import decode_messages
from plait.wire.profile import WireProfile

LIMITS = ActivationLimits(max_selected_tools=9, max_active_tools=9, max_schema_bytes=9_000)
TOOLS = tuple(ToolSchema(name, name, {"type": "object"}, deferred=name != "find") for name in ("find", "a", "b"))


def setup(loading: Loading) -> Setup:
    return Setup("", TOOLS, deferral=Deferral(loading, LIMITS))


def talk(loading: Loading, *names: str) -> list[Message]:
    """Return a conversation that has searched."""
    data = receipt(names, Deferral(loading, LIMITS))
    return [
        user("Hi"),
        assistant("", [ToolCall("c", "find")]),
        Message("tool", (ToolResult("c", "Loaded", data=data),)),
    ]


def view(messages: list[Message], epoch: int = 0) -> View:
    return View(epoch, messages, len(messages))


def names(shown: Shown) -> list[str]:
    return [f"{tool.name}{'*' if tool.deferred else ''}" for tool in shown.tools]


def test_the_list_changes_only_when_something_was_loaded() -> None:
    """Each way has its own list; a request that loads nothing new leaves it the same object."""
    expected: dict[Loading, list[list[str]]] = {
        "kimi": [["find"], ["find"], ["find"]],
        "glm": [["find", "a*", "b*"], ["find", "a*", "b*"], ["find", "a*", "b"]],
        "grow": [["find"], ["find", "b"], ["find", "b"]],
    }
    for loading, lists in expected.items():
        shown, messages = Shown(setup(loading)), talk(loading, "b")
        found = [names(shown)]
        shown.take(view(messages))
        found.append(names(shown))
        before = shown.tools
        assert not shown.take(view([*messages, assistant("So."), user("Go on")]))
        assert before is shown.tools
        shown.take(view([user("Notes"), *carried(messages)], 1))
        assert lists == [*found, names(shown)]


def test_a_shorter_conversation_takes_back_what_it_does_not_hold() -> None:
    """After a rewind the search is gone, and its tools with it."""
    shown, messages = Shown(setup("grow")), talk("grow", "a")
    assert shown.take(view(messages))
    assert shown.take(view(messages[:1], 1))
    assert ["find"] == names(shown)


def test_a_wire_without_the_way_is_refused_with_what_to_use() -> None:
    """System messages that declare tools are chat completions' own, references also those of the anthropic wire."""
    for wire, loading in (("responses", "kimi"), ("anthropic", "kimi"), ("responses", "glm")):
        with pytest.raises(ConfigError, match=f"{loading!r} .* {wire} messages") as refused:
            wire_for(WireProfile(wire=wire), setup(loading))  # type: ignore[arg-type]
        assert "grow" in refused.value.hint
    with pytest.raises(ConfigError, match="calls are text"):
        wire_for(WireProfile(calls="inline"), setup("grow"))
    assert wire_for(WireProfile(wire="anthropic"), setup("glm")).tool_references
    assert WireProfile(wire="responses") == wire_for(WireProfile(wire="responses"), setup("grow"))


def test_the_anthropic_wire_refers_to_tools_by_their_names() -> None:
    """A search's result is a reference, and the cache marker stands at the last tool that is not deferred."""
    wire = wire_for(WireProfile(wire="anthropic"), setup("glm"))
    sent = json.loads(anthropic_encode.encode_message(talk("glm", "b", "a")[2], wire).data)
    result = sent["content"][0]
    assert [{"type": "tool_reference", "tool_name": name} for name in ("b", "a")] == result["content"]
    head = json.loads(anthropic_encode.head("m", TOOLS, "", wire) + b"]}")
    marks = [("defer_loading" in tool, "cache_control" in tool) for tool in head["tools"]]
    assert [(False, True), (True, False), (True, False)] == marks


def test_tools_in_messages_are_sent_only_where_that_is_the_way() -> None:
    """A conversation that goes on in another way does not say what its next endpoint may refuse."""
    told = announcement([{"type": "function", "function": {"name": "a"}}])
    for loading, count in (("kimi", 1), ("glm", 0), ("grow", 0)):
        wire = wire_for(WireProfile(), setup(loading))  # type: ignore[arg-type]
        assert count == len(list(message_dicts(told, wire)))
    assert ["find", "a"] == [tool.name for tool in _taken(Shown(setup("grow")), [user("Hi"), told])]


def _taken(shown: Shown, messages: list[Message]) -> tuple[ToolSchema, ...]:
    shown.take(view(messages))
    return shown.tools


def test_references_are_read_back_as_what_they_load() -> None:
    """A conversation that is written down with references, by whomever, loads the same tools again."""
    wire = wire_for(WireProfile(), setup("glm"))
    messages = talk("glm", "b", "a")
    items = [item for message in messages for item in message_dicts(message, wire)]
    again = decode_messages(items)
    assert ["b", "a"] == [tool.name for tool in active(Deferral("glm", LIMITS), TOOLS, again)]
    assert "Loaded: b, a" == again[2].tool_results[0].content
    assert items == [item for message in again for item in message_dicts(message, wire)]


@pytest.mark.parametrize("loading", ["kimi", "glm", "grow"])
def test_a_client_of_the_callers_own_is_told_the_same(loading: Loading) -> None:
    """The lists that an injected client gets are those of a line."""
    asked: list[dict[str, Any]] = []

    class Completions:
        def create(self, **given: Any) -> dict[str, Any]:
            asked.append(json.loads(json.dumps({name: given[name] for name in ("tools", "messages")})))
            return {"choices": [{"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]}

    class Client:
        class chat:
            completions = Completions()

    channel = ClientModel("m", Client()).open(setup(loading))
    messages = talk(loading, "b")
    for length in (1, 3):
        channel.think(Think(View(0, messages, length), "step", 1), None, Cancel())
    lists = [[tool["function"]["name"] for tool in each["tools"]] for each in asked]
    wanted = {"kimi": [["find"]] * 2, "glm": [["find", "a", "b"]] * 2, "grow": [["find"], ["find", "b"]]}
    assert wanted[loading] == lists
    content = asked[1]["messages"][-1]["content"]
    assert ([{"type": "tool_reference", "name": "b"}] if loading == "glm" else "Loaded") == content
