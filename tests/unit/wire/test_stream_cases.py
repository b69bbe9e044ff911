"""Every recorded stream assembles exactly, wherever its reads end."""

from __future__ import annotations

import json
import sys
from typing import Any

import orjson
import pytest

from plait.core.exchange import ProviderFailed
from plait.wire.decode import decode_body, decoder_for, describe_answer, parse_cut, pieces_of
from plait.wire.profile import DecodeOptions, WireName, standard_loads
from tests.helpers.warm import run_warm
from tests.unit.wire.cases import CASES, Case, printed_without_replay, stream_cases, wanted

CUTS = ("whole", "bytes", "random:1", "random:2", "random:3")
WIRES: tuple[WireName, ...] = ("chat", "responses", "anthropic")
ALL_CASES = [case for wire in WIRES for case in stream_cases(wire)]


def decoded(case: Case, cut: str) -> dict[str, Any]:
    cuts = parse_cut(cut, len(case.body))
    return describe_answer(decode_body(case.body, case.profile, cuts=cuts), with_replay=True)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_case_assembles_exactly(case: Case) -> None:
    """A recorded body gives the answer that its case expects."""
    got = decoded(case, "whole")
    assert wanted(case, got) == printed_without_replay(case, got)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_case_does_not_depend_on_cuts(case: Case) -> None:
    """The answer is the same for one read, single bytes, random cuts and the cuts that a case names."""
    named = [",".join(map(str, case.expected["chunk_splits"]))] if "chunk_splits" in case.expected else []
    answers = {json.dumps(decoded(case, cut)) for cut in (*CUTS, *named)}
    assert 1 == len(answers)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_fast_parser_gives_the_same_answer(case: Case) -> None:
    """A decoder that is handed orjson assembles the same message, or fails in the same way."""
    assert outcome(case, standard_loads) == outcome(case, orjson.loads)


def outcome(case: Case, loads: Any) -> object:
    decoder = decoder_for(case.profile, DecodeOptions(loads=loads, new_id=lambda: "new"))
    for piece in pieces_of(case.body, parse_cut("random:7", len(case.body))):
        decoder.feed(piece)
    try:
        return decoder.finish()
    except ProviderFailed as failed:
        return failed.kind, failed.detail, failed.code, failed.message, failed.partial


@pytest.mark.parametrize("wire", WIRES)
def test_cases_exist(wire: WireName) -> None:
    """The recorded bodies of every wire are there to be decoded."""
    assert stream_cases(wire)


def test_case_as_a_real_process() -> None:
    """The command prints one ASCII line for a file and ends with 0 although the stream was cut."""
    path = CASES / "sse" / "wire_eof_mid_tool_call.sse"
    code = "from plait.cli.wire_command import wire; wire()"
    command = [sys.executable, "-c", code, "decode", str(path), "--wire", "chat", "--cut", "bytes"]
    done = run_warm(command, capture_output=True, check=False, timeout=60)
    assert (0, b"") == (done.returncode, done.stderr)
    assert done.stdout.isascii()
    assert 1 == done.stdout.count(b"\n")
    assert "incomplete_stream" == json.loads(done.stdout)["error"]["kind"]
