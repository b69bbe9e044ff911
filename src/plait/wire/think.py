"""Telling a think block from the answer, while both stream in.

Floor: 1. Owns: the tags and where they count; never: where reasoning goes.

Only a block at the very start is reasoning: an answer may quote the tag. A tag may be cut anywhere, so text that
could still become one is held back until it is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from plait.wire.profile import ThinkMode

Segment = tuple[Literal["content", "reasoning"], str]

_NAMES: Final = ("think", "thinking", "thought", "reasoning", "seed:think", "Think", "Thinking")
_OPEN: Final[Mapping[str, Sequence[str]]] = {
    **{f"<{name}>": (f"</{name}>",) for name in _NAMES},
    "[THINK]": ("[/THINK]",),
    "◁think▷": ("◁/think▷",),
    "<|START_THINKING|>": ("<|END_THINKING|>",),
    "<|begin_of_thought|>": ("<|end_of_thought|>",),
    "<|channel|>analysis<|message|>": (
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        "<|start|>assistant<|channel|>final<|message|>",
        "<|channel|>final<|message|>",
    ),
}
"""How models open a block, and the ways to close it."""
_CLOSE: Final = tuple(close for closes in _OPEN.values() for close in closes)
_FIRST: Final = frozenset(close[0] for close in _CLOSE)
_BLANK: Final = " \t\r\n"
_HELD_CHARS_MAX: Final = 1024
"""Blanks beyond this are passed on as they are: holding back more would cost time without end."""


class ThinkSplitter:
    """Splits streamed text into reasoning and answer."""

    def __init__(self, mode: ThinkMode) -> None:
        self._state: Literal["start", "thinking", "after", "answer"] = "answer" if mode == "off" else "start"
        self._is_prefilled = mode == "prefilled"
        self._close: Sequence[str] = _CLOSE
        self._held = ""
        self._has_thought = False

    @property
    def is_idle(self) -> bool:
        """True when all text is answer from here on."""
        return self._state == "answer"

    @property
    def holds_text(self) -> bool:
        """True when text has come that is not known to be either."""
        return self._held != ""

    def feed(self, text: str) -> list[Segment]:
        """Return what is known of the text so far, in order."""
        if self._state == "answer":
            return [("content", text)] if text else []
        self._held += text
        segments: list[Segment] = []
        while self._step(segments):
            pass
        return segments

    def finish(self) -> list[Segment]:
        """Return what was held back: a block that was never closed is reasoning to its end."""
        held, self._held = self._held, ""
        if self._state == "thinking":
            held = held.rstrip(_BLANK)
            return [("reasoning", held)] if held else []
        self._state = "answer"
        return [("content", held)] if held else []

    def stop(self) -> list[Segment]:
        """Take everything from here on as answer: the server separates reasoning by itself."""
        if self._state == "start":
            self._state = "answer"
            held, self._held = self._held, ""
            return [("content", held)] if held else []
        return []

    def _step(self, segments: list[Segment]) -> bool:
        """Take one step; return False when more text is needed."""
        if self._state == "start":
            return self._take_start()
        if self._state == "thinking":
            return self._take_thought(segments)
        if self._state == "after":
            self._held = self._held.lstrip(_BLANK)
            if not self._held:
                return False
            self._state = "answer"
        if self._held:
            segments.append(("content", self._held))
            self._held = ""
        return False

    def _take_start(self) -> bool:
        start = self._held.lstrip(_BLANK)
        for tag, closes in _OPEN.items():
            if start.startswith(tag):
                self._held, self._close, self._state = start[len(tag) :], closes, "thinking"
                return True
        if any(tag.startswith(start) for tag in _OPEN) and len(self._held) <= _HELD_CHARS_MAX:
            return False
        self._state = "thinking" if self._is_prefilled else "answer"
        return True

    def _take_thought(self, segments: list[Segment]) -> bool:
        if not self._has_thought:
            self._held = self._held.lstrip(_BLANK)
        cuts = [(at, close) for close in self._close if (at := self._held.find(close)) >= 0]
        if cuts:
            at, close = min(cuts)
            self._add_thought(self._held[:at].rstrip(_BLANK), segments)
            self._held, self._state = self._held[at + len(close) :], "after"
            return True
        # Blanks before the closing tag are not part of the thought, so they wait for what follows them.
        keep = _length_of_possible_tag(self._held, self._close)
        known = self._held[: len(self._held) - keep]
        bare = known.rstrip(_BLANK)
        known = bare if len(known) - len(bare) <= _HELD_CHARS_MAX else known
        self._held = self._held[len(known) :]
        self._add_thought(known, segments)
        return False

    def _add_thought(self, text: str, segments: list[Segment]) -> None:
        if text:
            segments.append(("reasoning", text))
            self._has_thought = True


def _length_of_possible_tag(text: str, tags: Sequence[str]) -> int:
    """Return how much of the end of `text` could be the beginning of a tag."""
    for at in range(max(0, len(text) - max(map(len, tags))), len(text)):
        if text[at] in _FIRST and any(tag.startswith(text[at:]) for tag in tags):
            return len(text) - at
    return 0
