"""The list of what is to be done: its actions, its words, and its fold from what was recorded."""

from __future__ import annotations

import io

import pytest

from plait.core.facts import CLEAR, Fact, Observation, Reset, ToolEnd
from plait.core.messages import ToolResult
from plait.kernel.tools import as_result
from plait.tools.aliases import alias_tools, clarify_tool, todo_tool
from plait.tools.asking import nobody
from plait.tools.todo import TodoList, todos_after
from plait.tools.toolbox import Toolbox

from .conftest import MakeToolbox
from .replies import code_of, done, text_of


def test_the_actions_and_how_the_list_is_shown(box: Toolbox) -> None:
    """Items are added, started and completed by number; every answer is the list, and numbers are never given again."""
    todo = box.todos.todo
    done(todo("add", "look"))
    done(todo("add", "  mend\n it "))
    done(todo("start", id=2))

    text, data = done(todo("complete", id=1))

    assert "Todos (1/2 done):\n  [x] 1. look\n  [~] 2. mend it" == text
    assert {"items": [{"id": 1, "text": "look", "state": "done"}, {"id": 2, "text": "mend it", "state": "in_progress"}],
            "next_id": 3} == data["todos"]  # fmt: skip
    assert "Todos (0/0 done):\n  (nothing to do)" == text_of(todo("clear"))
    assert "Todos (0/1 done):\n  [ ] 3. again" == text_of(todo("add", "again"))
    assert text_of(todo("list")) == text_of(todo())


@pytest.mark.parametrize(
    "arguments, code",
    [
        ({"action": "add", "text": " "}, "INVALID_INPUT"),
        ({"action": "start"}, "INVALID_INPUT"),
        ({"action": "complete", "id": 9}, "NOT_FOUND"),
        ({"action": "drop"}, "INVALID_INPUT"),
        ({"todos": [{"content": "x", "status": "later"}]}, "INVALID_INPUT"),
        ({"todos": [7]}, "INVALID_INPUT"),
    ],
)
def test_what_it_refuses(box: Toolbox, arguments: dict[str, object], code: str) -> None:
    """Blank words, missing and unknown numbers and unknown actions are refused, and change nothing."""
    done(box.todos.todo("add", "look"))

    assert code == code_of(box.todos.todo(**arguments))  # type: ignore[arg-type]
    assert "Todos (0/1 done):\n  [ ] 1. look" == text_of(box.todos.todo())


def test_todo_write_is_the_same_list(box: Toolbox) -> None:
    """The whole list under its other name: items of the same words keep their numbers, and it is not advertised."""
    todo = todo_tool(box)
    done(box.todos.todo("add", "look"))
    (write,) = alias_tools(box, [todo])
    items = [{"content": "read", "status": "completed", "activeForm": "Reading"}, {"content": "look"}]

    text, _ = done(write.fn(**write.keywords({"todos": items})))

    assert "Todos (1/2 done):\n  [x] 2. read\n  [ ] 1. look" == text == text_of(box.todos.todo())
    assert ("todo_write", "todo", False) == (write.name, write.alias_of, write.gated)


def test_the_list_is_a_fold_of_what_was_recorded(box: Toolbox) -> None:
    """The last recorded result tells the list, a rewind an earlier one, and a cleared conversation has none."""
    facts: list[Fact] = []
    for words in ("one", "two"):
        facts.append(ToolEnd(as_result("c", box.todos.todo("add", words))))
    facts.append(ToolEnd(ToolResult("c")))

    again = TodoList()
    again.restore(todos_after(facts))
    assert box.todos.items == again.items
    assert "3. three" in text_of(again.todo("add", "three"))
    back = Observation("rewound", {"todos": todos_after(facts[:1])})
    assert [{"id": 1, "text": "one", "state": "pending"}] == todos_after([*facts, back])["items"]
    assert {"items": [], "next_id": 3} == todos_after([*facts, Reset(0, 0, (), CLEAR)])
    assert {"items": [], "next_id": 1} == todos_after([Observation("rewound", {"todos": 7})])


def test_clarify(make: MakeToolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes back; that it is blank, or nobody there, says how to go on; a blank question is refused."""
    asked: list[str] = []

    def answer(question: str, _options: list[str]) -> str:
        asked.append(question)
        return " red " if question == "Which?" else ""

    clarify = clarify_tool(make(ask_user=answer)).fn
    alone = clarify_tool(make(ask_user=nobody)).fn
    terminal = clarify_tool(make(ask_stream=io.StringIO())).fn

    assert ("red", {"ok": True, "answer": "red"}) == done(clarify("Which?"))
    assert "own judgement" in done(clarify("Why?"))[0]
    assert ["Which?", "Why?"] == asked
    assert "Nobody is there" in done(alone("Which?"))[0]
    monkeypatch.setattr("sys.stdin", io.StringIO("blue\n\n"))
    assert "blue" == done(terminal("Which?"))[0]
    assert "own judgement" in done(terminal("Which?"))[0]
    assert "Nobody is there" in done(terminal("Which?"))[0]
    assert False is done(clarify("  "))[1]["ok"]
