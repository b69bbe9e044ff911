"""Putting tool calls together from fragments: which call does a fragment belong to?

Floor: 1. Owns: that one question for the chat wire; never: running anything.

Servers disagree about indexes (missing, always 0, from 1, nested), ids (missing, empty, repeated, new on every
fragment, shared by all calls) and names (once, repeated, in pieces). A fragment is read by one model:

* Its *place* is its index. At a place never used it begins a call if it has a name, or an id that no call has;
  without both it belongs to the last call, for some servers count fragments.
* At a place in use it continues that place's call, unless it *announces* another: it has a name, and a new id or
  more than a repetition for a call that is complete. Arguments that are still open go on under the same name, whatever
  the id.
* Without an index, an id that is known continues its call; a name begins a call unless it continues the last one.
* What a server repeats at the end (the same arguments again, spaced otherwise, or once more as a JSON string) is
  dropped when the call is finished, by comparing whole texts: where fragments were cut cannot matter then. Of
  fragments that each begin with all that came before, the last is the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from itertools import pairwise
from typing import Final, NamedTuple

from plait.core.messages import ToolCall
from plait.core.strict_json import JsonInvalid, dump
from plait.core.values import dataclass
from plait.wire.bounds import CALLS_MAX

_STRUCTURE: Final = re.compile(r'["\\{}\[\]]')
_DECODER: Final = json.JSONDecoder()


class Fragment(NamedTuple):
    """One piece of one call, as a delta brought it."""

    place: int | None
    id: str = ""
    name: str = ""
    text: str = ""
    is_whole: bool = False
    """True when the arguments came as an object, so that they are complete."""
    custom: bool = False
    extra: Mapping[str, object] | None = None


@dataclass(slots=True)
class _Draft:
    """A call that is still coming."""

    id: str
    name: str
    custom: bool = False
    texts: list[str] = field(default_factory=list)
    extra: dict[str, object] = field(default_factory=dict)
    balance: _Balance = field(default_factory=lambda: _Balance())

    def is_complete(self) -> bool:
        """Say whether the arguments so far are a closed object."""
        return not self.custom and self.balance.is_closed(self.texts)

    def text(self) -> str:
        return "".join(self.texts)


class CallAssembler:
    """The calls of one answer, in the order in which they began."""

    def __init__(self) -> None:
        self.is_full = False
        """True once there are more calls than an answer may have: the rest is left out."""
        self._drafts: list[_Draft] = []
        self._by_index: dict[int, _Draft] = {}

    def __len__(self) -> int:
        return len(self._drafts)

    def add(self, fragment: Fragment) -> str:
        """Take a fragment; return the new text of its call, nothing for a repetition of one that came whole."""
        if self.is_full:
            return ""  # too many already, which the decoder says
        draft = self._owner(fragment)
        if draft is None:
            draft = _Draft(fragment.id, fragment.name, fragment.custom)
            self._drafts.append(draft)
            self.is_full = len(self._drafts) > CALLS_MAX
        else:
            _merge_name(draft, fragment.name)
            draft.id = draft.id or fragment.id
            draft.custom = draft.custom or fragment.custom
        if fragment.place is not None:
            self._by_index[fragment.place] = draft
        if fragment.extra:
            draft.extra.update(fragment.extra)
        if fragment.is_whole and draft.is_complete():
            return ""
        if fragment.text:
            draft.texts.append(fragment.text)
        return fragment.text

    def calls(self) -> list[ToolCall]:
        """Return the calls as they stand, but for those without a name, which nobody could run."""
        return [_finished(draft) for draft in self._drafts if draft.name]

    @property
    def lost_a_name(self) -> bool:
        """True when arguments came for a call whose name never did."""
        return any(not draft.name and draft.text().strip() for draft in self._drafts)

    def _owner(self, fragment: Fragment) -> _Draft | None:
        """Return the call that the fragment continues, None when it begins one."""
        if not self._drafts:
            return None
        last = self._drafts[-1]
        if fragment.place is None:
            same_id = self._by_id(fragment.id)
            if same_id is not None:
                return None if _announces(fragment, same_id) else same_id
            return None if fragment.name and not _continues_name(fragment, last) else last
        at_place = self._by_index.get(fragment.place)
        if at_place is not None:
            return None if _announces(fragment, at_place) else at_place
        if fragment.name:
            return None
        return self._by_id(fragment.id) if fragment.id else last

    def _by_id(self, id: str) -> _Draft | None:
        return next((draft for draft in reversed(self._drafts) if draft.id == id), None) if id else None


def _announces(fragment: Fragment, draft: _Draft) -> bool:
    """Say whether a fragment at the place of `draft` begins another call."""
    if not fragment.name or not draft.name:
        return False
    if fragment.name == draft.name and draft.texts and not draft.custom and not draft.is_complete():
        return False
    if fragment.id and draft.id and fragment.id != draft.id:
        return True
    if not draft.texts:
        return False
    if not draft.is_complete():
        return False
    return fragment.name != draft.name or not _repeats(fragment.text, draft.text())


def _continues_name(fragment: Fragment, draft: _Draft) -> bool:
    """Say whether a fragment without an index goes on with the last call, although it has a name."""
    if fragment.id and draft.id:
        return False
    return fragment.name == draft.name and bool(draft.texts) and not draft.is_complete()


def _merge_name(draft: _Draft, name: str) -> None:
    """A name comes once, again and again, growing, or in pieces; pieces come before the arguments."""
    if not name or name == draft.name:
        return
    if name.startswith(draft.name):
        draft.name = name
    elif not draft.texts:
        draft.name += name


def _repeats(text: str, whole: str) -> bool:
    """Say whether `text` brings nothing new: it is blank, the same, spaced otherwise, or the same as a JSON string."""
    text, whole = text.strip(), whole.strip()
    return not text or text == whole or _unquoted(text).strip() == whole or _has_same_value(text, whole)


def _has_same_value(text: str, whole: str) -> bool:
    if not text.startswith("{") or not text.endswith("}"):
        return False
    try:
        return bool(json.loads(text) == json.loads(whole))
    except (ValueError, RecursionError):
        return False


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return ""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return value if isinstance(value, str) else ""


def _finished(draft: _Draft) -> ToolCall:
    raw = draft.text() if draft.custom else _arguments(draft.texts)
    return ToolCall(draft.id, draft.name, raw, draft.custom, draft.extra or None)


def _arguments(texts: list[str]) -> str:
    """Return the arguments in what came for one call: without repetitions, `{}` for nothing."""
    text = "".join(texts)
    start = len(text) - len(text.lstrip())
    if text[start:].rstrip() in ("", "null"):
        return "{}"
    try:
        _, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return texts[-1] if _grows(texts) else text
    first, rest = text[start:end], text[end:].strip()
    if not rest:
        return text
    if _is_repetition(rest, first):
        return first
    return rest if first == "{}" and rest.startswith("{") else text  # a placeholder, then the arguments


def _grows(texts: list[str]) -> bool:
    """Say whether every fragment is all of the text so far, as servers send it that do not send differences."""
    return len(texts) > 1 and all(later.startswith(text) for text, later in pairwise(texts))


def _is_repetition(rest: str, first: str) -> bool:
    """Say whether what follows a whole object is that object again, once or more, and nothing else."""
    at = 0
    while rest.startswith(first, at):
        at += len(first)
        while rest[at : at + 1].isspace():
            at += 1
    return _repeats(rest[at:], first)


def text_of_arguments(value: object) -> tuple[str, bool]:
    """Return the text of an `arguments` field, and whether it came as an object, so whole."""
    if isinstance(value, str):
        return value, False
    if value is None:
        return "", False
    try:
        return dump(value), True
    except JsonInvalid:
        return json.dumps(value, separators=(",", ":")), True


class _Balance:
    """Finds out whether JSON text is closed, reading every fragment once, and only where somebody asks."""

    __slots__ = ("_depth", "_done", "_is_escaped", "_is_text", "_opened")

    def __init__(self) -> None:
        self._done = 0
        self._depth = 0
        self._opened = False
        self._is_text = False
        self._is_escaped = False

    def is_closed(self, texts: list[str]) -> bool:
        for text in texts[self._done :]:
            self._read(text)
        self._done = len(texts)
        return self._opened and self._depth == 0 and not self._is_text

    def _read(self, text: str) -> None:
        skip = 0 if self._is_escaped and text else -1
        self._is_escaped = self._is_escaped and not text
        for match in _STRUCTURE.finditer(text):
            at, character = match.start(), match[0]
            if at == skip:
                continue
            if self._is_text:
                if character == "\\":
                    skip = at + 1
                    self._is_escaped = skip == len(text)
                elif character == '"':
                    self._is_text = False
            elif character == '"':
                self._is_text = True
            elif character in "{[":
                self._depth += 1
                self._opened = True
            elif character in "}]":
                self._depth -= 1
