"""`plait doctor sandbox`: which promises of a fence hold on this machine, found by trying to break them.

Floor: 7. Owns: the table and the exit code; never: the attempts (`hands.fence.probe`).
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Final

from plait.cli.escapes import visible
from plait.cli.exits import Exit
from plait.hands.fence.policy import SandboxPolicy
from plait.hands.fence.probe import Proof, prove_fence

_MARKS: Final[Mapping[str, str]] = {"proved": "[ OK ]", "not available": "[ -- ]", "not proved": "[FAIL]"}
_ADVICE: Final = (
    "install bubblewrap, and allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, or\n"
    "an AppArmor profile for bwrap; in a container: run it with the rights to make them)"
)


def check_sandbox(*, as_json: bool) -> int:
    """Try the fence, and where there is none the lesser one; print what came of it.

    Exit code 0 where a fence keeps every promise that it makes, 1 where there is none or one is broken.
    """
    with tempfile.TemporaryDirectory(prefix="plait-doctor-") as folder:
        proof = prove_fence(SandboxPolicy(folder))
        lesser = None if proof.level else prove_fence(SandboxPolicy(folder, landlock_alone=True))
    holds = (lesser or proof).holds
    if as_json:
        document = {**proof.to_dict(), "ok": holds, "user": os.geteuid()}
        print(json.dumps({**document, "fallback": None if lesser is None else lesser.to_dict()}))
    else:
        _show(proof)
        if lesser is not None:
            _show_lesser(lesser)
    return Exit.COMPLETED if holds else Exit.FAILED


def _show(proof: Proof) -> None:
    if not proof.level:
        print(f"[FAIL] {visible(proof.problem)}\n{_ADVICE}")
        return
    who = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    print(f"{proof.level}, as {who}: what a fenced process tried, and what came of it")
    _show_promises(proof)


def _show_lesser(proof: Proof) -> None:
    if not proof.level:
        print(f"[FAIL] without bubblewrap: {visible(proof.problem)}")
        return
    print(f"without bubblewrap, only where a policy says landlock_alone: {proof.level}")
    _show_promises(proof)


def _show_promises(proof: Proof) -> None:
    for promise in proof.promises:
        print(f"{_MARKS[promise.verdict]} {promise.area:<11} {promise.promise} ({visible(promise.detail)})")
    counts = {verdict: sum(promise.verdict == verdict for promise in proof.promises) for verdict in _MARKS}
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
