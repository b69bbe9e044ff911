"""Matching one pattern against file contents; also the program of the process that can be killed while it matches.

Floor: 2. Owns: finding the lines of a text in which a pattern matches; never: files: it is handed their bytes.

Python's `re` cannot be interrupted and keeps every other thread waiting. A pattern with repetitions therefore runs in
a process of its own: this file, started as a program, which imports nothing of plait. Frames are length-prefixed:
first the pattern and the limit of hits a file, then one content after the other; each is answered by its hits.
"""

from __future__ import annotations

import re
import struct
import sys
from typing import IO, Final

MEMORY_BYTES_MAX: Final = 2 << 30

LINE_END: Final = -1
Hit = tuple[int, int]
"""Line number from 1, and the byte of that line, from 0, at which the first match begins (`LINE_END`: behind it)."""


def find_hits(pattern: re.Pattern[str], data: bytes, hits_max: int) -> list[Hit]:
    """Return the first lines in which `pattern`, compiled with MULTILINE, matches."""
    text = data.decode("utf-8", "surrogateescape")
    hits: list[Hit] = []
    line, counted, at = 1, 0, 0
    while len(hits) < hits_max:
        match = pattern.search(text, at)
        if match is None:
            break
        start = match.start()
        if start == len(text) and (not text or text.endswith("\n")):
            break  # behind the last line end there is no line
        line += text.count("\n", counted, start)
        counted = start
        line_start = text.rfind("\n", 0, start) + 1
        hits.append((line, len(text[line_start:start].encode("utf-8", "surrogateescape"))))
        end = text.find("\n", start)
        if end < 0:
            break
        at = end + 1
    return hits


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """Send one length-prefixed piece."""
    stream.write(struct.pack("<Q", len(data)))
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Receive one piece, or None at the end of the stream (also in the middle of a piece)."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    (size,) = struct.unpack("<Q", head)
    data = stream.read(size)
    return data if len(data) == size else None


def pack_hits(hits: list[Hit]) -> bytes:
    """Write hits as bytes."""
    return b"".join(struct.pack("<II", line, column) for line, column in hits)


def unpack_hits(data: bytes) -> list[Hit]:
    """Read what `pack_hits` wrote."""
    return list(struct.iter_unpack("<II", data))


def main() -> None:
    """Answer frames until there are no more."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    except (ImportError, ValueError, OSError):
        pass  # a helper without the limit still has a deadline
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    first = read_frame(requests)
    if first is None:
        return
    (hits_max,) = struct.unpack("<I", first[:4])
    pattern = re.compile(first[4:].decode(), re.MULTILINE)
    while (data := read_frame(requests)) is not None:
        write_frame(answers, pack_hits(find_hits(pattern, data, hits_max)))


if __name__ == "__main__":
    main()
