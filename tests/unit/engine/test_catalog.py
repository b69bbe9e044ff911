"""A run works with what its catalog mounts, and every request shows what its searches have loaded."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from plait.core.errors import ConfigError
from plait.engine.agent import Agent
from plait.engine.context_manager import ContextManager
from plait.kernel.deferral import ActivationLimits, schema_bytes
from plait.kernel.tools import Tool
from plait.models.chat_model import chat_model
from plait.testing import Call, Say, ScriptServer
from plait.tools.deferred.catalog import CatalogRun, DeferredCatalog, NextStep, Surface
from plait.tools.deferred.search import SearchEvidence, SearchLimits

SEARCH = "search_tools"
MAIL = [
    Tool(name, f"{name} of letters", lambda: "done", {"type": "object"}, idempotent=True)
    for name in ("read", "send", "delete", "archive", "print")
]
SHOP = [Tool("buy", "Buy a thing.", lambda: "bought", {"type": "object"})]


def catalog(**given: Any) -> DeferredCatalog:
    """Return a catalog of two surfaces; `read` is always shown at the first."""
    return DeferredCatalog(
        {"mail": Surface(MAIL, ["read"]), "shop": Surface(SHOP)},
        lambda run: str(run.data["place"]),
        given.get("pins"),
        search=SearchLimits(max_query_bytes=100, max_results=5, max_result_bytes=2_000),
        activation=ActivationLimits(
            max_selected_tools=2, max_active_tools=given.get("active", 4), max_schema_bytes=given.get("bytes", 2_000)
        ),
        observe=given.get("observe"),
        selector=given.get("selector"),
    )


def run(number: int, place: str = "mail") -> CatalogRun:
    return CatalogRun(f"run-{number}", {"place": place})


def shown(server: ScriptServer) -> list[list[str]]:
    """Return the names of the tools that each request declares."""
    return [[tool["function"]["name"] for tool in request.json["tools"]] for request in server.requests]


def find(query: str, *more: Call) -> Say:
    return Say(calls=[Call(SEARCH, {"query": query}), *more])


@pytest.mark.parametrize("is_async", [False, True])
def test_every_request_shows_what_was_loaded_last(is_async: bool) -> None:
    """The search and what is always on come first; the last step that searched says alone what is added to them."""
    script = [
        find("delete", Call("delete")),
        Say(calls=[Call("delete")]),
        find("send", Call(SEARCH, {"query": "archive"})),
        Say(calls=[Call("send"), Call("delete"), Call("nothing")]),
        "Done.",
    ]
    context = ContextManager()
    with ScriptServer(script) as server:
        agent: Any = Agent(chat_model("any", server.url), catalog().mount(run(1)), context=context)
        result = asyncio.run(agent.arun("Go")) if is_async else agent.run("Go")
    first = [SEARCH, "read"]
    # Two searches of one step share the room: each gets as much as both may have.
    assert [first, [*first, "delete"], [*first, "delete"], [*first, "send", "archive"]] == shown(server)[:4]
    texts = [each.content for message in result.messages for each in message.tool_results]
    assert "ERROR: The tool 'delete' is not loaded. Find it" in texts[1]
    assert "done" == texts[2]
    assert ["done", True, True] == [texts[5], "is not loaded" in texts[6], "Unknown tool" in texts[7]]


def test_another_run_begins_with_nothing_loaded() -> None:
    """In the same conversation, and on another surface, what an earlier run found does not count."""
    context = ContextManager()
    with ScriptServer([find("delete"), "One.", "Two.", "Three."]) as server:
        for number, place in ((1, "mail"), (2, "mail"), (3, "shop")):
            mounted = catalog().mount(run(number, place))
            Agent(chat_model("any", server.url), mounted, context=context).run("Go")
    assert [[SEARCH, "read"], [SEARCH, "read", "delete"], [SEARCH, "read"], [SEARCH]] == shown(server)


def test_the_next_step_is_told_from_the_messages_alone() -> None:
    """`prepare_step` says what the requests show, in a process that knows nothing but the messages."""
    told: list[SearchEvidence] = []
    with ScriptServer([find("delete secret"), "Done."]) as server:
        mounted = catalog(observe=told.append).mount(run(1))
        result = Agent(chat_model("any", server.url), mounted).run("Go")
    step = catalog(observe=told.append).prepare_step(NextStep(run(1), result.messages))
    assert shown(server)[1] == list(step.names)
    assert step.schema_bytes == sum(map(schema_bytes, step.tools))
    assert [("search", "mail", "run-1", 1), ("step", "mail", "run-1", 3)] == [
        (each.kind, each.surface, each.run, each.tools) for each in told
    ]
    assert "secret" not in repr(told)
    assert (SEARCH, "read") == catalog().prepare_step(NextStep(run(2), result.messages)).names


def test_pins_are_shown_as_far_as_the_ceilings_allow() -> None:
    """A pinned tool is there from the beginning; one that is too much, or unknown, is not, and can be found."""
    pinned = catalog(pins=lambda _run: ["print", "nope", "archive", "send"])
    assert (SEARCH, "read", "archive", "print") == pinned.prepare_step(NextStep(run(1), ())).names
    assert ["send", "delete"] == [tool.name for tool in pinned.mount(run(1)) if tool.deferred]


def test_a_catalog_that_cannot_hold_is_refused() -> None:
    """So is a surface that is none, a name that no tool has, and what is always shown and too much."""
    with pytest.raises(ConfigError, match="no surface 'moon'"):
        catalog().mount(run(1, "moon"))
    with pytest.raises(ConfigError, match=r"shows 2 tools of .* over a ceiling"):
        catalog(active=1)
    with pytest.raises(ConfigError, match="over a ceiling"):
        catalog(bytes=100)
    with pytest.raises(ConfigError, match="always shows 'x'"):
        DeferredCatalog(
            {"a": Surface(SHOP, ["x"])},
            lambda _run: "a",
            search=SearchLimits(max_query_bytes=1, max_results=1, max_result_bytes=1),
            activation=ActivationLimits(max_selected_tools=1, max_active_tools=9, max_schema_bytes=9_000),
        )


def test_the_tools_of_a_plain_list_are_all_shown() -> None:
    """Without a catalog a deferred tool is declared like any other, without a mark."""
    with ScriptServer(["Hello."]) as server:
        Agent(chat_model("any", server.url), [Tool("late", "x", lambda: "", deferred=True)]).run("Hi")
    assert "defer_loading" not in json.dumps(server.requests[0].json)
