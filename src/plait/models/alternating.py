"""For endpoints whose template wants user and assistant in turn: what stands between two messages of a user in a row.

Floor: 2. Owns: where a bridge stands in what a line sends; never: the history, which holds none.

A summary and the question after it, a question that was never answered and the next one, a request for a summary: each
is two messages of a user. They are not merged: the first may have been sent already, and what was sent never changes.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from plait.core.exchange import View
from plait.core.messages import Message, assistant
from plait.wire.profile import WireProfile

BRIDGE: Final = assistant("Understood.")


class Bridged:
    """A conversation with its bridges; grows as the history does, and begins anew where that was replaced."""

    def __init__(self, wire: WireProfile) -> None:
        self._results_speak = wire.calls == "inline"
        self._epoch: int | None = None
        self._taken = 0
        self._shown: list[Message] = []
        self._bridges: list[int] = []
        self._speaker = ""

    def over(self, view: View) -> View:
        """Return what is sent of a view; at the price of what is new in it."""
        if view.epoch != self._epoch or view.length < self._taken:
            self._epoch, self._taken, self._shown, self._bridges, self._speaker = view.epoch, 0, [], [], ""
        for index in range(self._taken, view.length):
            message = view.history[index]
            if self._speaker == "user" == self._speaks(message):
                self._bridges.append(len(self._shown))
                self._shown.append(BRIDGE)
            self._shown.append(message)
            self._speaker = self._speaks(message, self._speaker, is_end=True)
        self._taken = view.length
        is_bridged = bool(view.extra) and self._speaker == "user" == self._speaks(view.extra[0])
        extra = (BRIDGE, *view.extra) if is_bridged else view.extra
        return View(view.epoch, self._shown, len(self._shown), extra)

    def index_of(self, shown: int) -> int:
        """Return which message of the history stands at a place of what is sent."""
        return shown - bisect_left(self._bridges, shown)

    def _speaks(self, message: Message, silent: str = "", *, is_end: bool = False) -> str:
        """Return whose word a message begins with, or ends with; `silent` where it says nothing."""
        if message.role == "assistant":
            return "assistant" if message.tool_calls or message.content.strip() else silent
        if message.role == "tool":
            # Pictures cannot stand in a result: they follow as a message of the user.
            has_images = is_end and any(result.images for result in message.tool_results)
            return "user" if self._results_speak or has_images else "tool"
        return "user" if message.content.strip() or message.images else silent
