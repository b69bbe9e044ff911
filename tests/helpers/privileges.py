"""Run code as a user whom file modes bind.

Root ignores mode bits, and tests often run as root. The child keeps its user, so that it can read the interpreter and
the test's folders, but loses every capability: for it, a read-only folder is read-only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def without_privileges(*argv: str | Path) -> list[str | Path]:
    """Return `argv`, prefixed with what takes root's powers away; skip the test where that cannot be done."""
    if os.geteuid() != 0:
        return [*argv]
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root ignores file modes, and setpriv (util-linux) is not installed to drop its powers")
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--", *argv]


def run_unprivileged(
    code: str,
    *args: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 30,
) -> subprocess.CompletedProcess[str]:
    """Run Python `code` (its `sys.argv[1:]` is `args`) where file modes count, and return how it ended."""
    return subprocess.run(
        without_privileges(sys.executable, "-c", code, *args),
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
