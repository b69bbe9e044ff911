"""X15: `plait doctor sandbox`, as root and as an ordinary user: with bubblewrap, with Landlock alone, with neither."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click
import pytest

import plait

SOURCE: Final = Path(plait.__file__).parents[1]
PACKAGES: Final = Path(click.__file__).parents[1]
SYSTEM_PYTHON: Final = "/usr/bin/python3"
DOCTOR: Final = """
import ctypes, os, struct, sys
source, packages, *denied = sys.argv[1:]
sys.path[:0] = [source, packages]

def deny(*steps):
    # Load the number of the call; the steps that follow skip to the refusal or fall through to leave.
    code = [struct.pack("HBBI", 0x20, 0, 0, 0), *steps, struct.pack("HBBI", 6, 0, 0, 0x7FFF0000)]
    filled = ctypes.create_string_buffer(b"".join(code))
    program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filled))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0) == 0, ctypes.get_errno()

step = lambda *parts: struct.pack("HBBI", *parts)
if "landlock" in denied:  # as on a kernel without it
    deny(step(0x35, 0, 2, 444), step(0x25, 1, 0, 446), step(6, 0, 0, 0x50000 | 38))
if "namespaces" in denied:  # as where only some programs may make them
    numbers = {"x86_64": (56, 272), "aarch64": (220, 97)}[os.uname().machine]
    deny(step(0x15, 1, 0, numbers[0]), step(0x15, 0, 3, numbers[1]), step(0x20, 0, 0, 16),
         step(0x45, 0, 1, 0x10000000), step(6, 0, 0, 0x50000 | 1))
from plait.cli.main import main
sys.argv = ["plait", "doctor", "sandbox", "--json"]
sys.exit(main())
"""
GROUNDS: Final[dict[str, tuple[str, ...]]] = {
    "bubblewrap": (),
    "bubblewrap that may make no namespace": ("namespaces",),
    "Landlock alone": ("bwrap",),
    "bubblewrap without Landlock": ("landlock",),
    "neither": ("bwrap", "landlock"),
}
USERS: Final = ("root", "an ordinary user")


Told = dict[tuple[str, str], tuple[int, dict[str, Any]]]


def answers(grounds: Iterable[str]) -> Told:
    """Ask a doctor for each user and ground, both users side by side; return exit code and answer of each."""
    if os.geteuid() != 0 or shutil.which("bwrap") is None or shutil.which("setpriv") is None:
        pytest.skip("it takes root, bubblewrap and setpriv to be both users")
    # It loads what is installed for this one.
    check = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if not Path(SYSTEM_PYTHON).exists() or subprocess.run([SYSTEM_PYTHON, "-c", check], check=False).returncode:
        pytest.skip("there is no interpreter of this version that every user can run")
    told = {}
    with ExitStack() as stack:
        for ground in grounds:  # one after the other: the processes of a user are counted together
            running = {(user, ground): started(user, ground, stack) for user in USERS}
            for each, process in running.items():
                out, errors = process.communicate(timeout=120)
                assert "" == errors, each
                told[each] = (process.returncode, json.loads(out))
    return told


def started(user: str, ground: str, stack: ExitStack) -> subprocess.Popen[str]:
    """Start a doctor."""
    run = [SYSTEM_PYTHON, "-B", "-c", DOCTOR, str(SOURCE), str(PACKAGES), *GROUNDS[ground]]
    if user != "root":
        run = [shutil.which("setpriv") or "", "--reuid=65534", "--regid=65534", "--clear-groups", "--", *run]
    environ = {"HOME": "/nonexistent", "PLAIT_HOME": "/nonexistent/plait", "LANG": "C.UTF-8"}
    environ["PATH"] = "/nowhere" if "bwrap" in GROUNDS[ground] else "/usr/bin:/bin"
    process = subprocess.Popen(
        run,
        cwd="/",
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    stack.callback(process.kill)
    return process


@pytest.fixture(scope="module")
def told() -> Told:
    """Return what doctors say on the three usual grounds."""
    return answers(("bubblewrap", "Landlock alone", "neither"))


@pytest.fixture(scope="module")
def told_elsewhere() -> Told:
    """Return what doctors say on the rarer ones."""
    return answers(("bubblewrap without Landlock", "bubblewrap that may make no namespace"))


@pytest.mark.parametrize("user", USERS)
def test_with_bubblewrap_every_promise_is_proved(user: str, told: Told) -> None:
    """Nobody is promised less than root, nor root less than anybody."""
    is_whole(user, told[user, "bubblewrap"], "bubblewrap+seccomp+landlock")


@pytest.mark.prove
@pytest.mark.parametrize("user", USERS)
def test_with_bubblewrap_alone_every_promise_is_proved(user: str, told_elsewhere: Told) -> None:
    """On a kernel without Landlock."""
    is_whole(user, told_elsewhere[user, "bubblewrap without Landlock"], "bubblewrap+seccomp")


@pytest.mark.parametrize("user", USERS)
def test_with_landlock_alone_less_is_promised_and_all_of_it_is_proved(user: str, told: Told) -> None:
    """It is no sandbox unless a policy says `landlock_alone`: both are said, and what such a fence has not."""
    is_lesser(user, told[user, "Landlock alone"], "not installed")


@pytest.mark.prove
@pytest.mark.parametrize("user", USERS)
def test_a_bubblewrap_that_may_make_no_namespace_is_none(user: str, told_elsewhere: Told) -> None:
    """As where the system lets only some programs do so: it is tried, and not only looked for."""
    is_lesser(user, told_elsewhere[user, "bubblewrap that may make no namespace"], "")


@pytest.mark.parametrize("user", USERS)
def test_with_neither_there_is_no_sandbox(user: str, told: Told) -> None:
    """Nothing is promised, and the exit code says so."""
    code, answer = told[user, "neither"]

    assert (1, False, "", "") == (code, answer["ok"], answer["level"], answer["fallback"]["level"])
    assert "not installed" in answer["problem"]
    assert "Landlock (version 0) is too old" in answer["fallback"]["problem"]
    assert [] == [*answer["promises"], *answer["fallback"]["promises"]]


def is_whole(user: str, told: tuple[int, dict[str, Any]], level: str) -> None:
    """Assert that every promise was proved."""
    code, answer = told
    assert (0, True, level, None) == (code, answer["ok"], answer["level"], answer["fallback"])
    assert (0 if user == "root" else 65_534) == answer["user"]
    assert [] == [row for row in answer["promises"] if row["verdict"] != "proved"]
    assert 26 == len(answer["promises"])


def is_lesser(user: str, told: tuple[int, dict[str, Any]], why: str) -> None:
    """Assert that there is no sandbox, and what there is in its place."""
    code, answer = told
    lesser = answer["fallback"]
    verdicts = {row["promise"]: row["verdict"] for row in lesser["promises"]}
    assert ("", True) == (answer["level"], bool(answer["problem"]) and why in answer["problem"])
    assert [] == [row for row in lesser["promises"] if row["verdict"] == "not proved"]
    assert (0, True, "landlock+seccomp") == (code, answer["ok"], lesser["level"])
    assert {"proved", "not available"} == set(verdicts.values())
    assert "proved" == verdicts["no TCP"] == verdicts["homes and secrets are not read"]
    assert "not available" == verdicts["others are not seen"] == verdicts["nothing is left running"]
    assert (user == "root") == (verdicts["processes at a time"] == "not available")
