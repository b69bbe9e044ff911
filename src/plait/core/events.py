"""What observers see: a closed set, data only.

Floor: 0. Owns: event types; never: markup, or a decision that depends on who listens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from plait.core.facts import Entry
from plait.core.values import dataclass

DeltaKind = Literal["content", "reasoning", "tool_arguments"]
Piece = tuple[DeltaKind, str]
"""A fragment as codecs hand it on: cheap, because there are thousands of them a second."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A fact is safe: it is seen only after the barrier that made it so."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Delta:
    """A fragment of an answer that is still coming; seen at once, and nothing but a promise."""

    kind: DeltaKind
    text: str
    step: int


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The answer of this step is whole."""

    step: int


@dataclass(frozen=True, slots=True)
class AttemptReset:
    """The fragments of this step so far are withdrawn: the request is made again."""

    step: int
    attempt: int
    withdrawn: int
    """How many fragments were shown since the step began."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth telling that changes nothing: `type` is one of the documented event names."""

    type: str
    data: Mapping[str, object] = field(default_factory=dict)


Event = Committed | Delta | StreamEnd | AttemptReset | Notice
