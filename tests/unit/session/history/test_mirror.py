"""The list that a host reads and edits, and the history, say the same, whichever of them changed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.core.errors import ConfigError
from plait.core.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult, assistant, user
from plait.kernel.history import fault_in
from plait.session.history.mirror import Mirror, has_system, read_history, system_of

PROMPT = {"role": "system", "content": "Be good."}


class Both:
    """A history and the list that shows it, kept together as a session does."""

    def __init__(self, *messages: Message) -> None:
        self.mirror = Mirror()
        self.items: list[dict[str, Any]] = [dict(PROMPT)]
        self.history: list[Message] = list(messages)
        self.epoch = 0
        self.follow()

    def follow(self) -> None:
        """Bring the list up to the history."""
        self.mirror.follow(self.history, self.epoch, self.items)

    def take_edits(self) -> tuple[int, int, tuple[Message, ...]] | None:
        """Record what was changed in the list; return what was replaced."""
        edit = self.mirror.edit(self.items)
        replacement = None if edit is None else edit.replacement(self.history)
        if replacement is None:
            self.mirror.settle(self.items)
            return None
        start, end, messages = replacement
        self.history = [*self.history[:start], *messages, *self.history[end:]]
        self.epoch += 1
        self.follow()
        return replacement


def round_of(*ids: str) -> tuple[Message, Message]:
    """Return an assistant message with calls, and their results."""
    calls = [ToolCall.of(call_id, "t", {"n": index}) for index, call_id in enumerate(ids)]
    return assistant("", calls), Message("tool", tuple(ToolResult(call_id, f"r{call_id}") for call_id in ids))


TALK = (user("one"), *round_of("a", "b"), assistant("two"), user("three"), *round_of("c"), assistant("four"))


def test_a_conversation_as_chat_messages() -> None:
    """Each result is an item of its own; a summary is a user's message that says so; thoughts are shown."""
    both = Both(
        Message("summary", (Text("before"),)),
        user("look", [Image.from_url("http://x/a.png")]),
        *round_of("a", "b"),
        Message("assistant", (Reasoning("hm"), Text("done")), "here"),
    )

    assert [
        PROMPT,
        {"role": "user", "content": "before", "compacted_summary": True},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "http://x/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "t", "arguments": '{"n":0}'}},
                {"id": "b", "type": "function", "function": {"name": "t", "arguments": '{"n":1}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "ra"},
        {"role": "tool", "tool_call_id": "b", "content": "rb"},
        {"role": "assistant", "content": "done", "reasoning_content": "hm"},
    ] == both.items


def test_new_messages_are_appended_to_the_same_list() -> None:
    """The host's list object stays the same one, and what it already held is left alone."""
    both = Both(*TALK)
    items, first = both.items, both.items[1]

    both.history.append(user("five"))
    both.follow()

    assert items is both.items
    assert first is both.items[1]
    assert {"role": "user", "content": "five"} == items[-1]
    assert both.take_edits() is None


def test_a_list_that_was_not_touched_is_no_edit() -> None:
    """An equal list is no edit, whether it is the same object or a copy."""
    both = Both(*TALK)
    both.items = copy.deepcopy(both.items)

    assert both.take_edits() is None


def test_an_appended_question_is_the_smallest_change() -> None:
    """What a host appends is inserted at the end; nothing before it changes, and no message is made anew."""
    both = Both(*TALK)
    before = list(both.history)
    both.items.append({"role": "user", "content": "five"})

    assert (len(before), len(before), (user("five"),)) == both.take_edits()
    assert all(old is new for old, new in zip(before, both.history, strict=False))


def test_a_changed_text_is_one_message() -> None:
    """An edit in place replaces that message alone."""
    both = Both(*TALK)
    both.items[1]["content"] = "uno"

    assert (0, 1, (user("uno"),)) == both.take_edits()


def test_a_changed_result_is_one_message() -> None:
    """An edited result replaces the message that holds its round's results, and not the calls."""
    both = Both(*TALK)
    both.items[4]["content"] = "other"
    replaced = both.take_edits()

    assert replaced is not None
    assert (2, 3, ["ra", "other"]) == (*replaced[:2], [r.content for r in replaced[2][0].tool_results])


def test_an_edit_in_a_nested_value_is_noticed() -> None:
    """Changed arguments of a call are a change."""
    both = Both(*TALK)
    both.items[2]["tool_calls"][0]["function"]["arguments"] = '{"n":7}'

    assert both.take_edits() is not None
    assert '{"n":7}' == both.history[1].tool_calls[0].raw


def test_what_the_history_does_not_know_is_kept_in_the_list() -> None:
    """A key of the host's own is no change of the history, and stays where it was put."""
    both = Both(*TALK)
    both.items[1]["note"] = {"mine": 1}

    assert both.take_edits() is None
    both.history.append(user("more"))
    both.follow()
    assert {"mine": 1} == both.items[1]["note"]


def test_the_mark_on_the_next_question_is_shown_once() -> None:
    """What is noted for the next user message stands on that one only, and is no edit."""
    both = Both()
    both.mirror.note = {"sender": {"kind": "peer"}}
    both.history += [user("one"), user("two")]
    both.follow()

    assert [{"kind": "peer"}, None] == [item.get("sender") for item in both.items[1:]]
    assert both.take_edits() is None


def test_a_deleted_round_goes_whole() -> None:
    """Calls and results that are deleted together leave a valid history."""
    both = Both(*TALK)
    del both.items[2:5]

    assert (1, 3, ()) == both.take_edits()
    assert fault_in(both.history) is None


def test_calls_without_results_get_one_that_says_so() -> None:
    """A result that a host deletes is replaced by one that says that it is gone; the list shows it."""
    both = Both(*TALK)
    del both.items[4]
    both.take_edits()

    assert fault_in(both.history) is None
    assert ["ra", "This result is gone: it was removed from the conversation."] == [
        result.content for result in both.history[2].tool_results
    ]
    assert "gone" in both.items[4]["content"]


def test_results_without_calls_go() -> None:
    """A result whose call was deleted, or never was, is dropped from both."""
    both = Both(*TALK)
    del both.items[2]
    both.items.append({"role": "tool", "tool_call_id": "nobody", "content": "x"})
    both.take_edits()

    assert fault_in(both.history) is None
    assert ["user", "assistant", "user", "assistant", "tool", "assistant"] == [m.role for m in both.history]
    assert 7 == len(both.items)


def test_an_edit_that_mending_undoes_changes_nothing() -> None:
    """A result that answers no call is taken out of the list, and the history stays as it was."""
    both = Both(*TALK)
    before = copy.deepcopy(both.items)
    both.items.append({"role": "tool", "tool_call_id": "nobody", "content": "x"})

    assert both.take_edits() is None
    assert before == both.items


def test_a_message_between_a_call_and_its_result_comes_after_them() -> None:
    """Results stay with their calls: what was put between them stands after."""
    both = Both(*TALK)
    both.items.insert(3, {"role": "user", "content": "wait"})
    both.take_edits()

    assert fault_in(both.history) is None
    assert ["one", "", "", "wait", "two"] == [message.content for message in both.history[:5]]
    assert ["ra", "rb"] == [result.content for result in both.history[2].tool_results]


def test_another_list_in_its_place() -> None:
    """A host may put a new list where the old one was; everything in it is read."""
    both = Both(*TALK)
    both.items = [{"role": "user", "content": "anew"}]
    both.take_edits()

    assert [user("anew")] == both.history
    assert [{"role": "user", "content": "anew"}] == both.items


def test_a_system_message_in_the_middle_is_kept() -> None:
    """A system message after the first is sent where it stands."""
    both = Both(user("one"))
    both.items.append({"role": "system", "content": "Mind the gap."})
    both.take_edits()

    assert [PROMPT, {"role": "user", "content": "one"}, {"role": "system", "content": "Mind the gap."}] == both.items
    assert both.take_edits() is None


def test_a_system_prompt_is_told_apart() -> None:
    """Only the first item can be the system prompt, with text or with parts."""
    assert "Be good." == system_of([PROMPT])
    assert "ab" == system_of([{"role": "developer", "content": [{"type": "text", "text": t} for t in "ab"]}])
    assert "" == system_of([{"role": "user", "content": "x"}])
    assert (False, False) == (has_system([]), has_system([{"role": "system", "tools": []}]))


@pytest.mark.parametrize("item", [None, "text", {"role": "wizard", "content": "x"}, {"content": "x"}])
def test_what_is_no_message_is_refused(item: object) -> None:
    """An item without a role that conversations have is an error that shows it, and changes nothing."""
    both = Both(*TALK)
    both.items.append(item)  # type: ignore[arg-type]

    with pytest.raises(ConfigError, match=r"session\['messages'\] holds"):
        both.take_edits()
    both.items.pop()
    assert both.take_edits() is None


def test_a_replacement_of_plaits_own_shows_in_the_list() -> None:
    """After a compaction the list shows the summary and what was kept."""
    both = Both(*TALK)
    both.history = [Message("summary", (Text("so far"),)), *both.history[4:]]
    both.epoch += 1
    both.follow()

    assert [PROMPT, {"role": "user", "content": "so far", "compacted_summary": True}] == both.items[:2]
    assert {"role": "user", "content": "three"} == both.items[2]
    assert both.take_edits() is None


def test_a_list_that_was_json_is_read_again() -> None:
    """A list that went through JSON gives the conversation back, its summary and thoughts included."""
    both = Both(Message("summary", (Text("before"),)), *TALK, Message("assistant", (Reasoning("hm"), Text("x"))))

    assert both.history == read_history(json.loads(json.dumps(both.items)))


def test_a_restored_list_is_mended() -> None:
    """A list from elsewhere may have lost results; every call gets one."""
    items = [{"role": "user", "content": "x"}, *Both(*round_of("a")).items[1:2], {"role": "user", "content": "y"}]

    history = read_history(items)

    assert fault_in(history) is None
    assert ["user", "assistant", "tool", "user"] == [message.role for message in history]


ITEMS = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, st.sampled_from(["x", "y", ""])),
    st.builds(lambda text: {"role": "assistant", "content": text}, st.sampled_from(["x", "z"])),
    st.builds(
        lambda call_id: {"role": "tool", "tool_call_id": call_id, "content": "new"}, st.sampled_from(["a", "c", "q"])
    ),
    st.just({"role": "system", "content": "mid"}),
    st.builds(
        lambda call_id: {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": {"name": "t", "arguments": "{}"}}],
        },
        st.sampled_from(["a", "q"]),
    ),
)
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(0, 12), ITEMS),
        st.tuples(st.just("delete"), st.integers(0, 12), st.integers(1, 4)),
        st.tuples(st.just("replace"), st.integers(0, 12), ITEMS),
        st.tuples(st.just("swap"), st.integers(0, 12), st.integers(0, 12)),
    ),
    min_size=1,
    max_size=4,
)


@given(EDITS, st.booleans())
def test_any_edit_leaves_both_sides_agreed_and_valid(edits: list[tuple[str, int, Any]], is_new: bool) -> None:
    """Whatever is inserted, deleted, replaced or moved: the history is valid, and the list shows it."""
    both = Both(*TALK)
    if is_new:
        both.items = copy.deepcopy(both.items)
    for kind, at, what in edits:
        at = 1 + at % len(both.items)
        if kind == "insert":
            both.items.insert(at, copy.deepcopy(what))
        elif kind == "delete":
            del both.items[at : at + what]
        elif kind == "replace":
            both.items[at : at + 1] = [copy.deepcopy(what)]
        elif len(both.items) > 2:
            other = 1 + what % (len(both.items) - 1)
            at = min(at, len(both.items) - 1)
            both.items[at], both.items[other] = both.items[other], both.items[at]
    both.take_edits()

    assert fault_in(both.history) is None
    assert both.take_edits() is None
    assert [message.role for message in both.history] == [message.role for message in read_history(both.items)]
    both.history.append(user("next"))
    both.follow()
    assert {"role": "user", "content": "next"} == both.items[-1]
