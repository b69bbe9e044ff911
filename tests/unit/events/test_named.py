"""Named events are frozen, read like mappings, and rendered only when asked."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from plait.events import named, render
from plait.events.named import EVENTS, NOT_YET, NamedEvent

CALL = named.ToolCall("read_file", {"path": "a.py"}, "c1", "2026-01-01T00:00:00.000+00:00")


def test_attributes_and_keys_say_the_same() -> None:
    """An event is read by attribute or by key, and has no other keys."""
    assert ("read_file", "read_file") == (CALL.name, CALL["name"])
    assert ["name", "args", "call_id", "ts"] == list(CALL) == list(dict(CALL))
    assert 4 == len(CALL)
    assert CALL.get("nothing") is None
    with pytest.raises(KeyError):
        CALL["nothing"]


def test_fmt_is_rendered_when_asked_and_is_no_data() -> None:
    """`fmt` can be had of every event, and stands neither in the mapping nor in its JSON."""
    assert "fmt" in CALL
    assert isinstance(CALL["fmt"], str)
    assert "fmt" not in dict(CALL)
    assert "fmt" not in json.loads(json.dumps(CALL.to_dict()))
    assert "\x1b" not in json.dumps(CALL.to_dict())


def test_an_event_cannot_be_changed() -> None:
    """A handler cannot change what the next handler sees."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        CALL.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        CALL["name"] = "other"  # type: ignore[index]


def test_events_equal_their_mapping_and_no_other_event() -> None:
    """Two events are equal when their type and data are; an event equals the dict of its data."""
    content, reasoning = named.ContentDelta("x", first=True), named.ReasoningDelta("x", first=True)

    assert content == named.ContentDelta("x", first=True)
    assert content == {"text": "x", "first": True, "no_newline": True}
    assert content != reasoning
    assert content != 3


def test_the_set_of_events_is_closed() -> None:
    """Every event has a name of its own, and no name is both there and not yet there."""
    classes = NamedEvent.__subclasses__()

    assert set(EVENTS.values()) <= set(classes)
    assert all(name == event.type for name, event in EVENTS.items())
    assert set() == NOT_YET & set(EVENTS)
    assert {"tool_call", "tool_result", "content_delta", "usage", "error", "final_answer"} <= set(EVENTS)


def test_no_field_hides_a_method_of_the_mapping() -> None:
    """An event's fields are not called like what every mapping and every event has."""
    taken = {name for name in dir(NamedEvent) if not name.startswith("__")} | {"fmt"}

    for event in EVENTS.values():
        assert set() == taken & {field.name for field in dataclasses.fields(event)}, event


@pytest.mark.parametrize("hostile", ["\x1b]0;title\x07", "\x9b2J", "a\rb", "\u202eright"])
def test_what_a_model_wrote_moves_no_cursor(hostile: str) -> None:
    """Control characters in any text of an event are spelt out, with and without colour."""
    events: list[NamedEvent] = [
        named.ContentDelta(hostile, first=True),
        named.ReasoningDelta(hostile, first=True),
        named.ToolCall(hostile, {"command": hostile}, "c", ""),
        named.ToolResult(hostile, hostile, "c", "ok", diff_summary={"path": hostile, "added": 1, "removed": 0}),
        named.FinalAnswer(hostile, streamed=False),
        named.Error(hostile, "X", hostile),
        named.ApprovalRequired(hostile, {}, "c", "r", hostile),
        named.RetryScheduled(1, 1.0, "timeout", hostile),
        named.LoopGuard(hostile),
        named.CacheMiss(0, 5, 9, "ours", hostile, hostile),
        named.CacheProofMissing(0, 9, "ours", hostile, hostile),
        named.CacheWritten(9, "ours", hostile, hostile),
        named.PrefixChanged(hostile, None, hostile),
    ]

    for event in events:
        plain = render.render(event, color=False)
        assert not any(char in plain for char in "\x1b\x07\x9b\r\u202e"), event.type
        assert "\x07" not in str(event["fmt"])


def test_colour_is_only_decoration() -> None:
    """Without its colour codes a rendered line is the line that is rendered without colour."""
    result = named.ToolResult("exec_shell", "one\ntwo", "c", "error", duration_ms=1500)

    coloured, plain = render.render(result), render.render(result, color=False)

    assert "\x1b" in coloured
    assert "✗ error exec_shell 1.5s\n  one\n  two" == plain
    assert plain == re.sub(r"\x1b\[\d+m", "", coloured)


