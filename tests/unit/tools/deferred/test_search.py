"""The search for tools: its order, its ceilings, its words."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.exchange import ToolSchema
from plait.core.messages import Message, ToolCall, ToolResult, assistant
from plait.kernel.deferral import ActivationLimits, Deferral, receipt
from plait.kernel.tools import ToolContext
from plait.tools.deferred.ranking import rank
from plait.tools.deferred.search import SearchEvidence, Searching, SearchLimits, with_search

CATALOG = [
    ("create_issue", "Open an issue in a tracker."),
    ("issue_comment_create", "Write a comment below an issue."),
    ("createPullRequest", "Ask for a merge of a branch."),
    ("weather", "Temperature and rain for a city; can create a forecast."),
    ("db.query", "Run SQL against the database."),
    ("übersetzen", "Übersetze einen Text ins Deutsche."),
]


@pytest.mark.parametrize(
    "query, expected",
    [
        ("create_issue", ["create_issue", "issue_comment_create", "createPullRequest", "weather"]),
        ("please load weather and db.query", ["weather", "db.query"]),
        ("create", ["create_issue", "issue_comment_create", "createPullRequest", "weather"]),
        ("open an issue", ["create_issue", "issue_comment_create"]),
        ("comment on issue", ["issue_comment_create", "create_issue"]),
        ("pull request", ["createPullRequest"]),
        ("merge", ["createPullRequest"]),
        ("SQL", ["db.query"]),
        ("deutsche Übersetzung", ["übersetzen"]),
        ("rain", ["weather"]),
        ("an in of", []),
        ("nothing like it", []),
        ("", []),
    ],
)
def test_the_order_of_what_fits(query: str, expected: list[str]) -> None:
    """A whole name comes first, then the words of names, then those of descriptions, then the order of registration."""
    assert expected == rank(query, [ToolSchema(name, about, {}, deferred=True) for name, about in CATALOG])


def searching(**given: Any) -> tuple[Any, Deferral, list[SearchEvidence]]:
    """Return a search, its terms, and what is told of it."""
    limits = ActivationLimits(
        max_selected_tools=given.get("selected", 3), max_active_tools=given.get("active", 9), max_schema_bytes=9_000
    )
    terms = Deferral("kimi", limits, keeps=given.get("keeps", True))
    bounds = SearchLimits(
        max_query_bytes=given.get("query", 40),
        max_results=given.get("results", 5),
        max_result_bytes=given.get("bytes", 2_000),
    )
    told: list[SearchEvidence] = []
    how = Searching(terms, bounds, given.get("selector"), told.append)
    return with_search([], how)[0].fn, terms, told


SEARCH = ToolSchema("search_tools", "Find tools.", {"type": "object"})
TOOLS = (
    SEARCH,
    ToolSchema("look", "", {"type": "object"}),
    *(ToolSchema(f"t{n}", f"Tool {n}, {'about ' * 40}", {"type": "object"}, deferred=True) for n in range(10)),
)


def ask(fn: Any, query: str, *history: Message) -> ToolResult:
    """Search among ten tools, as a host does."""
    found = fn(query, ToolContext("c", "k", Cancel(), history=history, tools=TOOLS))
    return asyncio.run(found) if inspect.isawaitable(found) else found  # type: ignore[arg-type, return-value]


def names(result: ToolResult) -> list[str]:
    told: Any = (result.data or {}).get("tools_loaded")
    return [] if told is None else list(told["names"])


def test_p_def_3_a_search_says_names_and_a_word_about_each() -> None:
    """Its text has no schema, its receipt the names; who watches is told numbers and no word of the query."""
    fn, _, told = searching()
    result = ask(fn, "tool about secret")
    assert ["t0", "t1", "t2"] == names(result)
    assert 7 == (result.data or {})["left_out"]
    assert 4 == len(result.content.splitlines())
    assert "object" not in result.content
    assert [("search", 10, 3)] == [(each.kind, each.found, each.tools) for each in told]
    assert "secret" not in repr(told)


def test_a_search_keeps_to_its_bounds() -> None:
    """A query that is empty or too long is refused; few bytes leave the names, fewer still only some of them."""
    fn, _, _ = searching()
    assert "INVALID_INPUT" == (ask(fn, " ").data or {})["code"]
    assert "TOO_LARGE" == (ask(fn, "x" * 41).data or {})["code"]
    assert "No tool fits" in ask(fn, "zebra").content
    assert 2 == len(names(ask(searching(results=2)[0], "tool")))
    small = ask(searching(bytes=53)[0], "tool")
    assert (["t0", "t1"], True) == (names(small), len(small.content.encode()) <= 53)
    assert [] == names(ask(searching(bytes=5)[0], "tool"))


def test_p_def_2_a_search_loads_only_what_fits_beside_what_is_loaded() -> None:
    """What is loaded already costs nothing more, what does not fit is not promised, searches side by side share."""
    fn, terms, _ = searching(active=5)
    before = Message("tool", (ToolResult("b", data=receipt(["t5", "t0"], terms)),))
    assert ["t0", "t1"] == names(ask(fn, "tool", before))
    full = Message("tool", (ToolResult("b", data=receipt(["t5", "t6", "t7"], terms)),))
    assert "no more can be loaded" in ask(fn, "tool", full).content
    fresh, _, _ = searching(active=5, keeps=False)
    assert ["t0", "t1", "t2"] == names(ask(fresh, "tool", full))
    twice = assistant("", [ToolCall("c", "search_tools"), ToolCall("d", "search_tools")])
    assert ["t0"] == names(ask(fn, "tool", twice))


def test_a_selector_gives_back_names_and_nothing_else_counts() -> None:
    """Its names are filtered and counted once, a single text is one name, and what it raises is its own."""
    assert ["t3"] == names(ask(searching(selector=lambda *_: ["t3", "nope", "look", "t3"])[0], "x"))
    assert ["t4"] == names(ask(searching(selector=lambda *_: "t4")[0], "x"))

    async def later(_query: str, catalog: list[dict[str, Any]]) -> list[str]:
        return [entry["function"]["name"] for entry in catalog if "defer_loading" not in entry["function"]][-1:]

    assert ["t9"] == names(ask(searching(selector=later)[0], "x"))
    assert ["t9"] == names(ask(searching(selector=lambda *given: later(*given))[0], "x"))
    with pytest.raises(ZeroDivisionError):
        ask(searching(selector=lambda *_: 1 // 0)[0], "x")
