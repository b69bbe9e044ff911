"""The two numbers in an overflow: how many tokens were requested, and how many fit.

Floor: 1. Owns: reading them from fields and sentences; never: whether it is an overflow.
"""

from __future__ import annotations

import re
from typing import Final

from plait.wire.errors.body import ErrorBody

_N: Final = r"([\d,]{0,14}\d)"
_PAIRS: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # requested, then limit
        rf"request \({_N} tokens\) exceeds .{{0,60}}\({_N} tokens\)",
        rf"input token count \(?{_N}\)? exceeds .{{0,80}}?\(?{_N}\)?",
        rf"input \({_N} tokens\) is longer than .{{0,80}}\({_N} tokens\)",
        rf"prompt contains {_N} tokens .{{0,80}}model with {_N} maximum",
        rf"prompt token count of {_N} exceeds the limit of {_N}",
        rf"prompt is too long: {_N} tokens > {_N}",
        rf"too long: {_N}, model maximum context length: {_N}",
        rf"current length is {_N} while limit is {_N}",
        rf"input token count is {_N} but model only supports up to {_N}",
        rf"keep the first {_N} tokens .{{0,80}}context length of only {_N}",
        rf"prompt \(length {_N}\) is longer than .{{0,40}}length of {_N}",
        rf"input length \(?{_N}\)? exceeds .{{0,60}}length (?:of )?\(?{_N}\)?",
        rf"prompt has {_N} tokens, but the configured context size is {_N}",
        rf"prompt {_N} tokens .{{0,40}}slot context: {_N}",
        rf"prompt_tokens \({_N}\) must be less than max_seq_len \({_N}\)",
        rf"tokens \({_N}\) exceeded .{{0,60}}limit \({_N}\)",
        rf"number of input tokens {_N} cannot exceed .{{0,40}}limit {_N}",
        rf"has {_N} tokens, exceeding the maximum context length {_N}",
    )
)
_REVERSED: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # limit, then requested
        rf"maximum context length is {_N} tokens.*?total of (?:at least )?{_N}",
        rf"maximum context length (?:is|of) {_N} tokens.*?(?:requested|resulted in)(?: about| a total of)? {_N}",
        rf"limit of {_N} tokens\..{{0,80}}resulted in {_N}",
        rf"maximum prompt length is {_N} but the request contains {_N}",
        rf"model token limit: {_N} \(requested: {_N}\)",
        rf"cannot exceed {_N} - received {_N}",
        rf"slot context: {_N} tokens, prompt {_N}",
        rf"must have less than {_N} tokens\. Given: {_N}",
        rf"max input tokens: {_N}, request input token count: {_N}",
    )
)
_SUM: Final = re.compile(rf"context limit: {_N} \+ {_N} > {_N}", re.IGNORECASE)
_DIFFERENCE: Final = re.compile(rf"\({_N} > {_N} - {_N}\)")
_PASSED: Final = re.compile(
    rf"passed {_N} input tokens and requested {_N} output tokens.*?context length is only {_N}",
    re.IGNORECASE | re.DOTALL,
)
_GIVEN: Final = re.compile(rf"must be <= {_N}\. Given: {_N} `?inputs`? tokens and {_N}", re.IGNORECASE)
_ADVICE: Final = re.compile(r"the prompt alone fits: lower max_tokens from \d+ to at most (\d+)")
_OUTPUT_SHARE: Final = re.compile(rf"{_N} in the (?:output|completion)", re.IGNORECASE)
_LIMIT: Final = re.compile(
    rf"(?:maximum context length (?:is|of)|context (?:length|window|size) (?:is|of)(?: only)?|max size:|\[1,"
    rf"|number of tokens allowed) {_N}",
    re.IGNORECASE,
)


def tokens_of(error: ErrorBody) -> tuple[int | None, int | None] | None:
    """Return (requested, limit) as far as the error names them, None when it names neither."""
    for item in reversed(error.objects):
        requested, limit = item.get("n_prompt_tokens"), item.get("n_ctx")
        if isinstance(requested, int) and isinstance(limit, int):
            return requested, limit
    text = error.message
    if shares := _shares(text):
        return shares[0] + shares[1], shares[2]
    if match := _GIVEN.search(text):
        return _int(match[2]) + _int(match[3]), _int(match[1])
    for pattern in _PAIRS:
        if match := pattern.search(text):
            return _int(match[1]), _int(match[2])
    for pattern in _REVERSED:
        if match := pattern.search(text):
            return _int(match[2]), _int(match[1])
    match = _LIMIT.search(text)
    return (None, _int(match[1])) if match else None


def lower_output_advice(error: ErrorBody) -> str:
    """Return the advice to ask for less output, where the prompt alone would have fitted; else nothing."""
    text = error.message
    if shares := _shares(text):
        prompt, output, limit = shares
    elif (match := _OUTPUT_SHARE.search(text)) and (tokens := tokens_of(error)) and tokens[0] and tokens[1]:
        output, limit = _int(match[1]), tokens[1]
        prompt = tokens[0] - output
    else:
        return ""
    if prompt >= limit:
        return ""
    return f"the prompt alone fits: lower max_tokens from {output} to at most {limit - prompt}"


def _shares(text: str) -> tuple[int, int, int] | None:
    """Return the tokens of the prompt, of the output, and of the window, where a sentence names all three."""
    if match := _DIFFERENCE.search(text):
        return _int(match[3]), _int(match[1]), _int(match[2])
    match = _SUM.search(text) or _PASSED.search(text)
    return (_int(match[1]), _int(match[2]), _int(match[3])) if match else None


def output_limit_in(advice: str) -> int | None:
    """Return the tokens that `lower_output_advice` leaves to the output, None for any other advice."""
    match = _ADVICE.fullmatch(advice)
    return _int(match[1]) if match else None


def _int(text: str) -> int:
    return int(text.replace(",", ""))
