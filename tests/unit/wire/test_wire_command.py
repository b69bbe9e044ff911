"""`plait wire` prints one line of JSON for any body, and usage errors for everything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plait.cli.wire_command import wire
from tests.unit.wire.cases import CASES, printed_without_replay, stream_cases, wanted

SAMPLE = [
    "qwen_bare_close_think",
    "responses_reasoning_encrypted",
    "anthropic_thinking_tool",
    "litellm_thinking_blocks",
]


def run(*args: str, stdin: bytes = b"") -> tuple[int, str]:
    result = CliRunner().invoke(wire, args, input=stdin)
    return result.exit_code, result.output


def printed(*args: str, stdin: bytes = b"") -> dict[str, Any]:
    code, output = run(*args, stdin=stdin)
    assert 0 == code, output
    assert output.isascii()
    return dict(json.loads(output))


@pytest.mark.parametrize("name", SAMPLE)
def test_decode_prints_the_case(name: str) -> None:
    """A recorded body is printed as its case expects, with what has to be echoed."""
    case = next(
        case
        for wire_name in ("chat", "responses", "anthropic")
        for case in stream_cases(wire_name)
        if case.name == name
    )
    path, profile = CASES / "sse" / f"{name}.sse", case.profile
    got = printed("decode", str(path), "--wire", profile.wire, "--think", profile.think, "--cut", "random:5", "--echo")
    assert wanted(case, got) == printed_without_replay(case, got)
    assert {"content", "reasoning", "refusal", "tool_calls", "finish_reason", "raw_finish_reason", "usage"} | {
        "empty",
        "error",
        "replay",
    } == {*got, "replay"}


def test_decode_reads_stdin_and_headers() -> None:
    """A body may come from stdin, packed as its header says."""
    import zlib

    body = zlib.compress(b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}')
    got = printed("decode", "-", "--wire", "chat", "--header", "Content-Encoding: deflate", stdin=body)
    assert ("a", "replay" in got) == (got["content"], False)


@pytest.mark.parametrize("cut", ["whole", "bytes", "random:x", "3", "1,2,1000", "0"])
def test_cuts_do_not_change_what_is_printed(cut: str) -> None:
    """Every way to cut the body gives the same line."""
    body = b'data: {"choices":[{"delta":{"content":"\xc3\xa4"}}]}\n\n'
    assert run("decode", "-", "--wire", "chat", stdin=body) == run(
        "decode", "-", "--wire", "chat", "--cut", cut, stdin=body
    )


@pytest.mark.parametrize(
    "args",
    [
        ["decode", "-"],
        ["decode", "-", "--wire", "fax"],
        ["decode", "-", "--wire", "chat", "--cut", "sometimes"],
        ["decode", "-", "--wire", "chat", "--cut", "-1"],
        ["decode", "-", "--wire", "chat", "--header", "nothing"],
        ["decode", "/nowhere/at/all", "--wire", "chat"],
        ["decode", "/", "--wire", "chat"],
        ["classify", "-"],
        ["classify", "-", "--status", "many"],
        ["classify", "/nowhere/at/all", "--status", "400"],
    ],
)
def test_usage_errors(args: list[str]) -> None:
    """A wrong option or an unreadable file ends with 2 and a sentence, never with a traceback."""
    code, output = run(*args)
    assert 2 == code
    assert "Error: " in output


def test_classify_prints_what_to_do(tmp_path: Path) -> None:
    """A refused request is printed with its class, wait, numbers and advice."""
    body = tmp_path / "body"
    body.write_text('{"error":{"code":"context_length_exceeded","message":"9 is too much"}}')
    assert {
        "class": "context_overflow",
        "retryable": False,
        "wait_s": None,
        "tokens": {"requested": 9, "limit": 8},
        "code": "context_length_exceeded",
        "message": "9 is too much",
        "advice": "the conversation does not fit the model's window: compact it, or choose a larger window",
    } == printed("classify", str(body), "--status", "400", "--prompt-tokens", "9", "--window", "8")


def test_classify_reads_waits_from_headers() -> None:
    """Headers may be given in any case; the `Date` header is the base of a date."""
    date = ["--header", "DATE: Wed, 21 Oct 2026 07:28:00 GMT"]
    wait = ["--header", "Retry-After: Wed, 21 Oct 2026 07:28:20 GMT"]
    assert 20 == printed("classify", "-", "--status", "429", *date, *wait)["wait_s"]
