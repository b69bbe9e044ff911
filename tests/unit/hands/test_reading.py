"""Windows of lines: the right ones, with the digest of the whole, in bounded memory."""

from __future__ import annotations

import codecs
import hashlib
import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import plait.hands.reading
from plait.core.errors import Refusal
from plait.hands.reading import Lines, Window, read_lines
from plait.hands.workspace import Workspace
from tests.unit.hands.ground import Ground, python_environment

PIECES = st.lists(st.sampled_from(["a\n", "bb\r\n", "\n", "\u00e9\n"]), max_size=12)


def read(workspace: Workspace, window: Window | None = None, path: str = "f") -> Lines:
    """Read a window of a file."""
    with workspace.open_file(path) as opened:
        return read_lines(opened, window)


@given(pieces=PIECES, first=st.integers(1, 8), count=st.integers(1, 5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("chunk", [3, 1 << 20])
def test_a_window_is_a_slice_of_the_lines(
    *, ground: Ground, workspace: Workspace, chunk: int, pieces: list[str], first: int, count: int
) -> None:
    """Lines are cut as `str.split` on LF cuts them, wherever the pieces that are read begin and end."""
    data = "".join([*pieces, "last"]).encode()
    (ground.root / "f").write_bytes(data)
    lines = data.decode().split("\n")
    patch = pytest.MonkeyPatch()
    patch.setattr(plait.hands.reading, "_CHUNK_BYTES", chunk)
    try:
        if first > len(lines):
            with pytest.raises(Refusal, match=f"has {len(lines)} line"):
                read(workspace, Window(first, count))
            return
        found = read(workspace, Window(first, count))
    finally:
        patch.undo()
    expected = "\n".join(lines[first - 1 : first - 1 + count])
    assert expected == found.text.removesuffix("\n") if first - 1 + count < len(lines) else expected == found.text
    assert (len(lines), len(data), hashlib.sha256(data).hexdigest()) == (
        found.total_lines,
        found.size_bytes,
        found.sha256,
    )
    assert (first, min(len(lines), first + count - 1)) == (found.first_line, found.last_line)
    assert found.has_more == (first + count - 1 < len(lines))


@pytest.mark.parametrize(
    "data, text, encoding, newline, total",
    [
        (b"", "", "utf-8", "", 0),
        (b"a", "a", "utf-8", "", 1),
        (b"a\n", "a\n", "utf-8", "\n", 1),
        (b"a\r\nb\r\n", "a\r\nb\r\n", "utf-8", "\r\n", 2),
        (b"a\r\nb\n", "a\r\nb\n", "utf-8", "mixed", 2),
        (b"\xef\xbb\xbfa\n", "a\n", "utf-8-sig", "\n", 1),
        (b"caf\xe9\n", "caf\ufffd\n", "unknown", "\n", 1),
        (codecs.BOM_UTF16_LE + "a\nb".encode("utf-16-le"), "a\nb", "utf-16-le", "\n", 2),
    ],
)
def test_the_form_of_a_file_is_told(
    *, ground: Ground, workspace: Workspace, data: bytes, text: str, encoding: str, newline: str, total: int
) -> None:
    """Encoding, newline style and line count are those of the file; its byte order mark is not shown."""
    (ground.root / "f").write_bytes(data)
    found = read(workspace)
    assert (text, encoding, newline, total) == (found.text, found.encoding, found.newline, found.total_lines)
    assert hashlib.sha256(data).hexdigest() == found.sha256


@pytest.mark.parametrize("window", [Window(0), Window(-1), Window(1, 0), Window(10**9)])
def test_windows_that_name_no_lines_are_refused(ground: Ground, workspace: Workspace, window: Window) -> None:
    """Line 0, a negative line, no lines at all, a line beyond the end: refused in words."""
    (ground.root / "f").write_text("a\nb\n")
    with pytest.raises(Refusal) as caught:
        read(workspace, window)
    assert "INVALID_INPUT" == caught.value.refusal


@pytest.mark.parametrize("data", [b"a\0b", b"x" * 3_000_000 + b"\0", codecs.BOM_UTF32_LE + b"a\0\0\0"])
def test_binary_files_are_refused_with_a_way_out(ground: Ground, workspace: Workspace, data: bytes) -> None:
    """A NUL anywhere makes a file binary; the hint names commands that can look at it."""
    (ground.root / "f").write_bytes(data)
    with pytest.raises(Refusal) as caught:
        read(workspace)
    assert ("UNSUPPORTED_CONTENT", bool(caught.value.hint)) == (caught.value.refusal, True)


def test_a_long_line_is_cut_at_a_whole_character(ground: Ground, workspace: Workspace) -> None:
    """`bytes_max` cuts inside a line, never inside a character."""
    (ground.root / "f").write_text("\u00e9" * 1_000, encoding="utf-8")
    found = read(workspace, Window(bytes_max=101))
    assert ("\u00e9" * 50, True, 1, 1) == (found.text, found.is_cut, found.last_line, found.total_lines)


def test_a_sparse_terabyte_is_refused(ground: Ground, workspace: Workspace) -> None:
    """What is larger than a scan may be is refused by its size, at once."""
    with (ground.root / "f").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Refusal) as caught:
        read(workspace)
    assert "TOO_LARGE" == caught.value.refusal


def test_a_file_of_the_kernel_is_read(workspace: Workspace) -> None:
    """A file whose size says 0 is read to its end."""
    if not os.path.exists("/proc/meminfo"):
        pytest.skip("no /proc here")
    machine = Workspace("/")
    assert "MemTotal" in read(machine, path="proc/meminfo").text
    machine.close()


def test_memory_does_not_grow_with_the_file(ground: Ground) -> None:
    """Reading the end of 60 MB, one line of 30 MB in it, takes a few MB."""
    with (ground.root / "f").open("wb") as file:
        file.write(b"x" * 30_000_000 + b"\n" + b"line\n" * 6_000_000)
    code = """
import resource, sys
from plait.hands.reading import Window, read_lines
from plait.hands.workspace import Workspace
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with Workspace(sys.argv[1]).open_file("f") as opened:
    found = read_lines(opened, Window(6_000_000, 10))
    assert found.text == "line\\n" * 2, found
with Workspace(sys.argv[1]).open_file("f") as opened:
    assert read_lines(opened, Window(1, 10)).is_cut
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(ground.root)],
        env=python_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert 20_000 > int(done.stdout) / (1024 if sys.platform == "darwin" else 1)
