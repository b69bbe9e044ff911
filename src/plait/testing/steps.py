"""What a script can answer: text, reasoning, tool calls, raw bytes.

Floor: testing. Owns: the step values and how loose forms (a string, a list of calls) become one; never: bytes, sockets.

A script is a list of steps, answered in order, or a function from the request to a step:

    [Say("I will look.", calls=[Call("read_file", {"path": "a.py"})]), Call("exec_shell", {"command": "make"}), "Done."]

Faults are steps too and live in `plait.testing.faults`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final, TypeAlias

from plait.core.values import dataclass

_ARGUMENT_DELTA_CHARS: Final = 24


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call; alone or in a list it is a whole answer, beside text it goes into `Say.calls`."""

    name: str
    arguments: Mapping[str, object] | str = field(default_factory=dict)
    """An object, or the exact text a model would send (broken JSON included)."""
    id: str | None = None
    """None: an id that is unique in the script."""

    @property
    def arguments_text(self) -> str:
        """The arguments as they travel: text is left alone, an object is written compactly."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Say:
    """One answer: text, with reasoning before it and tool calls after it."""

    text: str | Sequence[str] = ""
    """A sequence gives the deltas of a stream exactly; a string is cut into words."""
    reasoning: str | Sequence[str] = ""
    calls: Sequence[Call] = ()
    finish_reason: str | None = None
    """None: `tool_calls` with calls, else `stop`."""
    usage: Mapping[str, object] | None = None
    """Sent as it is in place of the honest count; an empty mapping sends no usage at all."""
    delay_s: float = 0.0
    """Pause before the first byte."""
    gap_s: float = 0.0
    """Pause between the events of a stream."""

    @property
    def stop(self) -> str:
        """The finish reason that is sent."""
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    def output_bytes(self) -> int:
        """How many bytes the model wrote: text, reasoning, call names and arguments."""
        written = [*deltas(self.text), *deltas(self.reasoning)]
        for call in self.calls:
            written += [call.name, call.arguments_text]
        return sum(len(part.encode("utf-8", "surrogatepass")) for part in written)


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes in place of an answer, whatever the request asked for."""

    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    framed: bool = True
    """False: `data` is the whole response, status line included, and the connection closes after it."""
    delay_s: float = 0.0


Answer: TypeAlias = str | Say | Call | Sequence[Call] | Raw
"""What a model or a server says when nothing is broken."""


def as_answer(step: Answer) -> Say | Raw:
    """Bring the loose forms of an answer to one: a string, a call and a list of calls become a `Say`."""
    if isinstance(step, Say | Raw):
        return step
    if isinstance(step, str):
        return Say(step)
    if isinstance(step, Call):
        return Say(calls=(step,))
    return Say(calls=tuple(step))


def with_ids(say: Say, prefix: str) -> Say:
    """Give every call that has no id one made from `prefix` and its place."""
    calls = tuple(
        call if call.id is not None else replace(call, id=f"{prefix}_{i}") for i, call in enumerate(say.calls)
    )
    return replace(say, calls=calls)


def deltas(text: str | Sequence[str]) -> tuple[str, ...]:
    """Cut text into the pieces that a stream carries; joined they are the text again."""
    if isinstance(text, str):
        return tuple(re.findall(r"\s*\S+|\s+$", text))
    return tuple(text)


def argument_deltas(call: Call) -> tuple[str, ...]:
    """Cut the arguments of a call into the pieces that a stream carries."""
    text = call.arguments_text
    return tuple(text[at : at + _ARGUMENT_DELTA_CHARS] for at in range(0, len(text), _ARGUMENT_DELTA_CHARS))


def joined(text: str | Sequence[str]) -> str:
    """Return the text of a `Say`, however it was given."""
    return text if isinstance(text, str) else "".join(text)
