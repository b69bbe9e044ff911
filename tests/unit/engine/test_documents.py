"""Files that a user names are read in bounded time, whatever they are."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from plait.core.errors import AgentSpecInvalidError
from plait.engine import documents
from plait.engine.documents import read_document
from plait.engine.spec import load_specification
from tests.helpers.warm import run_warm

MAX = 1 << 20


def test_a_file_and_a_pipe_are_read_to_their_end(tmp_path: Path) -> None:
    """A file, also an empty one; a pipe in pieces until its writer closes it; both are cut at a size."""
    (tmp_path / "file").write_bytes(b"x" * 200_000)
    (tmp_path / "empty").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)

    def write() -> None:
        for _ in range(4):
            os.write(writer, b"y" * 50_000)
        os.close(writer)

    thread = threading.Thread(target=write)
    thread.start()
    piped = read_document(tmp_path / "pipe", MAX)
    thread.join()

    assert 200_000 == len(read_document(tmp_path / "file", MAX))
    assert b"" == read_document(tmp_path / "empty", MAX)
    assert b"y" * 200_000 == piped
    assert b"xxx" == read_document(tmp_path / "file", 3)


def test_nobody_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A FIFO without a writer, one whose writer says nothing, a device, a folder: each is an error that says so."""
    os.mkfifo(tmp_path / "pipe")
    told = {}
    for name, path in (("alone", tmp_path / "pipe"), ("device", Path("/dev/zero")), ("folder", tmp_path)):
        with pytest.raises(OSError) as caught:
            read_document(path, MAX)
        told[name] = caught.value.strerror
    monkeypatch.setattr(documents, "WAIT_S", 0.05)
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    with pytest.raises(TimeoutError, match=r"after 0\.05 seconds"):
        read_document(tmp_path / "pipe", MAX)
    os.close(writer)

    assert {
        "alone": "nobody writes into it",
        "device": "it is neither a file nor a pipe",
        "folder": "Is a directory",
    } == told


def test_a_spec_may_come_from_a_pipe_and_a_fifo_holds_nothing_up(tmp_path: Path) -> None:
    """`--spec <(…)` works; a FIFO that nobody fills ends the run with 2 and the reason, as it does in the library."""
    os.mkfifo(tmp_path / "spec")
    with pytest.raises(AgentSpecInvalidError, match="nobody writes into it"):
        load_specification("m", "", str(tmp_path / "spec"))
    for option in ("--spec", "--output-schema"):
        argv = [
            "run",
            "--timeout",
            "60",
            "-m",
            "m",
            "--endpoint",
            "http://127.0.0.1:1/v1",
            option,
            str(tmp_path / "spec"),
        ]
        ran = run_warm(
            [sys.executable, "-m", "plait", *argv, "x"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (2, True) == (ran.returncode, "nobody writes into it" in ran.stderr), ran.stderr
    reader, writer = os.pipe()
    os.write(writer, b'{"model": "m", "tool_specs": []}')
    os.close(writer)
    spec = load_specification("m", "", f"/dev/fd/{reader}")
    os.close(reader)

    assert "m" == spec["model"]
