"""How large messages are in a provider's tokens: what it has reported of requests, and an estimate of the rest.

Floor: 1. Owns: sizes and how they are learnt from; never: a window, and what follows when something does not fit.

A conversation's text is counted in units, of which four are about a token until the provider has said more. What it
reports of a request is exact for all that the request held, so that only what came since is estimated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from plait.core.exchange import ToolSchema
from plait.core.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from plait.core.usage import Usage

UNITS_PER_TOKEN: Final = 4
IMAGE_TOKENS: Final = 1_000
"""What a picture is taken for; providers count between a hundred and a few thousand."""
LEAST_PER_UNIT: Final = 1 / 12
"""Fewer tokens than this no tokenizer makes of ordinary text; of long runs of one letter some do."""
_MESSAGE_UNITS: Final = 4 * UNITS_PER_TOKEN
_CALL_UNITS: Final = 8 * UNITS_PER_TOKEN
_PLAUSIBLE: Final = (1 / 16, 2.0)
"""Tokens a unit; what a provider reports beyond is no measure of the text."""
_SAMPLES_MAX: Final = 8
_OUTLIER: Final = 2.0
"""A report that is so many times off from the middle of the others is not built on."""


class Measure(NamedTuple):
    """What a provider said of one request: `input` tokens for the first `length` messages, `said` in the answer."""

    length: int
    input: int
    said: int


class Gauge:
    """What one conversation has learnt of its provider's tokens. Part of the state: changed by facts only."""

    __slots__ = ("_sums", "reports", "samples")

    def __init__(self) -> None:
        self.reports: list[tuple[int, Usage]] = []
        """Usages of the last answers, each with the number of messages that its request showed."""
        self.samples: list[tuple[int, int]] = []
        """Units and tokens of requests whose history has been replaced since."""
        self._sums: list[int] = [0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Gauge):
            return NotImplemented
        return (self.reports, self.samples) == (other.reports, other.samples)

    __hash__ = None  # type: ignore[assignment]

    def note(self, length: int, usage: Usage) -> None:
        """Take what was reported of the request for the first `length` messages; every step does, so it is cheap."""
        self.reports.append((length, usage))
        if len(self.reports) >= 2 * _SAMPLES_MAX:
            del self.reports[:-_SAMPLES_MAX]

    def cut(self, start: int, history: Sequence[Message]) -> None:
        """History is about to be replaced from `start` on: the last measure of more than that is kept as a sample."""
        gone = [measure for measure in self.measures if measure.length >= start]
        if gone:
            self.samples = [*self.samples, (self._upto(gone[-1].length, history), gone[-1].input)][-_SAMPLES_MAX:]
        while self.reports and self.reports[-1][0] >= start:
            self.reports.pop()
        del self._sums[start + 1 :]

    @property
    def measures(self) -> list[Measure]:
        """What was reported of the history as it stands, the newest last."""
        return [measure for report in self.reports[-_SAMPLES_MAX:] if (measure := _measure(*report)) is not None]

    @property
    def newest(self) -> Measure | None:
        """What was reported of the last request; None where that was nothing."""
        return _measure(*self.reports[-1]) if self.reports else None

    def per_unit(self, head_units: int, history: Sequence[Message]) -> float:
        """Return tokens a unit: the middle of what was reported, a quarter before anything was."""
        known = [self._ratio(measure, head_units, history) for measure in self.measures]
        known += [tokens / max(1, head_units + units) for units, tokens in self.samples]
        plausible = sorted(ratio for ratio in known if _PLAUSIBLE[0] <= ratio <= _PLAUSIBLE[1])
        return plausible[len(plausible) // 2] if plausible else 1 / UNITS_PER_TOKEN

    def anchor(
        self, head_units: int, history: Sequence[Message], per_unit: float, length: int | None = None
    ) -> Measure | None:
        """Return the newest measure that agrees with the others, None where there is none to build on.

        With `length`, one of no more messages than that.
        """
        for measure in reversed(self.measures):
            if length is not None and measure.length > length:
                continue
            if per_unit / _OUTLIER <= self._ratio(measure, head_units, history) <= per_unit * _OUTLIER:
                return measure
        return None

    def units(self, history: Sequence[Message]) -> int:
        """Return how large a history is; what was counted before is not counted again."""
        return self._upto(len(history), history)

    def _ratio(self, measure: Measure, head_units: int, history: Sequence[Message]) -> float:
        return measure.input / max(1, head_units + self._upto(measure.length, history))

    def _upto(self, length: int, history: Sequence[Message]) -> int:
        """Return the units of the first messages; each is counted once."""
        sums = self._sums
        for message in history[len(sums) - 1 : length]:
            sums.append(sums[-1] + units_of((message,)))
        return sums[length]


def _measure(length: int, usage: Usage) -> Measure | None:
    if not usage.input:
        return None
    said = (usage.output or 0) - (usage.reasoning or 0)
    return Measure(length, usage.input, said if said > 0 else 0)


def units_of(messages: Iterable[Message], *, image_tokens: int = IMAGE_TOKENS) -> int:
    """Return how large messages are: their bytes in UTF-8, something for each of them, for calls and for pictures."""
    total, image_units = 0, image_tokens * UNITS_PER_TOKEN
    for message in messages:
        total += _MESSAGE_UNITS
        # In one walk: the newest messages are measured before every step.
        for part in message.parts:
            if isinstance(part, ToolResult):
                total += _CALL_UNITS + text_units(part.content) + image_units * len(part.images)
            elif isinstance(part, ToolCall):
                total += _CALL_UNITS + text_units(part.name) + text_units(part.raw)
            elif isinstance(part, (Text, Reasoning)):
                total += text_units(part.text)
            elif isinstance(part, Image):
                total += image_units
    return total


def text_units(text: str) -> int:
    """Return the units of a text: scripts with more bytes a letter have more tokens a letter, too."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def tool_units(tools: Iterable[ToolSchema]) -> int:
    """Return how large the declarations of tools are."""
    total = 0
    for tool in tools:
        told = tool.parameters if tool.custom_format is None else tool.custom_format
        total += _CALL_UNITS + text_units(tool.name) + text_units(tool.description)
        total += len(json.dumps(told, default=str))
    return total
