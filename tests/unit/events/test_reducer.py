"""What the loop publishes comes out as named events, in order."""

from __future__ import annotations

from hypothesis import given, strategies as st

from plait.core import events, facts
from plait.core.exchange import Reply
from plait.core.facts import Entry, Fact
from plait.core.messages import Message, Reasoning, Text, ToolCall, ToolResult, assistant, user
from plait.core.usage import Usage
from plait.events import named
from plait.events.reducer import Reducer, arguments_of, counts, iso

AT_MS = 1_767_225_600_000
AT = "2026-01-01T00:00:00.000+00:00"


def committed(*found: Fact, at_ms: int = AT_MS, seq: int = 1) -> list[events.Event]:
    """Return facts as the driver publishes them, a second apart."""
    return [events.Committed(Entry(seq + i, at_ms + 1000 * i, "r", fact)) for i, fact in enumerate(found)]


def fed(*published: events.Event, reducer: Reducer | None = None) -> list[named.NamedEvent]:
    """Return what a reducer makes of everything that was published."""
    reducer = reducer or Reducer()
    return [event for each in published for event in reducer.feed(each)]


CALL = ToolCall.of("c1", "read_file", {"path": "a"})


def test_a_turn_with_one_call() -> None:
    """A call and its result come with name, arguments, times and what the tool said of files."""
    data = {"files": ["a"], "diff_summary": {"path": "a", "added": 1, "removed": 0}}
    turn = committed(
        facts.TurnStart(),
        facts.MessageAdded(user("go")),
        facts.MessageAdded(assistant("", [CALL]), Usage(10, 2, 4, 1), "tool_calls"),
        facts.ToolStart("c1"),
        facts.ToolEnd(ToolResult("c1", "text", data=data)),
        facts.RoundClosed(1),
        facts.MessageAdded(assistant(" done \n"), Usage(20, 3), "end_turn"),
        facts.TurnEnd("completed"),
    )

    assert [
        named.TurnStart(resumed=False, sender=""),
        named.Usage(10, 2, 12, 4, 1, cache_expires_in=3_600.0),
        named.ToolCall("read_file", {"path": "a"}, "c1", iso(AT_MS + 3000)),
        named.ToolResult(
            "read_file",
            "text",
            "c1",
            "ok",
            files=["a"],
            diff_summary={"path": "a", "added": 1, "removed": 0},
            started_at=iso(AT_MS + 3000),
            ended_at=iso(AT_MS + 4000),
            duration_ms=1000,
        ),
        named.Usage(20, 3, 23, 0, 0, cache_expires_in=3_596.0),
        named.FinalAnswer("done", streamed=False),
        named.SessionUsage(30, 5, 35, 4, 1),
        named.TurnEnd("completed", ""),
    ] == fed(*turn)


def test_a_call_that_never_ran_is_told_of_before_its_result() -> None:
    """A denied or invalid call has its `tool_call`, and a result without times."""
    turn = committed(
        facts.MessageAdded(assistant("", [CALL]), None, "tool_calls"),
        facts.ToolEnd(ToolResult("c1", "Denied by user.", status="denied")),
    )

    assert [
        named.ToolCall("read_file", {"path": "a"}, "c1", iso(AT_MS + 1000)),
        named.ToolResult("read_file", "Denied by user.", "c1", "denied"),
    ] == fed(*turn)


def test_arguments_are_the_ones_that_ran() -> None:
    """A call that was changed before it ran shows the changed arguments."""
    turn = committed(
        facts.MessageAdded(assistant("", [CALL]), None, "tool_calls"), facts.ToolStart("c1", '{"path":"b"}')
    )

    (event,) = fed(*turn)

    assert {"path": "b"} == event["args"]


def test_arguments_that_cannot_be_read_are_shown_as_text() -> None:
    """Broken JSON is given as it came, and free text as `input`."""
    assert {"arguments": "{oops"} == arguments_of(ToolCall("c", "t", "{oops"))
    assert {"input": "free text"} == arguments_of(ToolCall("c", "t", "free text", custom=True))


def test_fragments_are_marked_and_their_streams_end() -> None:
    """The first fragment of a kind says so, thoughts end before the answer begins, and ends come once."""
    published = [
        events.Delta("reasoning", "hm", 1),
        events.Delta("reasoning", "m", 1),
        events.Delta("content", "he", 1),
        events.Delta("content", "llo", 1),
        events.Delta("tool_arguments", "{}", 1),
        events.StreamEnd(1),
        events.StreamEnd(2),
    ]

    assert [
        named.ReasoningDelta("hm", first=True),
        named.ReasoningDelta("m", first=False),
        named.ReasoningStreamEnd(),
        named.ContentDelta("he", first=True),
        named.ContentDelta("llo", first=False),
        named.ContentStreamEnd(),
    ] == fed(*published)


def test_a_streamed_answer_says_so() -> None:
    """The final answer knows whether its text was shown already; an earlier step's text does not count."""
    reducer = Reducer()
    fed(events.Delta("content", "done", 1), events.StreamEnd(1), reducer=reducer)
    first = fed(*committed(facts.MessageAdded(assistant("done")), facts.TurnEnd("completed")), reducer=reducer)
    fed(events.StreamEnd(1), reducer=reducer)
    second = fed(*committed(facts.MessageAdded(assistant("done")), facts.TurnEnd("completed")), reducer=reducer)

    assert (True, False) == (first[0]["streamed"], second[0]["streamed"])


