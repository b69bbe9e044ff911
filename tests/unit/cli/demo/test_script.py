"""The scripted model goes on only when the tools said what it expects."""

from __future__ import annotations

import json

import pytest

from plait.cli.demo.script import Script
from plait.testing import Request, Say

EXPECTED = [
    "",
    "FAILED (failures=3)",
    "rota/intervals.py:6:def merge(",
    "            merged[-1] = (merged[-1][0], end)",
    "OK: replaced 1 of 1",
    "Ran 5 tests in 0.001s\n\nOK",
]


def answer(turns: int, last: str) -> Say:
    """Return what the script says after so many answers, when the last result is `last`."""
    messages = [{"role": "user", "content": "mend it"}]
    for turn in range(turns):
        messages.append({"role": "assistant", "content": "..."})
        messages.append({"role": "tool", "content": last if turn == turns - 1 else "..."})
    body = json.dumps({"messages": messages}).encode()
    return Script("python -m unittest")(Request(turns + 1, "POST", "/v1/chat/completions", {}, body, 1))


def test_the_course_of_events_is_a_repair() -> None:
    """Tests, a look, the code, the edit, the tests again, an answer."""
    said = [answer(turns, last) for turns, last in enumerate(EXPECTED)]

    assert [["exec_shell"], ["read_file", "search_files"], ["read_file"], ["str_replace"], ["exec_shell"], []] == [
        [call.name for call in say.calls] for say in said
    ]
    assert str(said[-1].text).startswith("All tests pass.")


@pytest.mark.parametrize("turns", [1, 2, 3, 5])
def test_anything_else_makes_it_stop_in_words(turns: int) -> None:
    """A result that was not expected is answered with the truth about the script, and no more calls."""
    said = answer(turns, "ERROR: something else")

    assert [] == [*said.calls]
    assert "written in advance" in str(said.text)
