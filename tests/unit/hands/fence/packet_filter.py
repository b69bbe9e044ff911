"""The kernel's packet filter, as far as filters of system calls use it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

STEP = struct.Struct("<HBBI")


def verdict(code: bytes, machine: int, number: int, arguments: Sequence[int] = ()) -> int:
    """Run a filter over one system call and return what it says; a program that does not end is an error."""
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, machine, 0, *(value & (1 << 64) - 1 for value in padded))
    steps = list(STEP.iter_unpack(code))
    loaded, at = 0, 0
    while True:
        operation, when, otherwise, value = steps[at]
        at += 1
        match operation:
            case 0x20:
                assert value % 4 == 0
                (loaded,) = struct.unpack_from("<I", data, value)
            case 0x15:
                at += when if loaded == value else otherwise
            case 0x35:
                at += when if loaded >= value else otherwise
            case 0x45:
                at += when if loaded & value else otherwise
            case 0x06:
                return value
            case _:
                raise AssertionError(f"no such operation: {operation:#x}")
