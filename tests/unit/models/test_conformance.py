"""Every kind of model holds to the contract of the port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from plait.kernel.ports import Model
from plait.models.chat_model import chat_model
from plait.models.transport import Timeouts
from plait.testing import Fail, Say, ScriptedModel, ScriptServer, Silence, faults
from plait.testing.conformance import check_model
from plait.testing.faults import Step
from plait.testing.model_steps import ModelStep


def served(step: ModelStep) -> Step:
    """Return the server's way to do what a step of a model says."""
    if isinstance(step, Fail):
        return faults.Status(step.status or 500)
    if isinstance(step, Silence):
        return faults.Stall("mid_event")
    assert isinstance(step, Say)
    return step


@contextmanager
def over_http(steps: Sequence[ModelStep]) -> Iterator[Model]:
    """A model behind a real server."""
    with ScriptServer([served(step) for step in steps]) as server:
        yield chat_model("any", server.url, timeouts=Timeouts(connect_s=5))


def test_a_model_over_http_conforms() -> None:
    """The model over our transports holds to everything that the port promises."""
    check_model(over_http)


def test_the_scripted_model_conforms() -> None:
    """The double holds to what it stands in for."""
    check_model(ScriptedModel)


def test_a_model_that_does_not_conform_is_told_what_it_lacks() -> None:
    """The check fails with a sentence that names the broken promise."""

    @contextmanager
    def mute(steps: Sequence[ModelStep]) -> Iterator[Model]:
        yield ScriptedModel([Say("Other words.") for _ in steps])

    with pytest.raises(AssertionError, match="an answer is the model's words, whole"):
        check_model(mute)