@pytest.mark.parametrize(
    "event, shown",
    [
        (named.ToolCall("exec_shell", {"command": "make"}, "c", ""), "→ exec_shell make"),
        (named.ToolCall("glob", {"pattern": "*.py", "path": "."}, "c", ""), '→ glob {"pattern":"*.py","path":"."}'),
        (named.ToolResult("t", "x" * 300, "c", "ok"), f"✓ t\n  {'x' * 199}…"),
        (
            named.ToolResult("t", "\n".join("abcdefghij"), "c", "ok"),
            "✓ t\n" + "".join(f"  {c}\n" for c in "abcdefgh") + "  … 2 more lines",
        ),
        (
            named.ToolResult("write_file", "OK", "c", "ok", diff_summary={"path": "a", "added": 2, "removed": 1}),
            "✓ write_file  a +2 -1\n  OK",
        ),
        (named.ToolResult("t", "shown before", "c", "ok", streamed=True), "✓ t"),
        (named.Usage(1200, 45, 1245, 800, 0), "tokens: 1,200 in (800 cached), 45 out"),
        (named.Usage(5, 6, 11, 0, 0, purpose="compaction"), "tokens (compaction): 5 in, 6 out"),
        (named.SessionUsage(5, 6, 11, 0, 0), "session: 5 in, 6 out"),
        (named.CacheUnmeasurable(), "[cache: the endpoint does not say what it holds]"),
        (named.CacheCold(7_201.4, 3_600), "[cache: gone cold after 7,201 s]"),
        (named.CacheCold(None, 3_600), "[cache: gone cold after a while]"),
        (named.CacheWritten(5_000), "[cache: 5,000 tokens were written anew, none was read]"),
        (named.CacheBelowMinimum(120, 1_024), "[cache: 120 tokens are fewer than the 1,024 that it takes]"),
        (named.CacheProofMissing(None, 9), "[cache: this answer does not say what was read from it]"),
        (
            named.CacheProofMissing(0, 9_000, "provider"),
            "[cache: none of 9,000 tokens was read from it; it went on from the last request, the provider lost it]",
        ),
        (
            named.CacheMiss(128, 9_000, 9_100, "ours", "message 3", "host_edit"),
            "[cache: 128 tokens were read of the 9,000 sent before; message 3 changed (host_edit)]",
        ),
        (named.CacheMiss(0, None, 9, "expired"), "[cache: 0 tokens were read; too much time had passed]"),
        (named.PrefixChanged("tools", None, "resumed"), "[the request changed at its tools: resumed]"),
        (named.PrefixChanged("message", 3, "host_edit"), ""),
        (named.PrefixChanged("message", 3, "unexplained"), "[the request changed at its message 3: unexplained]"),
        (named.FinalAnswer("done", streamed=True), ""),
        (named.FinalAnswer("done", streamed=False), "done"),
        (named.ContentStreamEnd(), "\n"),
        (named.TokenLimit(30, 20, 50, 20), "[token limit: 30 of 20 used in this turn]"),
        (named.Compaction("s", 12), "[12 messages were replaced by a summary]"),
        (named.CompactionRetry(4), "[the conversation does not fit the request for its summary; a part of it is sent]"),
        (
            named.CompactionPreparationSkipped("no\x1b"),
            "[no summary was written, a list of what went takes its place: no\\x1b]",
        ),
        (named.ContextOverflowRetry(1), "[the conversation did not fit the model; it was made shorter]"),
        (
            named.ContextOverflowAbort(3),
            "[the conversation does not fit the model, and cannot be made shorter]",
        ),
        (named.SessionRestored("s1", 3), "[session s1 goes on with 3 messages]"),
        (named.RetryScheduled(1, 0.5, "timeout", "slow"), "[timeout: slow; again in 0.5 s]"),
        (named.AttemptReset(1, 2, 3), "\n[the answer so far is withdrawn; attempt 2]"),
        (named.Error("it broke", "X", "it broke"), "error: it broke"),
        (named.TurnEnd("completed", ""), ""),
    ],
)
def test_an_event_as_a_line(event: NamedEvent, shown: str) -> None:
    """Each event reads as one short line, and those for programs as nothing."""
    assert shown == render.render(event, color=False)


def test_arguments_that_json_cannot_carry_are_shown_all_the_same() -> None:
    """A value that no JSON holds does not break the line."""
    event = named.ToolCall("t", {"a": float("nan"), "b": 1}, "c", "")

    assert "→ t {'a': nan, 'b': 1}" == render.render(event, color=False)
