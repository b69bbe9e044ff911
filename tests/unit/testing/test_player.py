"""Which step answers which request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from plait.testing import ScriptError, UnexpectedRequest, UnusedStep, When
from plait.testing.player import Player


@dataclass(frozen=True)
class Asked:
    """The least that a request is."""

    text: str = ""
    last_text: str = ""
    model: str = ""


def played(
    script: Sequence[str | When[str]], *, repeat: bool = False, allow_unused: bool = False
) -> Player[Asked, str]:
    """Return a player of text steps."""
    return Player(script, repeat=repeat, allow_unused=allow_unused)


def test_steps_come_in_order() -> None:
    """Each request takes the next step."""
    player = played(["one", "two"])

    assert ["one", "two"] == [player.answer(Asked()), player.answer(Asked())]
    player.check()


def test_a_request_too_many_is_named() -> None:
    """A request without a step is an error at once and again at the end, with its number and last message."""
    player = played(["one"])
    player.answer(Asked())

    with pytest.raises(UnexpectedRequest, match=r"request 2 .* 'and then'") as caught:
        player.answer(Asked(last_text="and then"))
    with pytest.raises(UnexpectedRequest):
        player.check()

    assert 2 == caught.value.number


def test_a_step_too_many_is_named() -> None:
    """Steps that nobody asked for are an error, unless they are allowed."""
    with pytest.raises(UnusedStep, match=r"2 of .* step 1: 'one'"):
        played(["one", "two"]).check()
    played(["one", "two"], allow_unused=True).check()


def test_a_script_can_repeat() -> None:
    """A repeated script starts again, and being in the middle of it is no error."""
    player = played(["one", "two"], repeat=True)

    assert ["one", "two", "one"] == [player.answer(Asked()) for _ in range(3)]
    player.check()


def test_an_empty_repeated_script_answers_nothing() -> None:
    """Repeating nothing is still nothing."""
    with pytest.raises(UnexpectedRequest):
        played([], repeat=True).answer(Asked())


def test_rules_answer_beside_the_order() -> None:
    """A rule that matches answers first and leaves the ordered steps alone."""
    player = played(["one", When("title", contains="name it"), "two"])

    answers = [player.answer(Asked()), player.answer(Asked(text="please name it")), player.answer(Asked())]

    assert ["one", "title", "two"] == answers


def test_every_condition_of_a_rule_must_hold() -> None:
    """A rule with several conditions answers only what meets all of them."""
    rule = When("yes", contains="a", last="b", model="m")

    assert rule.matches(Asked(text="a", last_text="b", model="m"))
    assert not rule.matches(Asked(text="a", last_text="b", model="n"))
    assert not rule.matches(Asked(text="a", last_text="", model="m"))
    assert not rule.matches(Asked(text="", last_text="b", model="m"))


def test_a_rule_with_a_count_must_be_used_up() -> None:
    """`times` is how often a rule answers, and how often it must."""
    player = played([When("yes", times=2)])
    player.answer(Asked())

    with pytest.raises(UnusedStep, match="1 of 2"):
        player.check()
    player.answer(Asked())
    player.check()
    with pytest.raises(UnexpectedRequest):
        player.answer(Asked())


def test_a_function_is_a_script() -> None:
    """A function answers what it likes; None means that it has no answer."""
    player: Player[Asked, str] = Player(lambda asked: f"you said {asked.last_text}" if asked.last_text else None)

    assert "you said hi" == player.answer(Asked(last_text="hi"))
    with pytest.raises(UnexpectedRequest):
        player.answer(Asked())


def test_an_error_in_the_function_reaches_the_test() -> None:
    """What the script itself raises is not lost: it is the cause of the error at the end."""

    def broken(asked: Asked) -> str:
        raise KeyError(asked.text)

    player: Player[Asked, str] = Player(broken)
    with pytest.raises(ScriptError):
        player.answer(Asked())
    with pytest.raises(ScriptError) as caught:
        player.check()

    assert isinstance(caught.value.__cause__, KeyError)


def test_looking_ahead_uses_nothing_up() -> None:
    """`upcoming` shows the next step; `skip` takes it."""
    player = played(["one", "two"])

    assert ("one", "one") == (player.upcoming, player.upcoming)
    player.skip()
    assert "two" == player.answer(Asked())
    assert player.upcoming is None


def test_script_errors_fail_a_test_as_assertions() -> None:
    """A disagreement with the script counts as a failed assertion."""
    assert issubclass(ScriptError, AssertionError)
