"""What the tests of the hands share: a workspace beside a place that nothing may touch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plait.hands.searching.ripgrep import Ripgrep
from plait.hands.workspace import Workspace
from tests.unit.hands.ground import Ground, python_environment


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """An empty root beside an outside with a canary in it."""
    made = Ground(tmp_path / "root", tmp_path / "outside")
    made.root.mkdir()
    made.outside.mkdir()
    (made.outside / "canary").write_text("outside")
    return made


@pytest.fixture(params=["kernel", "names"])
def either_walk(request: pytest.FixtureRequest, ground: Ground) -> Iterator[Workspace]:
    """A lenient workspace, once with the kernel's walk and once with the walk name by name."""
    workspace = ground.workspace(uses_openat2=request.param == "kernel", home=str(ground.root / "home"))
    yield workspace
    workspace.close()


@pytest.fixture
def workspace(ground: Ground) -> Iterator[Workspace]:
    """A lenient workspace."""
    opened = ground.workspace()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def ripgrep() -> Ripgrep:
    """The ripgrep of this machine."""
    found = Ripgrep.find(os.environ["PATH"])
    if found is None:
        pytest.skip("ripgrep is not installed")
    return found


@pytest.fixture
def as_ordinary_user() -> Callable[..., str]:
    """Run Python code in a process for which mode bits hold, even when the tests run as root; return its output."""

    def run(code: str, *arguments: str) -> str:
        prefix: list[str] = []
        if os.geteuid() == 0:
            setpriv = shutil.which("setpriv")
            if setpriv is None:
                pytest.skip("root ignores mode bits, and setpriv is not installed")
            powers = "-dac_override,-dac_read_search"
            prefix = [setpriv, f"--bounding-set={powers}", f"--inh-caps={powers}"]
        done = subprocess.run(
            [*prefix, sys.executable, "-c", code, *arguments],
            env=python_environment(),
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert (0, "") == (done.returncode, done.stderr)
        return done.stdout

    return run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield place
    subprocess.run(["umount", str(place)], check=True)