def test_an_interrupted_stream_ends_with_the_turn() -> None:
    """Fragments that never came to an end are closed before the turn's end, so that a terminal has its newline."""
    published = [events.Delta("content", "hal", 1), *committed(facts.TurnEnd("interrupted"))]

    assert [
        named.ContentDelta("hal", first=True),
        named.ContentStreamEnd(),
        named.TurnEnd("interrupted", ""),
    ] == fed(*published)


def test_a_withdrawn_attempt_begins_again() -> None:
    """After a reset the next fragment is a first one."""
    published = [
        events.Delta("content", "hal", 1),
        events.AttemptReset(1, 2, 1),
        events.Delta("content", "hello", 1),
    ]

    assert [
        named.ContentDelta("hal", first=True),
        named.AttemptReset(1, 2, 1),
        named.ContentDelta("hello", first=True),
    ] == fed(*published)


def test_a_retry_and_a_stated_wait() -> None:
    """Every retry is told; one for a rate limit also as a wait with the time it ends."""
    published = committed(
        facts.RetryScheduled(1, 500, "timeout", "slow"),
        facts.RetryScheduled(2, 2000, "rate_limit", "slow down", Usage(1, 1)),
    )

    assert [
        named.RetryScheduled(1, 0.5, "timeout", "slow"),
        named.Usage(1, 1, 2, 0, 0, purpose="retry"),
        named.RetryScheduled(2, 2.0, "rate_limit", "slow down"),
        named.RateLimitWait(2.0, iso(AT_MS + 3000), "endpoint"),
    ] == fed(*published)


def test_replaced_history() -> None:
    """A compaction gives its summary, what it cost and what is left; any other replacement its range."""
    summary = Message("summary", (Text("what was done"),))
    published = committed(
        facts.Reset(1, 9, (summary, user("task")), "compaction", Usage(100, 10), (9_000, 3_000)),
        facts.Reset(0, 2, (summary,), "compaction"),
        facts.Reset(0, 2, (), "host_edit"),
    )

    assert [
        named.Usage(100, 10, 110, 0, 0, purpose="compaction"),
        named.Compaction("what was done", 8, 9_000, 3_000, 13, 0.333),
        named.Compaction("what was done", 2, None, None, 13, None),
        named.ResetMessages("host_edit", 0, 2, 0),
    ] == fed(*published)


def test_a_question_and_a_nudge() -> None:
    """A call that waits for an answer is told with its arguments; a warning to the model as its text."""
    published = committed(
        facts.MessageAdded(assistant("", [CALL]), None, "tool_calls"),
        facts.Asked("c1", "r1", "May I?"),
        facts.MessageAdded(user("You repeat yourself.", mark="guard")),
    )

    assert [
        named.ApprovalRequired("read_file", {"path": "a"}, "c1", "r1", "May I?"),
        named.LoopGuard("You repeat yourself."),
    ] == fed(*published)


def test_a_notice_is_the_event_it_names() -> None:
    """What a host tells by name comes out under that name."""
    notice = events.Notice("token_limit", {"used": 3, "limit": 2, "raw_total": 4, "cached_total": 1})

    assert [named.TokenLimit(3, 2, 4, 1)] == fed(notice)


def test_observations_say_nothing() -> None:
    """What is recorded for reports is no event."""
    assert [] == fed(*committed(facts.Observation("note", {"text": "x"}), facts.RoundClosed(0)))


def test_usage_that_was_not_reported_counts_as_nothing() -> None:
    """Numbers that no endpoint reported are 0, and the sum of what was reported stays right."""
    reducer = Reducer(Usage(5, 5))
    fed(*committed(facts.MessageAdded(assistant("x"), Usage.UNAVAILABLE)), reducer=reducer)

    assert {"prompt": 5, "completion": 5, "total": 10, "cached": 0, "cache_write": 0} == counts(reducer.usage)


def test_a_time_is_iso_in_utc() -> None:
    """Milliseconds since 1970 read as ISO 8601."""
    assert AT == iso(AT_MS)


FACTS = st.lists(
    st.one_of(
        st.just(facts.TurnStart()),
        st.builds(
            lambda text: facts.MessageAdded(assistant(text, [CALL]), Usage(1, 1), "tool_calls"), st.text(max_size=5)
        ),
        st.just(facts.ToolStart("c1")),
        st.just(facts.ToolEnd(ToolResult("c1", "r"))),
        st.just(facts.ToolEnd(ToolResult("never seen", "r"))),
        st.just(facts.RetryScheduled(1, 10, "rate_limit")),
        st.just(facts.Reset(0, 0, (), "clear")),
        st.just(facts.Asked("c1", "r")),
        st.just(facts.TurnEnd("completed")),
    ),
    max_size=20,
)


@given(FACTS)
def test_a_log_that_is_read_again_gives_its_events_again(found: list[Fact]) -> None:
    """The same facts give the same events, whatever their order: a view can be rebuilt from a log."""
    published = committed(*found)

    assert fed(*published) == fed(*published)
    assert all(event.to_dict()["type"] == event.type for event in fed(*published))


def test_a_reply_is_only_what_a_model_said() -> None:
    """Thoughts are no part of the final answer."""
    reply = Reply(Message("assistant", (Reasoning("thinking"), Text("said"))), "end_turn")
    published = committed(facts.MessageAdded(reply.message), facts.TurnEnd("completed"))

    assert "said" == fed(*published)[0]["text"]
