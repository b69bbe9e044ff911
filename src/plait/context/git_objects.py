"""Commits and trees out of git's object files: enough to say what was done last, and what is staged.

Floor: 3. Owns: loose and packed objects, within bounds; never: writing any, believing a length that a file claims.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from plait.context.git_folder import at_once
from plait.core.values import dataclass

_OBJECT_BYTES_MAX: Final = 1 << 20
_PACKS_MAX: Final = 64
_DELTAS_MAX: Final = 60
_COMMIT: Final = 1
_TREE: Final = 2
_OFFSET_DELTA: Final = 6
_NAMED_DELTA: Final = 7
_MAGIC: Final = b"\xfftOc\x00\x00\x00\x02"
_FANOUT_AT: Final = 8
_NAMES_AT: Final = 8 + 1024


_NAME: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_KINDS: Final[Mapping[bytes, int]] = MappingProxyType({b"commi": _COMMIT, b"tree ": _TREE})


@dataclass(frozen=True, slots=True)
class Commit:
    """What is told of a commit."""

    parent: str
    """The first; empty for none."""
    subject: str
    tree: str
    """The tree of files; of a repository with longer names, nothing that is one."""


class Objects:
    """The objects of a repository; close it."""

    def __init__(self, common: Path) -> None:
        self._folder = common / "objects"
        self._packs: list[tuple[mmap.mmap, mmap.mmap]] | None = None

    def __enter__(self) -> Objects:
        return self

    def __exit__(self, *_: object) -> None:
        for index, pack in self._packs or ():
            index.close()
            pack.close()
        self._packs = None

    def commit(self, name: str) -> Commit | None:
        """Return a commit; None where it cannot be read."""
        found = self._read(bytes.fromhex(name)) if _NAME.fullmatch(name) else None
        if found is None or found[0] != _COMMIT:
            return None
        head, _, message = found[1].partition(b"\n\n")
        parents = (line[7:] for line in head.split(b"\n") if line.startswith(b"parent "))
        subject = message.lstrip().split(b"\n", 1)[0].decode("utf-8", "replace")
        tree = head[5:45].decode("ascii", "replace") if head.startswith(b"tree ") else ""
        return Commit(next(parents, b"").decode("ascii", "replace"), subject, tree)

    def files(self, tree: str, files_max: int) -> dict[str, bytes] | None:
        """Return the files of a tree by their paths, with the names of what they hold; None where it cannot be read."""
        found: dict[str, bytes] = {}
        waiting = [(bytes.fromhex(tree), b"")] if _NAME.fullmatch(tree) else []
        trees = 0
        while waiting:
            name, prefix = waiting.pop()
            kind, data = self._read(name) or (0, b"")
            trees += 1
            # Nobody has checked that a name is that of its content: a tree may well hold itself.
            if kind != _TREE or max(trees, len(found), len(waiting)) > files_max:
                return None
            for mode, entry, target in _entries(data, len(name)):
                if mode == b"40000":
                    waiting.append((target, prefix + entry + b"/"))
                elif mode != b"160000":
                    found[os.fsdecode(prefix + entry)] = target
        return found if trees else None

    def _read(self, name: bytes) -> tuple[int, bytes] | None:
        try:
            return self._loose(name) or self._packed(name, 0)
        except (OSError, zlib.error, ValueError, IndexError):
            return None

    def _loose(self, name: bytes) -> tuple[int, bytes] | None:
        text = name.hex()
        try:
            with open(self._folder / text[:2] / text[2:], "rb", opener=at_once) as file:
                data = zlib.decompressobj().decompress(file.read(_OBJECT_BYTES_MAX) or b"", _OBJECT_BYTES_MAX)
        except FileNotFoundError:
            return None
        head, _, body = data.partition(b"\0")
        return _KINDS.get(head[:5], 0), body

    def _packed(self, name: bytes, depth: int) -> tuple[int, bytes] | None:
        if self._packs is None:
            self._packs = list(self._open_packs())
        for index, pack in self._packs:
            at = _find(index, name)
            if at is not None:
                return self._object(pack, at, len(name), depth)
        return None

    def _open_packs(self) -> Iterator[tuple[mmap.mmap, mmap.mmap]]:
        folder = self._folder / "pack"
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".idx"))[:_PACKS_MAX]
        except OSError:
            return
        for name in names:
            index = _mapped(folder / name)
            pack = _mapped(folder / f"{name[:-4]}.pack")
            if index is not None and pack is not None and index[:8] == _MAGIC:
                yield index, pack
            else:
                for each in (index, pack):
                    if each is not None:
                        each.close()

    def _object(self, pack: mmap.mmap, at: int, name_bytes: int, depth: int) -> tuple[int, bytes] | None:
        if depth > _DELTAS_MAX:
            return None
        start, kind, at = at, pack[at] >> 4 & 7, at + 1
        while pack[at - 1] & 0x80:
            at += 1
        if kind == _OFFSET_DELTA:
            back, at = _offset(pack, at)
            base = self._object(pack, start - back, name_bytes, depth + 1) if 0 < back <= start else None
        elif kind == _NAMED_DELTA:
            base = self._packed(pack[at : at + name_bytes], depth + 1)
            at += name_bytes
        else:
            return kind, _inflated(pack, at)
        return None if base is None else (base[0], _patched(base[1], _inflated(pack, at)))


def _entries(tree: bytes, name_bytes: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    at = 0
    while (end := tree.find(b"\0", at)) >= 0:
        mode, _, entry = tree[at:end].partition(b" ")
        at = end + 1 + name_bytes
        yield mode, entry, tree[end + 1 : at]


def _mapped(path: Path) -> mmap.mmap | None:
    try:
        with open(path, "rb", opener=at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None


def _inflated(pack: mmap.mmap, at: int) -> bytes:
    return zlib.decompressobj().decompress(pack[at : at + _OBJECT_BYTES_MAX], _OBJECT_BYTES_MAX)


def _find(index: mmap.mmap, name: bytes) -> int | None:
    """Return where in its pack an object begins."""
    size, total = len(name), _number(index, _NAMES_AT - 4)
    low = _number(index, _FANOUT_AT + 4 * (name[0] - 1)) if name[0] else 0
    high = min(_number(index, _FANOUT_AT + 4 * name[0]), total)
    while low < high:
        middle = (low + high) // 2
        found = index[_NAMES_AT + middle * size : _NAMES_AT + (middle + 1) * size]
        if found == name:
            offsets = _NAMES_AT + total * (size + 4)
            at = _number(index, offsets + 4 * middle)
            if not at & 0x80000000:
                return at
            large = offsets + 4 * total + 8 * (at & 0x7FFFFFFF)
            return int.from_bytes(index[large : large + 8], "big")
        low, high = (middle + 1, high) if found < name else (low, middle)
    return None


def _number(data: mmap.mmap, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")


def _offset(pack: mmap.mmap, at: int) -> tuple[int, int]:
    byte = pack[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = pack[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1


def _patched(base: bytes, delta: bytes) -> bytes:
    """Apply a delta: copies from the base and words of its own."""
    at = 0
    for _ in range(2):  # the lengths of both, which are not needed
        while delta[at] & 0x80:
            at += 1
        at += 1
    out = bytearray()
    while at < len(delta) and len(out) <= _OBJECT_BYTES_MAX:
        op, at = delta[at], at + 1
        if not op & 0x80:
            out += delta[at : at + op]
            at += op
            continue
        offset = size = 0
        for bit in range(7):
            if op & 1 << bit:
                shift = 8 * (bit if bit < 4 else bit - 4)
                offset, size = (offset | delta[at] << shift, size) if bit < 4 else (offset, size | delta[at] << shift)
                at += 1
        size = size or 0x10000
        out += base[offset : offset + size]
    return bytes(out)
