"""Which tools are loaded follows from the messages, within ceilings, and outlives a compaction."""

from __future__ import annotations

import json

from hypothesis import given, strategies as st

from plait.core.exchange import ToolSchema
from plait.core.messages import Message, Text, ToolCall, ToolResult, assistant, user
from plait.kernel.deferral import (
    ActivationLimits,
    Deferral,
    Loading,
    active,
    announcement,
    carried,
    carried_names,
    is_mute,
    receipt,
    schema_bytes,
)
from plait.kernel.tools import Tool, ToolTable

NAMES = tuple("abcdefgh")
LIMITS = ActivationLimits(max_selected_tools=3, max_active_tools=5, max_schema_bytes=10_000)


def deferral(*, loading: Loading = "grow", keeps: bool = True, run: str = "r", surface: str = "s") -> Deferral:
    return Deferral(loading, LIMITS, surface, run, keeps)


def schema(name: str, size: int = 0, *, is_deferred: bool = True) -> ToolSchema:
    return ToolSchema(name, "x" * size, {"type": "object"}, deferred=is_deferred)


TOOLS = (schema("search_tools", is_deferred=False), schema("look", is_deferred=False), *map(schema, NAMES))


def found(*names: str, terms: Deferral | None = None, call_id: str = "c") -> Message:
    """Return the results of a step that has searched."""
    return Message("tool", (ToolResult(call_id, "Loaded", data=receipt(names, terms or deferral())),))


def loaded(*messages: Message, terms: Deferral | None = None) -> list[str]:
    return [tool.name for tool in active(terms or deferral(), TOOLS, messages)]


def test_what_searches_chose_is_loaded_in_their_order() -> None:
    """Receipts add up, names that no tool has and repeats do not count, nor do results that failed or say something."""
    failed = Message("tool", (ToolResult("c", "x", is_error=True, data=receipt(["d"], deferral())),))
    odd = Message("tool", (ToolResult("c", data={"tools_loaded": {"version": 9, "names": ["e"]}}),))
    assert ["b", "a"] == loaded(found("b"), user("b"), found("zzz", "a", "b"), failed, odd)
    assert [] == loaded(found("look"))


def test_where_nothing_is_kept_the_last_step_that_searched_says_alone() -> None:
    """Several searches of one step are merged in call order; a step that found nothing changes nothing."""
    terms = deferral(keeps=False)
    both = Message("tool", found("c", terms=terms).parts + found("a", terms=terms, call_id="d").parts)
    nothing = Message("tool", (ToolResult("c", "No tool fits."),))
    assert ["c", "a"] == loaded(found("b", terms=terms), both, nothing, terms=terms)


def test_another_run_or_surface_inherits_nothing() -> None:
    """A receipt counts where it was given."""
    assert [] == loaded(found("a", terms=deferral(run="other")), found("b", terms=deferral(surface="other")))


@given(
    st.lists(st.lists(st.sampled_from([*NAMES, "look", "made_up"]), max_size=6), max_size=8),
    st.integers(0, 12),
    st.integers(0, 700),
    st.booleans(),
)
def test_p_def_2_no_ceiling_is_ever_passed(steps: list[list[str]], count: int, size: int, keeps: bool) -> None:
    """Whatever searches chose, what is shown beside the tools that are always shown fits, and is no surprise."""
    limits = ActivationLimits(max_selected_tools=9, max_active_tools=count, max_schema_bytes=size)
    terms = Deferral("grow", limits, keeps=keeps)
    tools = [schema(tool.name, index * 17, is_deferred=tool.deferred) for index, tool in enumerate(TOOLS)]
    messages = [found(*names, terms=terms) for names in steps]
    chosen = active(terms, tools, messages)
    shown = [*tools[:2], *chosen]
    assert not chosen or (len(shown) <= count and sum(map(schema_bytes, shown)) <= size)
    assert {tool.name for tool in chosen} <= {name for names in steps for name in names} & set(NAMES)
    assert chosen == active(terms, tools, messages)


@given(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), max_size=5), st.integers(0, 5), st.booleans())
def test_p_def_1_a_compaction_keeps_what_was_loaded(steps: list[list[str]], at: int, keeps: bool) -> None:
    """What has to stay of messages that go loads the same tools, also the second time."""
    terms = deferral(keeps=keeps)
    messages = [found(*names, terms=terms) for names in steps]
    short = [Message("summary", (Text("so far"),)), *carried(messages[:at]), *messages[at:]]
    again = [Message("summary", (Text("so far"),)), *carried(short)]
    assert loaded(*messages, terms=terms) == loaded(*short, terms=terms) == loaded(*again, terms=terms)
    assert all(is_mute(message) for message in again[1:])
    gone = {name for names in steps[:at] for name in names}
    assert not keeps or gone == carried_names(terms, short)


def test_a_system_message_that_declares_tools_loads_them() -> None:
    """It is nobody's word, survives JSON, and stays through a compaction as it is."""
    told = announcement([{"type": "function", "function": {"name": "a", "parameters": {}}}])
    assert ["a"] == loaded(told)
    assert (told,) == carried([user("x"), told, assistant("y")])
    assert [True, False, False] == [is_mute(each) for each in (told, user("a"), found("a"))]


def test_only_what_is_loaded_may_be_called() -> None:
    """A deferred tool is refused before its search, and told apart from one too many and from no tool at all."""
    limits = ActivationLimits(max_selected_tools=9, max_active_tools=2, max_schema_bytes=10_000)
    terms = Deferral("grow", limits)
    tools = [Tool(name, "x", lambda: "", deferred=name != "look") for name in ("look", "a", "b")]
    table = ToolTable([*tools, Tool("other", "x", lambda: "", alias_of="a")], deferral=terms)
    history = [found("a", "b", terms=terms)]

    def said(name: str, *messages: Message) -> str:
        result = table.check(ToolCall("1", name), messages)
        return "" if result is None else f"{(result.data or {}).get('code')}: {result.content}"

    assert "SEARCH_REQUIRED: ERROR: The tool 'a' is not loaded" in said("a")
    assert "SEARCH_REQUIRED" in said("other")
    assert ["", "", ""] == [said("look"), said("a", *history), said("other", *history)]
    assert "SEARCH_REQUIRED: ERROR: The tool 'b' cannot be loaded" in said("b", *history)
    assert said("zzz").startswith("None: Unknown tool")
    assert [] == [name for name in ("look", "a", "b") if ToolTable(tools).check(ToolCall("1", name)) is not None]


def test_a_receipt_is_plain_json() -> None:
    """It says for which surface and run it holds, in a version."""
    told = receipt(["a"], deferral())
    assert {"tools_loaded": {"version": 1, "surface": "s", "run": "r", "names": ["a"]}} == json.loads(json.dumps(told))
