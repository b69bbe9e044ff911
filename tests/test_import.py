"""Importing plait costs nothing and does nothing."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import plait

PACKAGE = Path(plait.__file__).parent

WATCHED = """
import importlib, os, pkgutil, signal, sys, threading

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ACTS = {"os.mkdir", "os.rename", "os.remove", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.putenv",
        "subprocess.Popen", "socket.connect", "socket.bind", "socket.getaddrinfo", "sqlite3.connect", "shutil.copyfile"}
home, seen = os.getcwd(), []

def watch(event, args):
    if event in ACTS:
        seen.append((event, *map(str, args)))
    elif event == "open":
        path, mode, flags = args
        if isinstance(path, str) and (flags & WRITING or os.path.abspath(path).startswith(home)):
            seen.append((event, path, mode))

handlers = [signal.getsignal(number) for number in signal.valid_signals()]
environment = dict(os.environ)
sys.addaudithook(watch)

import plait
for found in pkgutil.walk_packages(plait.__path__, "plait."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)

seen += ["a signal handler"] * (handlers != [signal.getsignal(number) for number in signal.valid_signals()])
seen += ["the environment"] * (environment != dict(os.environ))
seen += [f"thread {thread.name}" for thread in threading.enumerate()[1:]]
sys.stderr.write("".join(f"{entry}\\n" for entry in seen))
"""


def run_python(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter that writes no byte code."""
    argv = [sys.executable, "-I", "-B", "-c", code]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


def test_import_plait_loads_nothing_else(tmp_path: Path) -> None:
    """`import plait` adds one module to a bare interpreter, and that is all of its cost."""
    code = "import sys; before = set(sys.modules); import plait; print(*sorted(set(sys.modules) - before))"

    ran = run_python(code, tmp_path)

    assert (0, "plait\n", "") == (ran.returncode, ran.stdout, ran.stderr)


def test_importing_every_module_touches_nothing(tmp_path: Path) -> None:
    """No module of plait prints, opens, starts, binds or replaces anything when it is imported."""
    ran = run_python(WATCHED, tmp_path)

    assert (0, "", "") == (ran.returncode, ran.stdout, ran.stderr)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("name", plait.__all__)
def test_every_public_name_resolves(name: str) -> None:
    """A name of `__all__` is found, the same object each time, and listed by `dir`."""
    assert getattr(plait, name) is getattr(plait, name)
    assert name in dir(plait)


def test_the_three_lists_of_names_agree() -> None:
    """What type checkers, the interpreter and readers are told is the same, sorted, without a double."""
    tree = ast.parse(Path(plait.__file__).read_text(encoding="utf-8"))
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in guard.body if isinstance(node, ast.ImportFrom)]
    homes = {
        alias.asname or alias.name: f"{node.module}:{alias.name}" if alias.asname else node.module
        for node in imports
        for alias in node.names
        if node.module != "collections.abc"
    }

    assert sorted(set(plait.__all__)) == plait.__all__
    assert sorted(homes) == plait.__all__
    assert homes == plait._HOMES


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A typo is reported as Python reports it, so that `hasattr` and `getattr` defaults work."""
    with pytest.raises(AttributeError, match="module 'plait' has no attribute 'Agnet'"):
        importlib.import_module("plait").Agnet  # noqa: B018


def test_the_older_name_of_the_root_error_is_an_alias() -> None:
    """Programs that catch `AgentProbeError` catch everything that plait reports."""
    assert plait.AgentProbeError is plait.PlaitError


def test_the_types_are_published() -> None:
    """The package says that it is typed."""
    assert (PACKAGE / "py.typed").is_file()
