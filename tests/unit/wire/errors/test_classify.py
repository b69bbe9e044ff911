"""Errors of every provider get the class, the wait and the numbers that they state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.core.errors import ErrorClass
from plait.wire.errors.classify import classify
from plait.wire.errors.failure import ADVICE
from plait.wire.errors.waits import parse_wait
from tests.unit.wire.cases import CASES

ERRORS = [json.loads(line) for line in (CASES / "http_errors.jsonl").read_text("utf-8").splitlines()]
MORE_ERRORS = Path(__file__).parents[1] / "more_errors.jsonl"
MORE = [json.loads(line) for line in MORE_ERRORS.read_text("utf-8").splitlines()]
NOW_S = 1792567680.0
"""Wed, 21 Oct 2026 07:28:00 GMT."""
RATE_LIMIT = '{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}'


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case["name"])
def test_recorded_error(case: Mapping[str, Any]) -> None:
    """A recorded error has the class, and where one is stated the wait, that its case expects."""
    failure = classify(case["status"], case["headers"], case["body"])
    got = {"class": failure.kind, "wait_s": failure.wait_s}
    assert {**got, **{name: case["expected"][name] for name in got if name in case["expected"]}} == got


@pytest.mark.parametrize("case", MORE, ids=lambda case: case["class"])
def test_documented_error(case: Mapping[str, Any]) -> None:
    """An error as a provider documents it, or as its users report it, has its class, and all else that is known."""
    failure = classify(
        case["status"],
        case.get("headers", {}),
        case["body"],
        prompt_tokens=case.get("prompt_tokens"),
        window=case.get("window"),
        now_s=NOW_S,
    )
    tokens = None if failure.tokens is None else list(failure.tokens)
    got: dict[str, Any] = {"class": failure.kind, "retryable": failure.retryable, "wait_s": failure.wait_s}
    got |= {"code": failure.code, "tokens": tokens}
    assert {name: case[name] for name in got if name in case} == {name: got[name] for name in got if name in case}


@pytest.mark.parametrize(
    "status, body, expected",
    [
        (401, "", "auth"),
        (402, "{}", "quota"),
        (403, '{"error":{"message":"no access"}}', "auth"),
        (403, '{"error":{"message":"You have reached your usage limit for this billing cycle"}}', "quota"),
        (404, "<html>not found</html>", "model_not_found"),
        (404, '{"error":{"message":"No endpoints found that support tool use"}}', "unsupported_feature"),
        (408, "", "timeout"),
        (413, "", "request_too_large"),
        (413, '{"error":{"code":"tokens_limit_reached","message":"Max size: 8000 tokens."}}', "context_overflow"),
        (429, "slow down", "rate_limit"),
        (429, '{"error":{"message":"Limit 30000 tokens per min (TPM), maximum context"}}', "rate_limit"),
        (429, '{"error":{"type":"insufficient_quota"}}', "quota"),
        (429, '{"error":{"type":"engine_overloaded_error"}}', "overloaded"),
        (500, "<html>", "unavailable"),
        (500, '{"error":"the input length exceeds the context length"}', "context_overflow"),
        (503, '{"error":{"type":"unavailable_error","message":"Loading model"}}', "unavailable"),
        (504, "", "timeout"),
        (529, "", "overloaded"),
        (529, '{"error":{"type":"server_error","message":"Site is overloaded"}}', "overloaded"),
        (504, '{"error":{"type":"api_error"}}', "timeout"),
        (400, "{}", "bad_request"),
        (400, '{"error":{"message":"max_tokens is too large: 9. This model supports at most 8"}}', "bad_request"),
        (400, '{"error":{"code":"tool_use_failed","message":"Failed to call a function"}}', "protocol"),
        (400, '{"error":{"code":"unsupported_parameter","param":"parallel_tool_calls"}}', "unsupported_feature"),
        (400, '{"error":{"message":"x","param":"tools[0].function.name"}}', "invalid_tools"),
        (400, '{"error":{"message":"Your credit balance is too low"}}', "quota"),
        (200, '{"error":{"code":429,"message":"Worker limit reached"}}', "rate_limit"),
        (200, '{"type":"error","error":{"type":"overloaded_error"}}', "overloaded"),
        (200, 'data: {"error":{"code":400,"message":"maximum context length is 9 tokens"}}\n\n', "context_overflow"),
        (200, "<html>sign in</html>", "protocol"),
        (200, "", "protocol"),
    ],
)
def test_signs_are_believed_in_order(status: int, body: str, expected: ErrorClass) -> None:
    """Codes, types and statuses decide; sentences decide about windows and histories, and where nothing else does."""
    assert expected == classify(status, {}, body).kind


def test_an_allowance_that_comes_back_is_waited_for() -> None:
    """A spent allowance is lasting, unless the provider says when there is a new one."""
    body = '{"error":{"message":"You have reached your usage limit"}}'
    lasting, passing = classify(403, {}, body), classify(403, {"retry-after": "30"}, body)
    assert ("quota", False, None) == (lasting.kind, lasting.retryable, lasting.wait_s)
    assert ("quota", True, 30.0) == (passing.kind, passing.retryable, passing.wait_s)


def test_nested_body_of_a_router() -> None:
    """What the provider behind a router said decides, and is part of the message."""
    inner = json.dumps({"error": {"message": "prompt is too long: 9 tokens > 8 maximum", "type": "x"}})
    body = json.dumps({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": inner}}})
    failure = classify(400, {}, body)
    assert ("context_overflow", (9, 8)) == (failure.kind, failure.tokens)
    assert "Provider returned error: prompt is too long: 9 tokens > 8 maximum" == failure.message


@pytest.mark.parametrize(
    "message, expected",
    [
        ("maximum context length is 128,000 tokens. However, your messages resulted in 130512", (130512, 128000)),
        ("request (2358 tokens) exceeds the available context size (2048 tokens)", (2358, 2048)),
        ("input length and `max_tokens` exceed context limit: 190 + 20 > 200", (210, 200)),
        ("Range of input length should be [1, 129024]", (None, 129024)),
        ("Current length is 8500 while limit is 8192. context window", (8500, 8192)),
        ("Input is too long for requested model.", None),
    ],
)
def test_numbers_of_an_overflow(message: str, expected: tuple[int | None, int | None] | None) -> None:
    """An overflow tells how many tokens were requested and how many fit, as far as its text names them."""
    assert expected == classify(400, {}, json.dumps({"error": {"message": message}})).tokens


def test_overflow_by_output_alone_says_so() -> None:
    """Where the prompt alone would fit, the advice is the number of output tokens that would."""
    body = '{"error":{"message":"exceed context limit: 190000 + 20000 > 200000"}}'
    assert "the prompt alone fits: lower max_tokens from 20000 to at most 10000" == classify(400, {}, body).advice


@pytest.mark.parametrize(
    "status, prompt, window, expected",
    [
        (400, 10, 8, ("context_overflow", (10, 8))),
        (413, 10, 8, ("context_overflow", (10, 8))),
        (400, 7, 8, ("bad_request", None)),
        (401, 10, 8, ("auth", None)),
    ],
)
def test_known_window_explains_a_silent_refusal(status: int, prompt: int, window: int, expected: object) -> None:
    """A refusal without a reason is an overflow when the request was larger than the window."""
    failure = classify(status, {}, "", prompt_tokens=prompt, window=window)
    assert expected == (failure.kind, failure.tokens)


@pytest.mark.parametrize(
    "headers, body, expected",
    [
        ({"Retry-After": "5"}, RATE_LIMIT, 5),
        ({"retry-after": " 1.5 "}, RATE_LIMIT, 1.5),
        ({"retry-after": "soon"}, RATE_LIMIT, None),
        ({"retry-after": ""}, RATE_LIMIT, None),
        ({"retry-after": "-3"}, RATE_LIMIT, 0),
        ({"retry-after": "1m30s"}, RATE_LIMIT, 90),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:20 GMT"}, RATE_LIMIT, 20),
        ({"retry-after": "Wed, 21 Oct 2020 07:28:20 GMT"}, RATE_LIMIT, 0),
        ({"retry-after-ms": "250", "retry-after": "9"}, RATE_LIMIT, 0.25),
        ({"x-ratelimit-reset-requests": "2", "x-ratelimit-remaining-requests": "5"}, RATE_LIMIT, None),
        ({"x-ratelimit-reset-requests": "2", "x-ratelimit-remaining-requests": "0"}, RATE_LIMIT, 2),
        ({"x-ratelimit-reset-requests": "2"}, RATE_LIMIT, 2),
        ({"x-ratelimit-reset": "1792567700", "x-ratelimit-remaining": "0"}, RATE_LIMIT, 20),
        ({"x-ratelimit-reset": "1792567700000", "x-ratelimit-remaining": "0"}, RATE_LIMIT, 20),
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-10-21T07:28:30Z",
                "anthropic-ratelimit-requests-remaining": "4",
                "anthropic-ratelimit-requests-reset": "2026-10-21T08:00:00Z",
            },
            RATE_LIMIT,
            30,
        ),
        ({}, '{"error":{"message":"Please try again in 6.2s."}}', 6.2),
        ({}, '{"error":{"message":"Please try again in 20ms"}}', 0.02),
        ({}, '{"error":{"message":"try again in 1m2.5s"}}', 62.5),
        ({}, '{"error":{"message":"Please retry after 7 seconds."}}', 7),
        ({}, '{"error":{"message":"wait","details":[{"@type":"RetryInfo","retryDelay":"22s"}]}}', 22),
        ({}, '{"error":{"message":"m","metadata":{"headers":{"X-RateLimit-Reset":"1792567700000"}}}}', 20),
        ({}, '{"error":{"code":"1308","message":"limit reached, will reset at 2026-10-21 15:29:00"}}', 60),
        ({}, '{"error":{"message":"no numbers here"}}', None),
    ],
)
def test_waits(headers: Mapping[str, str], body: str, expected: float | None) -> None:
    """A wait is read from every header and body that providers state it in, relative to the answer's own date."""
    date = {"date": "Wed, 21 Oct 2026 07:28:00 GMT"}
    assert expected == classify(429, {**date, **headers}, body).wait_s


def test_date_without_a_base() -> None:
    """A date needs a base: the `Date` header, else the time the caller names, else there is no wait."""
    assert None is parse_wait("Wed, 21 Oct 2026 07:28:20 GMT")
    assert 20.0 == parse_wait("Wed, 21 Oct 2026 07:28:20 GMT", 1792567680.0)


def test_advice_exists_for_every_class() -> None:
    """Every class of failure has one sentence that says what to do."""
    assert all(ADVICE.values())
    assert set(ErrorClass.__args__) == set(ADVICE)  # type: ignore[attr-defined]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "code", "type", "detail", "metadata", "raw", "headers", "retry_after"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.integers(100, 599), JSON, st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2))
def test_any_json_has_a_class(status: int, document: object, headers: dict[str, str]) -> None:
    """Any JSON under any status is classified, and a wait is never negative."""
    failure = classify(status, headers, json.dumps(document))
    assert failure.kind in ADVICE
    assert failure.message
    assert failure.wait_s is None or failure.wait_s >= 0


@given(st.integers(100, 599), st.binary(max_size=60))
def test_any_bytes_have_a_class(status: int, body: bytes) -> None:
    """Bytes of any kind under any status are classified."""
    assert classify(status, {}, body).kind in ADVICE
