"""The prompt cache on the command line: proof that is asked for, and what a session's requests found."""

from __future__ import annotations

import json
from pathlib import Path

from plait.testing import Call, ScriptServer
from tests.e2e.command import plait_each


def test_a_run_ends_with_4_where_proof_was_asked_for_and_none_came(tmp_path: Path) -> None:
    """One request, one sentence with advice, exit code 4; without proof, with too short a prompt, or left to plait at
    an endpoint of which nothing is known, the run goes on."""
    ways = [
        ("--strict-cache-proof",),
        ("--no-strict-cache-proof",),
        ("--strict-cache-proof", "--min-cacheable-tokens", "1000000", "--cache-ttl-seconds", "60"),
        (),
    ]
    with ScriptServer([*["done"] * len(ways)], usage="plain") as server:
        at = ("run", "x", "--json", "--endpoint", server.url, "-m", "m")
        ended = plait_each(*[(*at, *way) for way in ways], cwd=tmp_path)
        requests = len(server.requests)

    assert ([4, 0, 0, 0], 4) == ([ran.code for ran in ended], requests)
    failed = ended[0].json
    assert ("error", "CacheProofError", "cache_proof") == (
        failed["status"],
        failed["error"]["class"],
        failed["error"]["code"],
    )
    assert "--no-strict-cache-proof" in ended[0].err
    told = ["does not say what it holds" in ran.err for ran in ended]
    assert [False, False, False, True] == told


def test_a_run_can_be_explained_afterwards(tmp_path: Path) -> None:
    """The journal that a run left tells each request, in a process that knows nothing else."""
    with ScriptServer([Call("exec_shell", {"command": "echo hi"}), "done"]) as server:
        (ran,) = plait_each(("run", "x", "--yes", "--json", "--endpoint", server.url, "-m", "m"), cwd=tmp_path)
    explained, missing, wrong = plait_each(
        ("cache", "explain", ran.json["session_id"], "--json"),
        ("cache", "explain", "nothing"),
        ("run", "x", "--cache-ttl-seconds", "nan"),
        cwd=tmp_path,
    )

    assert (0, 0, 2, 2) == (ran.code, explained.code, missing.code, wrong.code)
    first, second = json.loads(explained.out)["requests"]
    assert ("first", "hit", True) == (first["verdict"], second["verdict"], second["extends"])
    assert second["cached"] > 0
