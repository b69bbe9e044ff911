"""The comparison of what breakages cost: what counts as lost, as invalid, and that a system can be broken at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.reliability.__main__ import counts
from bench.reliability.model import is_valid, items_of, missing

REPOSITORY = Path(__file__).resolve().parents[3]
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"x"}'}}
CONVERSATION = [
    {"role": "user", "content": "Do it."},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "saw x"},
]


def test_what_is_lost() -> None:
    """Each text, call and result that is not there any more; a question may have become part of another."""
    before = items_of(CONVERSATION)
    later = [("user", "Do it.\n\nAnd what now?"), *before[1:3]]

    assert 4 == len(before)
    assert [] == missing(before, before)
    assert [("result", "c1", "saw x")] == missing(before, later)


def test_what_is_valid() -> None:
    """Each call has its result right after it, and each result its call."""
    assert is_valid(CONVERSATION)
    assert not is_valid(CONVERSATION[:2])
    assert not is_valid([*CONVERSATION[:2], CONVERSATION[0], CONVERSATION[2]])
    assert not is_valid(CONVERSATION[2:])


def test_how_lines_are_counted() -> None:
    """Truths and numbers are summed, words counted, and what only tells cases apart is left out."""
    lines = [
        {"case": 1, "opens": True, "lost": 2, "error": ""},
        {"case": 2, "opens": False, "lost": 0, "error": "E: 7"},
    ]

    assert {"cases": 2, "opens": 1, "lost": 2, "cases_with_loss": 1, "error": {"E: N": 1}} == counts(lines)


def test_a_system_is_broken(tmp_path: Path) -> None:
    """`python -m bench.reliability` runs its scripts on plait and writes a line for every case."""
    out = tmp_path / "lines.jsonl"
    command = [sys.executable, "-m", "bench.reliability", "--system", "plait", "--cases", "1", "--out", str(out)]
    ran = subprocess.run(
        [*command, "--only", "full-disk", "noises"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    lines = [json.loads(line) for line in out.read_text().splitlines()]

    assert (0, "") == (ran.returncode, ran.stderr)
    assert 1 + 6 == len(lines)
    assert [True, 0, 0] == [lines[0][name] for name in ("resumed", "lost", "twice")]
    assert {"same"} == {line["output"] for line in lines[1:]}
