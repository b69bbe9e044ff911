"""`plait wire` prints one line of JSON for any body, and usage errors for everything else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plait.cli.wire_command import wire
from tests.unit.wire.cases import CASES, Case, printed_without_replay, stream_cases, wanted

ALL_CASES = [case for name in ("chat", "responses", "anthropic") for case in stream_cases(name)]
SAMPLE = [case for case in ALL_CASES if case.name in ("qwen_bare_close_think", "responses_reasoning_encrypted")]
ERRORS = [json.loads(line) for line in (CASES / "http_errors.jsonl").read_text("utf-8").splitlines()]


def run(*args: str, stdin: bytes = b"") -> tuple[int, str]:
    result = CliRunner().invoke(wire, args, input=stdin)
    return result.exit_code, result.output


def printed(*args: str, stdin: bytes = b"") -> dict[str, Any]:
    code, output = run(*args, stdin=stdin)
    assert 0 == code, output
    assert output.isascii()
    return dict(json.loads(output))


def arguments_of(case: Case, cut: str) -> list[str]:
    """The command line that a case stands for, with the headers of its answer."""
    headers = [f"{name}: {value}" for name, value in case.expected["http"]["headers"].items()]
    options = ["--wire", case.profile.wire, "--think", case.profile.think, "--cut", cut, "--echo"]
    return [str(CASES / "sse" / f"{case.name}.sse"), *options, *(f"--header={header}" for header in headers)]


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_decode_prints_every_case(case: Case) -> None:
    """A recorded body is printed as its case expects, with what has to be echoed, wherever it is cut."""
    named = ",".join(map(str, case.expected.get("chunk_splits", [1, 40])))
    lines = {json.dumps(printed("decode", *arguments_of(case, cut))) for cut in ("whole", "bytes", "random:5", named)}
    assert 1 == len(lines)
    got = json.loads(lines.pop())
    assert wanted(case, got) == printed_without_replay(case, got)
    names = ["content", "reasoning", "refusal", "tool_calls", "finish_reason", "raw_finish_reason", "usage", "empty"]
    assert [*names, "error"] == [name for name in got if name != "replay"]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_decode_in_a_process_of_its_own(case: Case) -> None:
    """The installed program prints the same line."""
    ran = subprocess.run(plait("decode", *arguments_of(case, "bytes")), capture_output=True, check=True, timeout=30)
    assert printed("decode", *arguments_of(case, "whole")) == json.loads(ran.stdout)


@pytest.mark.parametrize(
    "verb", [["decode", "--wire", "chat"], ["classify", "--status", "400"]], ids=["decode", "classify"]
)
def test_nobody_listens(verb: list[str]) -> None:
    """A line that nobody can be told is no success."""
    argv = ["sh", "-c", 'exec "$@" >&-', "sh", *plait(*verb, "-")]
    ran = subprocess.run(argv, input=b"{}", capture_output=True, timeout=30, check=False)
    assert (1, b"") == (ran.returncode, ran.stdout)


def plait(*args: str) -> list[str]:
    return [sys.executable, "-m", "plait", "wire", *args]


@pytest.mark.parametrize("depth", [3, 250, 970, 5_000])
def test_records_that_no_parser_takes(depth: int) -> None:
    """What is printed is strict JSON, also where a provider's own records are not."""
    deep = "[" * depth + "NaN" + "]" * depth
    call = f'{{"index":0,"id":"c","function":{{"name":"f"}},"extra_content":{deep}}}'
    chunk = f'{{"choices":[{{"index":0,"delta":{{"tool_calls":[{call}]}},"finish_reason":"stop"}}]}}'
    code, output = run("decode", "-", "--wire", "chat", "--echo", stdin=f"data: {chunk}\n\n".encode())
    assert (0, True) == (code, "NaN" not in output)
    json.loads(output)


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case["name"])
def test_classify_prints_every_case(case: dict[str, Any]) -> None:
    """A recorded error is printed with the class, and the wait, that its case expects."""
    headers = [f"--header={name}: {value}" for name, value in case["headers"].items()]
    got = printed("classify", "-", "--status", str(case["status"]), *headers, stdin=case["body"].encode())
    expected = {name: value for name, value in case["expected"].items() if name != "hint"}
    assert expected == {name: got[name] for name in expected}
    assert ["class", "retryable", "wait_s", "tokens", "code", "message", "advice"] == list(got)


def test_decode_reads_stdin_and_headers() -> None:
    """A body may come from stdin, packed as its header says."""
    import zlib

    body = zlib.compress(b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}')
    got = printed("decode", "-", "--wire", "chat", "--header", "Content-Encoding: deflate", stdin=body)
    assert ("a", "replay" in got) == (got["content"], False)


@pytest.mark.parametrize("cut", ["whole", "bytes", "random:7", "3", "1,2,1000", "0"])
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
        ["decode", "-", "--wire", "chat", "--cut", "random:x"],
        ["decode", "-", "--wire", "chat", "--cut", "random:"],
        ["decode", "-", "--wire", "chat", "--cut", "1,,2"],
        ["decode", "-", "--wire", "chat", "--cut", ""],
        ["decode", "-", "--wire", "chat", "--cut", "9" * 6_000],
        ["classify", "-", "--status", "9" * 6_000],
        ["classify", "-", "--status", "400", "--window", "9" * 6_000],
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
    assert len(output) < 400


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
