"""The shape of the rooms: each wall stops its sample. That the real tree stands inside of them `make lint` says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import check_shape


def offences_of(root: Path, code: str, place: str = "src/plait/core/sample.py") -> list[str]:
    """Write one module and return `line: what` of its offences."""
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    return [line.removeprefix(f"{path.as_posix()}:") for line in check_shape.check([root]).offences]


def lines(count: int, line: str = "    pass") -> str:
    """Return `count` lines of filling."""
    return "\n".join([line] * count)


@pytest.mark.parametrize(
    "code, offence",
    [
        (lines(501, "x = 1"), "1: 501 lines (wall: 500)"),
        (f"def long():\n{lines(70)}", "1: long has 71 lines (wall: 70)"),
        (f"class Big:\n{lines(250)}", "1: class Big has 251 lines (wall: 250)"),
        ("def f(a, b, c, d, /, e, f): ...", "1: f takes 6 positional parameters (wall: 5)"),
        ("class C:\n    def f(self, a, b, c, d, e, f): ...", "2: f takes 6 positional parameters (wall: 5)"),
        ("print('hello')", "1: print below the cli floor; give the caller an event or a value"),
        ("try: ...\nexcept Exception: ...", "2: broad except without a `# boundary: reason`"),
        ("try: ...\nexcept (OSError, BaseException): ...", "2: broad except without a `# boundary: reason`"),
        ("try: ...\nexcept: ...", "2: broad except without a `# boundary: reason`"),
        ("try: ...\nexcept BaseException:\n    if a: raise", "2: broad except without a `# boundary: reason`"),
        ("with suppress(Exception): ...", "1: broad except without a `# boundary: reason`"),
        ("cache = {}", "1: module-level mutable state: cache"),
        ("CACHE: dict[str, int] = {}", "1: module-level mutable state: CACHE"),
        ("if True:\n    lock = threading.Lock()", "2: module-level mutable state: lock"),
        ("try: ...\nexcept ImportError:\n    names = [n for n in x]", "3: module-level mutable state: names"),
        ("def f():\n    global count", "2: module-level mutable state: global count"),
    ],
)
def test_what_passes_a_wall_is_named(tmp_path: Path, code: str, offence: str) -> None:
    """Each wall names the line and what stands too high there."""
    assert [offence] == offences_of(tmp_path, code)


@pytest.mark.parametrize(
    "code",
    [
        f"def fits():\n{lines(69)}",
        "def f(a, b, c, d, e, *, f, g): ...",
        "class C:\n    def f(self, a, b, c, d, e): ...",
        "try: ...\nexcept Exception:  # boundary: a hook of the user's may raise anything\n    ...",
        "try: ...\n# boundary: the last resort of a worker thread\nexcept BaseException: ...",
        "try: ...\nexcept BaseException:\n    close()\n    raise",
        "__all__ = ['a']",
        "LIMITS: Final[Mapping[str, int]] = {}",
        "WORDS: Sequence[str] = ['a', 'b']",
        "NAMES = frozenset({'a'})",
        "def f():\n    local = {}",
    ],
)
def test_what_fits_is_left_alone(tmp_path: Path, code: str) -> None:
    """Constants, reasons and definitions that just fit are no offence."""
    assert [] == offences_of(tmp_path, code)


def test_the_cli_prints_and_one_module_holds_defaults(tmp_path: Path) -> None:
    """`print` belongs to the command line, process-wide defaults to `session/defaults.py`."""
    assert [] == offences_of(tmp_path, "print('hello')", "src/plait/cli/run.py")
    assert [] == offences_of(tmp_path, "defaults = {}", "src/plait/session/defaults.py")


def test_tests_say_what_must_hold(tmp_path: Path) -> None:
    """A test without a docstring is an offence, and only sizes count otherwise outside src."""
    code = "STATE = {}\nprint('x')\ndef test_silent(): ...\ndef helper(): ..."

    assert ["3: test_silent has no docstring that says what must hold"] == offences_of(
        tmp_path, code, "tests/test_x.py"
    )


def test_soft_walls_are_counted_only(tmp_path: Path) -> None:
    """A file of 301 lines, a function of 41 and four nested blocks make three soft walls and no offence."""
    (tmp_path / "sample.py").write_text(
        f"def long():\n{lines(40)}\n"
        "def deep():\n  if a:\n    for b in c:\n      while d:\n        if e: ...\n"
        "def flat():\n  if a: ...\n  elif b: ...\n  elif c: ...\n  elif d: ...\n  elif e: ...\n"
        f"{lines(250, 'x = 1')}\n"
    )

    assert check_shape.Report((), 3) == check_shape.check([tmp_path])


def test_the_command_fails_and_counts(tmp_path: Path) -> None:
    """The command prints each offence with its path and ends with exit code 1."""
    offences_of(tmp_path, "print()")

    ran = subprocess.run(
        [sys.executable, check_shape.__file__, "src"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    offence = "src/plait/core/sample.py:1: print below the cli floor; give the caller an event or a value"
    assert (1, f"{offence}\nshape: 1 offences; soft walls passed: 0\n") == (ran.returncode, ran.stdout)
