"""Which messages give way to a summary: the laws of the choice."""

from __future__ import annotations

from hypothesis import given, strategies as st

from plait.core.facts import Reset
from plait.core.messages import PINNED, Control, Image, Message, Text, ToolResult, assistant, user
from plait.kernel.compact import compact
from plait.kernel.effects import Think
from plait.kernel.history import fault_in
from plait.kernel.rules import Rules, Shrinking
from plait.kernel.scripted import play
from plait.kernel.spans import (
    Compactable,
    choose,
    estimate_tokens,
    estimated,
    select_compactable,
    select_within,
    weight,
)
from plait.kernel.state import State
from tests.helpers.worlds import failed, look_at, said
from tests.unit.kernel.test_compact import histories

NOTES = st.sampled_from(["notes", "N" * 5_000, "", "?!", "failed", "overflow", "cut"])


def pinned(message: Message) -> Message:
    return Message(message.role, (*message.parts, Control(PINNED)))


@st.composite
def grown(draw: st.DrawFn) -> State:
    """Return a state with a history of any kind and size, some of it pinned, in the middle of a turn."""
    history, began = draw(histories)
    words = draw(st.sampled_from(["", "w" * 100, "w" * 3_000]))
    state = State()
    for message in history:
        made = message
        if words and message.role == "tool":
            made = Message("tool", tuple(ToolResult(result.call_id, words) for result in message.tool_results))
        elif words and message.role in ("user", "assistant") and not message.tool_calls:
            made = Message(message.role, (Text(message.content + words),))
        pins = message.role in ("user", "assistant") and draw(st.booleans()) and draw(st.booleans())
        state.history.append(pinned(made) if pins else made)
    state.turn_began, state.in_turn = began, True
    return state


def answer_to(word: str) -> object:
    match word:
        case "failed":
            return failed("auth")
        case "overflow":
            return failed("context_overflow")
        case "cut":
            return said("half", "length")
        case _:
            return said(word)


@given(
    grown(),
    st.builds(
        Shrinking,
        keep_last_units=st.integers(1, 4),
        keep_last_turns=st.none() | st.integers(0, 3),
        kept_tokens_max=st.sampled_from([0, 100, 20_000]),
    ),
    st.sampled_from(["threshold", "overflow"]),
    NOTES,
)
def test_a_compaction_leaves_what_it_must(state: State, shrinking: Shrinking, why: str, word: str) -> None:
    """For any history, model and rules: rounds stay whole, task and pins stay, it shrinks or stays, and can be undone.

    The last step is never touched, and whatever the model does there is an end to it.
    """
    before = list(state.history)
    task = next((each for each in before[state.turn_began :] if each.role == "user"), None)
    rounds = {id(each) for index, each in enumerate(before) if is_pinned(before, index)}

    trace = play(compact(state, Rules(shrinking=shrinking), why), iter([answer_to(word)] * 2))  # type: ignore[arg-type, list-item]

    after = state.history
    resets = [fact for fact in trace.facts if isinstance(fact, Reset) and not fact.is_skipped]
    assert fault_in(after) is None
    assert task is None or any(each is task for each in after)
    assert rounds <= {id(each) for each in after}
    assert (weight(after) < weight(before)) == bool(resets) == (after is not before and after != before)
    if before and resets:
        (reset,) = resets
        assert reset.end < len(before)
        assert before[: reset.start] == after[: reset.start]
        assert before[reset.end :] == after[reset.start + len(reset.messages) :]
        assert ["summary"] == [each.role for each in reset.messages if each.role == "summary"]
    assert sum(isinstance(effect, Think) for effect in trace.effects) <= 2


def is_pinned(history: list[Message], index: int) -> bool:
    message = history[index]
    return message.marked(PINNED) or (message.role == "tool" and history[index - 1].marked(PINNED))


@given(histories, st.integers(0, 4))
def test_three_parts_make_up_the_history(made: tuple[list[Message], int], keep: int) -> None:
    """Leading summaries, what may go and what stays are the history again, and what stays is valid behind a summary."""
    history, _ = made

    parts = select_compactable(history, keep)

    assert history == [*parts.leading_summary, *parts.compactable, *parts.retained]
    assert fault_in([Message("summary", (Text("s"),)), *parts.retained]) is None
    assert all(each.role == "summary" for each in parts.leading_summary)


def test_an_open_turn_and_all_after_it_stay() -> None:
    """A call without a result keeps its whole turn from being summarised, and everything that came later."""
    first = [Message("summary", (Text("s"),)), user("a"), assistant("b")]
    rest = [user("c"), assistant(calls=[look_at("x")]), user("d"), assistant("e"), user("f")]

    assert Compactable(tuple(first[:1]), tuple(first[1:]), tuple(rest)) == select_compactable([*first, *rest], 0)
    assert Compactable((), (), tuple(rest[:2])) == select_compactable(rest[:2], 0)


def round_of(name: str, size: int = 400) -> list[Message]:
    return [assistant(calls=[look_at(name)]), Message("tool", (ToolResult(name, "x" * size),))]


def test_turns_are_kept_where_they_fit() -> None:
    """So many turns stay as fit into what is to be kept; in a single long turn its last steps do."""
    turns = [[user(f"q{number}"), *round_of(f"c{number}"), assistant("done")] for number in range(4)]
    history = [message for turn in turns for message in turn]
    long = [user("task"), *[message for number in range(9) for message in round_of(f"d{number}")]]

    def end_of(history: list[Message], keep: int, tokens: int, began: int = 0) -> int | None:
        span = select_within(history, began, keep, tokens)
        return None if span is None else span.end

    assert 8 == end_of(history, 2, 10_000)
    assert 12 == end_of(history, 2, 150)
    assert 4 == end_of(history, 3, 10_000)
    assert (15, 17) == (end_of(long, 2, 10_000), end_of(long, 2, 50))
    assert (1, 15, None) == select_within(long, 0, 2, 10_000)
    assert 17 == end_of(long, 0, 10_000)
    assert None is select_within(long[:3], 0, 2, 0)


def test_a_task_in_the_middle_stays() -> None:
    """Where older turns and the beginning of a long one go, that one's task stays word for word."""
    history = [user("old"), assistant("did"), user("new"), *round_of("a"), *round_of("b"), *round_of("c")]

    span = select_within(history, 2, 1, 150)

    assert span is not None
    assert (0, 7, history[2]) == span


def test_less_than_the_least_is_not_summarised() -> None:
    """A floor in characters keeps small histories as they are."""
    state = State()
    state.history = [user("task"), *round_of("a"), *round_of("b"), *round_of("c")]

    assert choose(state, Shrinking(keep_last_turns=1, kept_tokens_max=0), "threshold") is not None
    assert None is choose(state, Shrinking(keep_last_turns=1, kept_tokens_max=0, chars_min=10_000), "threshold")


def test_pictures_weigh() -> None:
    """A picture counts as a thousand tokens, so that taking it out is a gain."""
    seen = user("abcd", [Image("aGk=")])

    assert (1_001, 1_001, 4_004) == (estimate_tokens(seen), estimated([seen]), weight([seen]))
