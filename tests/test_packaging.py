"""What is published: a wheel that holds the package, and locks that name versions and hashes, but no place."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import plait

REPOSITORY = Path(__file__).resolve().parent.parent
LOCKS = sorted((REPOSITORY / "requirements").glob("*.lock"))
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))


def package_name(requirement: str) -> str:
    """Return the normalised name at the head of a requirement."""
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def locked(lock: Path) -> dict[str, int]:
    """Return the packages of a lock with the number of hashes that each has."""
    entries = re.split(r"^(?=\w)", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {package_name(entry): entry.count("--hash=sha256:") for entry in entries if entry}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_names_hashes_and_no_place(lock: Path) -> None:
    """Every package is pinned with its hashes; no address of an index stands in the file."""
    text = lock.read_text(encoding="utf-8")

    assert "://" not in text
    assert "index" not in text
    assert all(count > 0 for count in locked(lock).values())


def test_every_dependency_is_locked() -> None:
    """What the project asks for is in the locks that `make` installs from."""
    runtime = {package_name(line) for line in PROJECT["project"]["dependencies"]}
    groups = PROJECT["dependency-groups"]
    dev = {package_name(line) for line in groups["dev"]}

    assert runtime <= set(locked(REPOSITORY / "requirements/runtime.lock"))
    assert runtime | dev <= set(locked(REPOSITORY / "requirements/dev.lock"))
    assert set(groups["bootstrap"]) == set(locked(REPOSITORY / "requirements/bootstrap.lock"))


def test_the_extra_all_brings_every_extra() -> None:
    """`plait[all]` forgets none."""
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]

    assert f"plait[{','.join(sorted(set(extras) - {'all'}))}]" == everything


def test_the_wheel_holds_the_package_and_runs_from_it(tmp_path: Path) -> None:
    """A built wheel has every module, the licence, its types and the command, and knows its version."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)

    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    sources = {f.relative_to(REPOSITORY / "src").as_posix() for f in (REPOSITORY / "src/plait").rglob("*.py")}
    info = f"plait-{plait.__version__}.dist-info"
    code = "import sys; sys.path.insert(0, sys.argv[1]); import plait; print(plait.__file__, plait.__version__)"
    ran = subprocess.run([sys.executable, "-I", "-c", code, tmp_path / "site"], capture_output=True, text=True)

    assert set() == {*sources, "plait/py.typed", f"{info}/licenses/LICENSE", f"{info}/entry_points.txt"} - names
    assert f"{tmp_path}/site/plait/__init__.py {plait.__version__}\n" == ran.stdout
