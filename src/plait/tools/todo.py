"""The model's list of what is to be done in a session, and what its results say so that a resume has it again.

Floor: 3. Owns: the list, its words and its fold from recorded results; never: a place on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from plait.core.errors import Refusal
from plait.core.events import Committed, Event
from plait.core.facts import CLEAR, Fact, Observation, Reset, ToolEnd
from plait.core.side_calls import as_own_call
from plait.core.values import dataclass
from plait.tools.answer import Answer, Reply, answering

State = Literal["pending", "in_progress", "done"]

_MARKS: Final[Mapping[State, str]] = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]"}
_STATES: Final[Mapping[str, State]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "done": "done",
    "completed": "done",
}
_ACTIONS: Final = ("add", "start", "complete", "list", "clear")
_ITEMS_MAX: Final = 1_000
_TEXT_CHARS_MAX: Final = 2_000
KEY: Final = "todos"
"""Where a result's data hold the list."""


@dataclass(frozen=True, slots=True)
class Todo:
    """One thing to do."""

    id: int
    text: str
    state: State = "pending"

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON."""
        return {"id": self.id, "text": self.text, "state": self.state}


class TodoList:
    """One session's list. Safe in any thread.

    It is a fold of facts: the last recorded result with a list in it says how the list is, and a cleared conversation
    has none.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: tuple[Todo, ...] = ()
        self._next_id = 1

    @property
    def items(self) -> tuple[Todo, ...]:
        """The list as it is."""
        return self._items

    def to_dict(self) -> dict[str, object]:
        """Return the list as plain JSON, as `restore` takes it."""
        with self._lock:
            return {"items": [item.to_dict() for item in self._items], "next_id": self._next_id}

    def restore(self, told: object) -> None:
        """Be the list that `to_dict` told, or empty where it told none."""
        items, next_id = _read(told)
        with self._lock:
            self._items = items
            self._next_id = max([next_id, *(item.id + 1 for item in items)])

    def __call__(self, event: Event) -> None:
        """Take what is recorded: for a list that follows a conversation."""
        if isinstance(event, Committed):
            self.take(event.entry.fact)

    def take(self, fact: Fact) -> None:
        """Take one recorded fact."""
        fact = as_own_call(fact)
        if isinstance(fact, ToolEnd) and fact.result.data is not None and KEY in fact.result.data:
            self.restore(fact.result.data[KEY])
        elif isinstance(fact, Observation) and KEY in fact.data:
            self.restore(fact.data[KEY])
        elif isinstance(fact, Reset) and fact.why == CLEAR:
            self.restore({"items": [], "next_id": self._next_id})

    @answering
    def todo(
        self,
        action: str = "",
        text: str = "",
        id: int | None = None,
        todos: Sequence[object] | None = None,
    ) -> Reply:
        """Change the list and return all of it; `todos` puts a whole list in its place."""
        with self._lock:
            if todos is not None:
                self._items = self._whole(todos)
            else:
                self._change(action or "list", text, id)
        return self._shown()

    def _change(self, action: str, text: str, id: int | None) -> None:
        if action == "add":
            self._items = (*self._items, Todo(self._number(), _worded(text)))
        elif action in ("start", "complete"):
            state: State = "in_progress" if action == "start" else "done"
            at = self._index(id, action)
            self._items = (*self._items[:at], replace(self._items[at], state=state), *self._items[at + 1 :])
        elif action == "clear":
            self._items = ()
        elif action != "list":
            raise Refusal("INVALID_INPUT", f"no action is called {action!r}", hint=f"one of {', '.join(_ACTIONS)}")
        if len(self._items) > _ITEMS_MAX:
            self._items = self._items[:_ITEMS_MAX]
            raise Refusal("TOO_LARGE", f"the list has {_ITEMS_MAX} items", hint="clear it, or work on it")

    def _index(self, id: int | None, action: str) -> int:
        if id is None:
            raise Refusal("INVALID_INPUT", f"{action} needs the id of an item", hint="list shows them")
        for at, item in enumerate(self._items):
            if item.id == id:
                return at
        raise Refusal("NOT_FOUND", f"no item has the id {id}", hint="list shows them")

    def _whole(self, todos: Sequence[object]) -> tuple[Todo, ...]:
        """Return a list that was given whole: items of the same words keep their numbers."""
        if len(todos) > _ITEMS_MAX:
            raise Refusal("TOO_LARGE", f"a list of {len(todos)} items", hint=f"give at most {_ITEMS_MAX}")
        given = [_given(todo) for todo in todos]
        known = {item.text: item.id for item in reversed(self._items)}
        return tuple(Todo(known.pop(text, 0) or self._number(), text, state) for text, state in given)

    def _number(self) -> int:
        number, self._next_id = self._next_id, self._next_id + 1
        return number

    def _shown(self) -> Answer:
        items = self._items
        done = sum(item.state == "done" for item in items)
        lines = [f"  {_MARKS[item.state]} {item.id}. {item.text}" for item in items] or ["  (nothing to do)"]
        return "\n".join((f"Todos ({done}/{len(items)} done):", *lines)), {"ok": True, KEY: self.to_dict()}


def todos_after(facts: Iterable[Fact]) -> dict[str, object]:
    """Return the list that these facts leave, as `restore` takes it."""
    todos = TodoList()
    follow_todos(todos, facts)
    return todos.to_dict()


def follow_todos(todos: TodoList, facts: Iterable[Fact]) -> None:
    """Bring a list to where a session's facts have left it."""
    for fact in facts:
        todos.take(fact)


def _worded(text: str) -> str:
    words = " ".join(text.split())
    if not words:
        raise Refusal("INVALID_INPUT", "the text of an item is blank", hint="say what is to be done")
    return words[:_TEXT_CHARS_MAX]


def _given(todo: object) -> tuple[str, State]:
    if isinstance(todo, str):
        return _worded(todo), "pending"
    if not isinstance(todo, Mapping):
        raise Refusal("INVALID_INPUT", f"{todo!r} is no item", hint='{"content": …, "status": "pending"}')
    state = str(todo.get("status", todo.get("state", "pending")))
    if state not in _STATES:
        raise Refusal("INVALID_INPUT", f"no status is called {state!r}", hint=f"one of {', '.join(_STATES)}")
    return _worded(str(todo.get("content", todo.get("text", "")))), _STATES[state]


def _read(told: object) -> tuple[tuple[Todo, ...], int]:
    """Read what `to_dict` told; what is no item is passed over."""
    if not isinstance(told, Mapping):
        return (), 1
    items, next_id = told.get("items"), told.get("next_id")
    found = [
        Todo(item["id"], str(item.get("text", "")), _STATES.get(str(item.get("state")), "pending"))
        for item in (items if isinstance(items, (list, tuple)) else ())
        if isinstance(item, Mapping) and isinstance(item.get("id"), int)
    ]
    return tuple(found), next_id if isinstance(next_id, int) else 1
