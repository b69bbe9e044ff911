"""Questions to the user."""

from __future__ import annotations

import io

import pytest

from plait.core.errors import Refusal
from plait.tools.asking import ask, nobody, read_options


def test_e18_a_handler_answers_and_a_number_means_the_option() -> None:
    """A handler gets the question and the options, and a number it says is the option of that number."""
    seen: list[tuple[str, list[str]]] = []

    def handler(question: str, options: list[str]) -> str:
        seen.append((question, options))
        return "2"

    assert ('{"answer":"blue"}', {"answer": "blue"}) == ask("Which?", ["red", "blue"], handler, None)
    assert ('{"answer":"2"}', {"answer": "2"}) == ask("How many?", [], handler, None)
    assert [("Which?", ["red", "blue"]), ("How many?", [])] == seen


@pytest.mark.parametrize("given", [["a", "b"], '["a", "b"]', "a, b", ("a", " b ", "")])
def test_options_are_read_however_a_model_gives_them(given: object) -> None:
    """A list, a JSON list and a comma list are the same options."""
    assert ["a", "b"] == read_options(given)


def test_without_a_handler_standard_input_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question and the numbered options go to the stream, and a line of standard input is the answer."""
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n"))
    out = io.StringIO()
    assert "yes" == ask("Go on?", "yes,no", None, out)[1]["answer"]
    assert "Go on?\n  1. yes\n  2. no\n> " == out.getvalue()


def test_the_end_of_input_is_an_empty_answer_or_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody is, a free question is answered with nothing and a choice fails."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert {"answer": ""} == ask("Name?", [], None, io.StringIO())[1]
    text, data = ask("Which?", ["a"], None, io.StringIO())
    assert text.startswith("ERROR: Nobody answered")
    assert data["ok"] is False


def test_a_session_without_a_user_says_so() -> None:
    """Where nobody may be asked, every question fails with that."""
    text, data = ask("Which?", ["a"], nobody, None)
    assert ("ERROR: user interaction is disabled (--non-interactive)", False) == (text, data["ok"])


def test_an_empty_question_is_refused() -> None:
    """A question without words is no question."""
    with pytest.raises(Refusal, match="question is empty"):
        ask(" ", [], lambda _q, _o: "x", None)
