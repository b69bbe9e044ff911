"""What can go wrong between a model and its client, each as a step of a script.

Floor: testing. Owns: the fault steps and their names in script files; never: sockets.

A fault changes the response (`respond`) or the way it reaches the socket (`plan`). The answer inside it may be another
fault, so `Stall(answer=Gzip())` stalls in the middle of a compressed stream.

    Status(429, headers={"Retry-After": "2"})
    Reset("mid_event", answer=Say("half of this arrives"))
    Stall("after_headers", for_s=5)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from plait.testing.faults.base import At, Fault, Phase, Serving, Step, until
from plait.testing.faults.content import (
    Empty,
    Gzip,
    Html,
    KeepAlives,
    LineEnds,
    NoDone,
    NoFinish,
    Split,
    Status,
    StreamError,
    WrongLength,
    WrongType,
)
from plait.testing.faults.delivery import (
    BadChunk,
    Cut,
    EarlyHints,
    HalfClose,
    Hold,
    LongLine,
    Refuse,
    Reset,
    Slow,
    Stall,
)

FAULTS: Final[Mapping[str, type[Fault]]] = MappingProxyType(
    {
        "status": Status,
        "refuse": Refuse,
        "reset": Reset,
        "cut": Cut,
        "half_close": HalfClose,
        "stall": Stall,
        "slow": Slow,
        "wrong_length": WrongLength,
        "gzip": Gzip,
        "split": Split,
        "long_line": LongLine,
        "html": Html,
        "empty": Empty,
        "stream_error": StreamError,
        "no_done": NoDone,
        "no_finish": NoFinish,
        "wrong_type": WrongType,
        "line_ends": LineEnds,
        "keep_alives": KeepAlives,
        "bad_chunk": BadChunk,
        "early_hints": EarlyHints,
    }
)
"""Every fault by the name that a script file calls it."""

__all__ = [
    "At",
    "BadChunk",
    "Cut",
    "EarlyHints",
    "Empty",
    "FAULTS",
    "Fault",
    "Gzip",
    "HalfClose",
    "Hold",
    "Html",
    "KeepAlives",
    "LineEnds",
    "LongLine",
    "NoDone",
    "NoFinish",
    "Phase",
    "Refuse",
    "Reset",
    "Serving",
    "Slow",
    "Split",
    "Stall",
    "Status",
    "Step",
    "StreamError",
    "WrongLength",
    "WrongType",
    "until",
]
