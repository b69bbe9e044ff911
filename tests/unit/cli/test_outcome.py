"""An outcome's exit code, its JSON object and its line."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from plait.cli.approving import Denial
from plait.cli.outcome import Outcome, failed, failed_usage
from plait.core import errors
from plait.core.errors import PlaitError
from plait.core.messages import ToolCall
from plait.core.usage import Usage

CALL = ToolCall.of("c1", "exec_shell", {"command": "make"})
KEYS = "status reply error session_id steps usage cost duration_s denials structured sandbox".split()


@pytest.mark.parametrize(
    "outcome, code",
    [
        (Outcome("completed"), 0),
        (Outcome("completed", denials=[Denial(CALL, "user")]), 0),
        (Outcome("completed", denials=[Denial(CALL, "nobody")]), 1),
        (Outcome("limit", error=errors.LimitReached("200 steps", limit="max_steps")), 1),
        (Outcome("waiting"), 5),
        (Outcome("interrupted"), 130),
        (Outcome("interrupted", signal_exit=143), 143),
        (Outcome("completed", signal_exit=143), 0),
        (Outcome("error"), 1),
    ],
)
def test_an_outcome_has_one_exit_code(outcome: Outcome, code: int) -> None:
    """The code says how the run ended; a signal that came too late to stop it does not count."""
    assert code == outcome.exit_code


@pytest.mark.parametrize(
    "error, code",
    [
        (errors.ConfigError("x"), 2),
        (errors.AgentSpecInvalidError("x"), 2),
        (errors.TrustRequired("x"), 2),
        (errors.AuthenticationError("x"), 3),
        (errors.ModelUnavailable("x"), 3),
        (errors.ContextWindowExceededError("x"), 3),
        (errors.CacheProofError("x"), 4),
        (errors.ApprovalDenied("x"), 1),
        (errors.JournalFull("x"), 1),
        (errors.FatalToolDispatchError("x"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: PlaitError, code: int) -> None:
    """Configuration is 2, the model 3, the cache proof 4, everything else 1."""
    assert code == Outcome("error", error=error).exit_code


def test_the_object_always_has_the_same_keys() -> None:
    """A success, a failed run, an error before the run and a wrong command line print the same keys."""
    documents = [
        Outcome("completed", "hi").to_dict(),
        Outcome("error", error=errors.RateLimitError("x", hint="y")).to_dict(),
        failed(errors.ConfigError("x")),
        failed_usage("no such option", "see --help"),
    ]

    assert [KEYS] * 4 == [list(json.loads(json.dumps(document))) for document in documents]
    assert {"class": "RateLimitError", "code": "model_rate_limit", "message": "x", "advice": "y"} == documents[1][
        "error"
    ]
    assert {"input", "output", "cached", "cache_write"} == set(documents[2]["usage"])  # type: ignore[call-overload]


def test_a_call_that_nobody_could_allow_is_told_with_its_remedy() -> None:
    """The object names the call, who did not allow it, and the flag that would."""
    document = Outcome("completed", "I could not run it.", denials=[Denial(CALL, "nobody")]).to_dict()

    (denial,) = document["denials"]  # type: ignore[misc]
    assert ("exec_shell", {"command": "make"}, "nobody") == (denial["tool"], denial["arguments"], denial["by"])
    assert "ApprovalDenied" == document["error"]["class"]  # type: ignore[index]
    assert "--yes" in document["error"]["advice"]  # type: ignore[index]


@pytest.mark.parametrize(
    "usage, line",
    [
        (Usage(1200, 34, 900), "2 steps, 1,200 tokens in (75 % from the cache), 34 out, 1.5 s"),
        (Usage(1200, 34, None), "2 steps, 1,200 tokens in, 34 out, 1.5 s"),
        (Usage(1200, None, None), "2 steps, 1,200 tokens in, ? out, 1.5 s"),
        (Usage(), "2 steps, tokens not reported, 1.5 s"),
        (
            Usage(10, 1, 0, cost=Decimal("0.00120")),
            "2 steps, 10 tokens in (0 % from the cache), 1 out, 0.0012 USD, 1.5 s",
        ),
    ],
)
def test_the_summary_claims_only_what_was_reported(usage: Usage, line: str) -> None:
    """Steps, tokens, the cached share where it is known, the cost where there is one, the time."""
    assert line == Outcome("completed", steps=2, usage=usage, duration_s=1.5).summary()
