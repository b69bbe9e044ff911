"""What passes between the loop and a model."""

from __future__ import annotations

from typing import get_args

import pytest

from plait.core.errors import ErrorClass
from plait.core.exchange import TRANSIENT, ProviderFailed, View
from plait.core.messages import user


def test_a_view_shows_the_beginning_and_its_extra() -> None:
    """A view is the first messages of a history that may have grown since, and what only this request ends with."""
    history = [user("a"), user("b")]
    view = View(0, history, 1, (user("only here"),))
    history.append(user("c"))

    assert [user("a"), user("only here")] == view.messages


@pytest.mark.parametrize("kind", get_args(ErrorClass))
def test_the_class_says_whether_asking_again_may_help(kind: ErrorClass) -> None:
    """A failure is retryable by its class, unless the one who saw it knows better."""
    assert (kind in TRANSIENT) == ProviderFailed(kind, "x").retryable
    assert ProviderFailed(kind, "x", retryable=True).retryable
    assert not ProviderFailed(kind, "x", retryable=False).retryable
