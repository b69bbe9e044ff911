"""What a person reads when a model cannot be asked."""

from __future__ import annotations

from typing import get_args

import pytest

from plait.core.errors import ContextWindowExceededError, ErrorClass, ModelError
from plait.core.exchange import ProviderFailed
from plait.models.errors import to_error
from plait.models.failures import where_of


@pytest.mark.parametrize("kind", get_args(ErrorClass))
def test_every_class_of_failure_is_one_line_with_advice(kind: ErrorClass) -> None:
    """Whatever the class, the error is a model error of that class, says who said what in one line, and what to do."""
    failed = ProviderFailed(kind, "it said:\n  no  ", status=500, code="x", retry_after_s=3.0)
    error = to_error(failed, model="m", endpoint="https://models.example/v1")
    assert isinstance(error, ModelError)
    assert (kind, 500, "x") == (error.kind, error.status, error.error_code)
    assert "\n" not in str(error)
    assert str(error).endswith("it said: no")
    assert error.hint


def test_an_overflow_says_its_numbers() -> None:
    """Asked for and fitting tokens are in the sentence and on the error."""
    failed = ProviderFailed("context_overflow", "too long", status=400, tokens=(130_512, 128_000))
    error = to_error(failed, model="m", endpoint="https://models.example/v1")
    assert isinstance(error, ContextWindowExceededError)
    assert (130_512, 128_000) == (error.requested_tokens, error.limit_tokens)
    assert "130,512 tokens of 128,000" in str(error)


def test_a_failure_without_an_answer_speaks_for_itself() -> None:
    """A sentence about the connection is not put behind another one."""
    failed = ProviderFailed("unavailable", "nothing listens at h:1", hint="start the server", phase="connect")
    error = to_error(failed, model="m", endpoint="http://h:1/v1")
    assert ("nothing listens at h:1", "start the server") == (str(error), error.hint)
    assert "connect" == error.context["phase"]


def test_a_secret_in_an_answer_is_not_repeated() -> None:
    """What looks like a key is masked, and a sentence without end is cut."""
    failed = ProviderFailed("auth", "bad key sk-abcdefghijklmnopqrstuvwxyz123456 " + "x" * 2_000, status=401)
    error = to_error(failed)
    assert "sk-abc" not in str(error)
    assert len(str(error)) < 1_000


def test_where_names_host_and_port_alone() -> None:
    """User, path and query of a URL are nobody's business."""
    assert "models.example:8080" == where_of("https://user:pw@models.example:8080/v1?key=secret")
    assert "[::1]:1" == where_of("http://[::1]:1/v1")
