"""The conversation as a list of chat-completions messages that a host may read, and edit.

Floor: 5. Owns: keeping the list and the history the same, whichever of them changed; never: recording a change.

The host's list is compared with a copy that only this module holds, so an edit is noticed wherever it was made: in
place, in a nested value, by putting another list in its place. What a provider would refuse is mended on the way in:
every call keeps exactly one result.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from plait.core.errors import ConfigError
from plait.core.messages import PINNED, Message, Opaque, ToolResult
from plait.core.values import dataclass
from plait.wire.chat.encode import message_dicts
from plait.wire.chat.history import decode_messages
from plait.wire.profile import WireProfile

T = TypeVar("T")
Item = dict[str, Any]
Group = list[Item]
"""The items that one message of the history comes to: one a tool result, else one or none."""

_SYSTEM: Final = frozenset({"system", "developer"})
_RESULTS: Final = frozenset({"tool", "function"})
_LOST: Final = "This result is gone: it was removed from the conversation."
_SHAPE: Final = WireProfile(reasoning_echo="always", custom_tools=True, tool_messages=True)


@dataclass(frozen=True, slots=True)
class Edit:
    """What became of a stretch of the list: history from `start` to `end` is now `messages`."""

    start: int
    end: int
    messages: tuple[Message, ...]
    groups: tuple[Group, ...]
    """How the list shows each of them."""
    is_mended: bool
    """The list does not say what the history will: it has to be written anew."""

    def replacement(self, history: Sequence[Message]) -> tuple[int, int, tuple[Message, ...]] | None:
        """Return the smallest range of `history` that differs, with what belongs there; None when nothing does."""
        first, last = _common(history[self.start : self.end], self.messages, _is_same)
        messages = self.messages[first : len(self.messages) - last]
        start, end = self.start + first, self.end - last
        return (start, end, messages) if messages or end > start else None


class Mirror:
    """Knows what the list said when both sides last agreed."""

    def __init__(self) -> None:
        self._history: list[Message] = []
        self._groups: list[Group] = []
        self._flat: list[Item] = []
        self._epoch = 0
        self._pending: Edit | None = None
        self._shapes: dict[str, WireProfile] = {}
        self.note: Mapping[str, object] = {}
        """Put beside the next user message: what the list says of it and the history does not."""

    @property
    def shown(self) -> tuple[int, int]:
        """What the list shows of the history: its epoch, and how many messages."""
        return self._epoch, len(self._history)

    @property
    def items(self) -> Sequence[Item]:
        """The list as both sides last agreed on it, without the system prompt; not to be changed."""
        return self._flat

    def follow(self, history: Sequence[Message], epoch: int, items: list[Item]) -> None:
        """Bring the list up to the history.

        Args:
            history: the conversation now.
            epoch: moves when earlier messages were replaced.
            items: the host's list; changed in place.
        """
        if epoch != self._epoch:
            self._epoch = epoch
            self._accept(self._pending or self._replaced(history), items)
            self._pending = None
        if len(history) == len(self._history):
            return
        for message in history[len(self._history) :]:
            mine = self._group(message)
            theirs = [_copied(item) for item in mine]
            if message.role == "user" and self.note:
                for item in (*mine, *theirs):
                    item.update(self.note)
                self.note = {}
            self._history.append(message)
            self._groups.append(mine)
            self._flat += mine
            items += theirs

    def edit(self, items: Sequence[object]) -> Edit | None:
        """Return what a host has changed since, or None; remember it until `follow` sees it in the history.

        Raises:
            ConfigError: the list holds something that is no message.
        """
        body = items[1:] if has_system(items) else list(items)
        self._pending = None
        if body == self._flat:
            return None
        for item in body:
            if not isinstance(item, dict):
                raise ConfigError(f"session['messages'] holds {item!r}", hint="every item is a dict with a role")
        self._pending = self._edit_of(body)  # type: ignore[arg-type]
        return self._pending

    def settle(self, items: list[Item]) -> None:
        """Take in an edit that changes nothing in the history."""
        if self._pending is not None:
            self._accept(self._pending, items)
            self._pending = None

    def _edit_of(self, body: list[Item]) -> Edit:
        first, last = _common(self._flat, body, operator.eq)
        start, end = _whole_groups(self._groups, first, len(self._flat) - last)
        lead = sum(len(group) for group in self._groups[:start])
        trail = sum(len(group) for group in self._groups[end:])
        changed = _grouped(body[lead : len(body) - trail])
        # A call and its results are judged together.
        while start > 0 and self._history[start - 1].tool_calls:
            start -= 1
            changed.insert(0, self._groups[start])
        while end < len(self._history) and self._history[end].role == "tool":
            changed.append(self._groups[end])
            end += 1
        known = {_key(group): message for group, message in zip(self._groups, self._history, strict=True)}
        read = [(self._read(group, known), group) for group in changed]
        mended = list(_paired([(message, group) for message, group in read if message is not None]))
        groups = tuple(self._group(message) if group is None else group for message, group in mended)
        is_mended = [group for _, group in mended] != [group for _, group in read]
        return Edit(start, end, tuple(message for message, _ in mended), groups, is_mended)

    def _read(self, group: Group, known: Mapping[str, Message]) -> Message | None:
        """Read some items as a message: the one of the history that they show, or a new one."""
        message = known.get(_key(group)) or _decoded(group)
        return message if message is None else known.get(_key(self._group(message)), message)

    def _replaced(self, history: Sequence[Message]) -> Edit:
        """Find what plait itself replaced: messages that stayed are the same objects."""
        first, last = _common(self._history, history, _is_same)
        messages = tuple(history[first : len(history) - last])
        return Edit(first, len(self._history) - last, messages, tuple(map(self._group, messages)), is_mended=True)

    def _accept(self, edit: Edit, items: list[Item]) -> None:
        self._history[edit.start : edit.end] = edit.messages
        self._groups[edit.start : edit.end] = [[_copied(item) for item in group] for group in edit.groups]
        self._flat = [item for group in self._groups for item in group]
        if edit.is_mended:
            items[has_system(items) :] = [_copied(item) for item in self._flat]

    def _group(self, message: Message) -> Group:
        shape = self._shapes.get(message.origin)
        if shape is None:
            # Thoughts and extra fields are shown whoever made them, so that they come back with a restored session.
            shape = self._shapes[message.origin] = replace(_SHAPE, origin=message.origin)
        group = list(message_dicts(message, shape))
        for item in group:
            if not item.get("reasoning_content", True):
                del item["reasoning_content"]
            if message.role == "summary":
                item["compacted_summary"] = True
            if message.marked(PINNED):
                item["pinned"] = True
        return group


def read_history(items: Sequence[Mapping[str, object]]) -> list[Message]:
    """Return the history that a list of chat messages tells, every call with exactly one result.

    Raises:
        ConfigError: an item is no message.
    """
    body = items[1:] if has_system(items) else items
    read = [(message, group) for group in _grouped([dict(item) for item in body]) if (message := _decoded(group))]
    return [message for message, _ in _paired(read)]


def has_system(items: Sequence[object]) -> bool:
    """Say whether a list begins with a system prompt."""
    first = items[0] if items else None
    return isinstance(first, Mapping) and first.get("role") in _SYSTEM and "tools" not in first


def system_of(items: Sequence[object]) -> str:
    """Return the system prompt that a list begins with, empty for none."""
    if not has_system(items):
        return ""
    first = items[0]
    content = first.get("content") if isinstance(first, Mapping) else None
    if isinstance(content, (list, tuple)):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return str(content or "")


def _copied(item: Item) -> Item:
    """Return an item that shares nothing that can be changed."""
    return {key: value if isinstance(value, str) else _deeply(value) for key, value in item.items()}


def _deeply(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _deeply(part) for key, part in value.items()}
    return [_deeply(part) for part in value] if isinstance(value, list) else value


def _is_same(one: object, other: object) -> bool:
    return one is other


def _common(old: Sequence[T], new: Sequence[T], is_equal: Callable[[T, T], bool]) -> tuple[int, int]:
    """Return how many items are the same at the start and, beyond those, at the end."""
    most = min(len(old), len(new))
    first = next((index for index in range(most) if not is_equal(old[index], new[index])), most)
    most -= first
    last = next((index for index in range(most) if not is_equal(old[-1 - index], new[-1 - index])), most)
    return first, last


def _whole_groups(groups: Sequence[Group], first: int, last: int) -> tuple[int, int]:
    """Return the range of groups that holds every item from `first` to `last`, and no whole group beside it."""
    start, at = 0, 0
    while start < len(groups) and at + len(groups[start]) <= first:
        at += len(groups[start])
        start += 1
    end = start
    while end < len(groups) and at < last:
        at += len(groups[end])
        end += 1
    return start, end


def _grouped(items: Sequence[Item]) -> list[Group]:
    groups: list[Group] = []
    for item in items:
        if item.get("role") in _RESULTS and groups and _is_results(groups[-1]):
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _is_results(group: Group) -> bool:
    return bool(group) and group[0].get("role") in _RESULTS


def _decoded(group: Group) -> Message | None:
    """Read the message that some items are; None for one that says nothing."""
    if group and group[0].get("role") in _SYSTEM:
        # A system message in the middle of a conversation is sent as it stands, where the wire has such a thing.
        return Message("user", (Opaque("chat", dict(group[0])),))
    try:
        messages = decode_messages(group)
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"session['messages'] holds {group[0]!r}: {error}", hint="mend or remove it") from error
    return messages[0] if messages else None


def _paired(read: Sequence[tuple[Message, Group]]) -> Iterator[tuple[Message, Group | None]]:
    """Yield messages so that every call has one result, at once and in order; mended ones come without a group."""
    found = {result.call_id: result for message, _ in read for result in message.tool_results}
    for index, (message, group) in enumerate(read):
        if message.role == "tool":
            continue
        yield message, group
        wanted = [call.id for call in message.tool_calls]
        after = read[index + 1] if index + 1 < len(read) else None
        if after is not None and wanted and wanted == [result.call_id for result in after[0].tool_results]:
            yield after
        elif wanted:
            results = (found.get(call_id) or ToolResult(call_id, _LOST, status="unknown") for call_id in wanted)
            yield Message("tool", tuple(results)), None


def _key(group: Group) -> str:
    return json.dumps(group, sort_keys=True, default=repr)
