"""Carries out the plan of a response on a real connection.

Floor: testing. Owns: writing, pausing, closing and resetting one connection; never: which plan.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterable
from typing import Final

from plait.testing.response import Fin, HalfFin, Hang, Op, Pause, Repeat, Rst, Send, Until

_LINGER_ZERO: Final = struct.pack("ii", 1, 0)
_LOOK_S: Final = 0.002
"""How often a held response looks whether it may go on."""


async def carry_out(plan: Iterable[Op], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Do what the plan says, in order; return whether the connection can serve another request.

    Raises:
        ConnectionError: the client is gone.
    """
    for op in plan:
        match op:
            case Send():
                await _write(writer, op.data)
            case Repeat():
                for _ in range(op.times):
                    await _write(writer, op.data)
            case Pause():
                await asyncio.sleep(op.seconds)
            case Until():
                while not op.event.is_set():
                    await asyncio.sleep(_LOOK_S)
            case Hang():
                await _until_gone(reader)
                return False
            case HalfFin():
                writer.write_eof()
                await _until_gone(reader)
                return False
            case Rst():
                reset(writer)
                return False
            case Fin():
                return False
    return True


def reset(writer: asyncio.StreamWriter) -> None:
    """End the connection with RST."""
    raw: socket.socket | None = writer.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    writer.transport.abort()


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
    # A step back to the loop lets the bytes leave on their own, so that pieces arrive as pieces.
    await asyncio.sleep(0)


async def _until_gone(reader: asyncio.StreamReader) -> None:
    while await reader.read(65_536):
        pass
