"""The error tree."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import get_args

import pytest

from plait.core import errors
from plait.core.errors import (
    REFUSAL_STATUS,
    AgentSpecDisabledError,
    AgentSpecInvalidError,
    ContextWindowExceededError,
    JournalError,
    LimitReached,
    ModelError,
    PlaitError,
    PricingLimitExceededError,
    Refusal,
    RefusalCode,
    SessionBusy,
)


def tree(kind: type[PlaitError] = PlaitError) -> Iterator[type[PlaitError]]:
    """Yield the class and everything below it that this module defines."""
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from tree(below)


def test_every_error_has_a_code_of_its_own() -> None:
    """The code alone says which error it was."""
    codes = [kind.code for kind in tree()]

    assert sorted(set(codes)) == sorted(codes)


def test_an_error_reads_as_sentence_and_advice() -> None:
    """`--json` gets the class, the stable code, the sentence and the next step."""
    error = LimitReached("the turn used 3 of 2 steps", limit="max_steps", hint="raise max_steps")

    assert {
        "class": "LimitReached",
        "code": "limit",
        "message": "the turn used 3 of 2 steps",
        "advice": "raise max_steps",
    } == error.to_dict()
    assert "the turn used 3 of 2 steps" == str(error)
    assert {"limit": "max_steps"} == error.context


def test_a_model_error_knows_its_class() -> None:
    """Each class of failure stands in its exception; the status answers to both of its names."""
    error = ContextWindowExceededError("too long", requested_tokens=10, limit_tokens=5)

    assert ("context_overflow", 400, 400) == (error.kind, error.status, error.status_code)
    assert "quota" == ModelError("x", kind="quota").kind
    kinds = {kind.kind for kind in tree(ModelError) if issubclass(kind, ModelError)}
    assert kinds == set(get_args(errors.ErrorClass))


@pytest.mark.parametrize("code", get_args(RefusalCode))
def test_every_refusal_has_a_status(code: RefusalCode) -> None:
    """A refusal is told to a model with a code, a number and plain details."""
    refusal = Refusal(code, "no", details={"path": "a.txt"})

    assert (REFUSAL_STATUS[code], {"path": "a.txt"}) == (refusal.status, refusal.details)


def test_errors_carry_what_a_caller_asks_for() -> None:
    """Place, owner, model and price are attributes, not only words."""
    assert ("j", 7, 3) == (lambda e: (e.path, e.offset, e.seq))(JournalError("x", path="j", offset=7, seq=3))
    assert 42 == SessionBusy("x", owner_pid=42).owner_pid
    assert ("m", {"model": "m"}) == (lambda e: (e.model, e.context))(AgentSpecInvalidError("x", model="m"))
    assert "this agent spec is disabled: old" == str(AgentSpecDisabledError("old"))
    assert "this agent spec is disabled" == str(AgentSpecDisabledError(""))
    dear = PricingLimitExceededError("m", direction="input", current_price=Decimal(5), limit=Decimal(1))
    assert ("m", "input", 5, 1) == (dear.model, dear.direction, dear.current_price, dear.limit)
