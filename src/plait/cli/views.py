"""What a run looks like while it runs: on a terminal, as plain lines, as JSON lines, or by what is wrong alone.

Floor: 7. Owns: the layout of each; never: the words (`words`) or a stream's fate (`outlet`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol

from plait.cli.escapes import visible
from plait.cli.words import call_words, notice_words, result_words
from plait.events import named

if TYPE_CHECKING:
    from rich.text import Text

    from plait.cli.outlet import Outlet

_DIFF_LINES: Final = 60
"""How much of one change is shown; the rest is counted."""
_WELL: Final = ("ready", "changed", "restarted")
"""States of a server about which there is nothing to complain."""


class View(Protocol):
    """Shows events as they happen."""

    def show(self, event: named.NamedEvent) -> None:
        """Show one event; quick, and never raises for what a model or tool wrote."""


class Complaints:
    """Shows only what is wrong with what its user has set up: hooks that do not work, servers that do not begin."""

    def __init__(self, out: Outlet) -> None:
        self._out = out

    def show(self, event: named.NamedEvent) -> None:
        """Write the line of a complaint."""
        is_complaint = isinstance(event, named.HookWarning) or (
            isinstance(event, named.McpServer) and event.state not in _WELL
        )
        if is_complaint and (words := notice_words(event)):
            self._out.write(f"  {words}\n")


class JsonLines:
    """Shows every event as one line of ASCII JSON, which every encoding and every reader takes."""

    def __init__(self, out: Outlet) -> None:
        self._out = out

    def show(self, event: named.NamedEvent) -> None:
        """Write an event with its name under `type`."""
        self._out.write(json.dumps(event.to_dict(), default=str) + "\n")


class PlainLines:
    """Shows calls and troubles as lines without colour; the answer is left to the end of the run."""

    def __init__(self, out: Outlet) -> None:
        self._out = out

    def show(self, event: named.NamedEvent) -> None:
        """Write the line of an event, if it has one."""
        match event:
            case named.ToolCall():
                self._line(" ".join(call_words(event)).rstrip())
            case named.ToolResult():
                self._note(result_words(event))
            case _:
                self._note(notice_words(event) or "")

    def _line(self, text: str) -> None:
        self._out.write(f"{visible(text)}\n")

    def _note(self, text: str) -> None:
        if text:
            self._line(f"  {text}")


class Live:
    """Shows a run on a terminal: text as it comes, a line a call, what was changed."""

    def __init__(self, out: Outlet) -> None:
        from rich.console import Console

        # Markup, emoji codes and highlighting would read meaning into what a model wrote.
        self._console = Console(file=out, markup=False, emoji=False, highlight=False, soft_wrap=True)  # type: ignore[arg-type]
        self._out = out
        self._is_inside_line = False

    def show(self, event: named.NamedEvent) -> None:
        """Show an event, if there is something to see."""
        match event:
            case named.ContentDelta():
                self._stream(event.text)
            case named.ReasoningDelta() if event.first:
                self._print("thinking ...", "dim")
            case named.FinalAnswer() if not event.streamed and event.text:
                self._stream(event.text)
                self._end_line()
            case named.ToolCall():
                self._call(event)
            case named.ToolResult():
                self._result(event)
            case _:
                self._notice(event)

    def summary(self, words: str) -> None:
        """Show the numbers of the whole run."""
        self._print(words, "dim")

    def _stream(self, text: str) -> None:
        text = visible(text)
        if text:
            self._out.write(text)
            self._is_inside_line = not text.endswith("\n")

    def _call(self, event: named.ToolCall) -> None:
        from rich.text import Text

        name, about = call_words(event)
        self._write(Text.assemble(("> ", "cyan"), (name, "bold cyan"), " ", about))

    def _result(self, event: named.ToolResult) -> None:
        words = result_words(event)
        if words:
            self._print(f"  {words}", "dim" if event.status == "ok" else "red")
        if event.diff:
            self._diff(event.diff)

    def _diff(self, diff: str) -> None:
        lines = [line for line in visible(diff).splitlines() if not line.startswith(("--- ", "+++ "))]
        for line in lines[:_DIFF_LINES]:
            self._print(f"  {line}", _DIFF_STYLES.get(line[:1], "dim"))
        if len(lines) > _DIFF_LINES:
            self._print(f"  ... {len(lines) - _DIFF_LINES} more lines", "dim")

    def _notice(self, event: named.NamedEvent) -> None:
        words = notice_words(event)
        if words is not None:
            self._print(f"  {words}", "yellow")
        elif isinstance(event, named.ContentStreamEnd | named.TurnEnd):
            self._end_line()

    def _print(self, text: str, style: str) -> None:
        from rich.text import Text

        self._write(Text(visible(text), style))

    def _write(self, text: Text) -> None:
        self._end_line()
        self._console.print(text)

    def _end_line(self) -> None:
        if self._is_inside_line:
            self._out.write("\n")
            self._is_inside_line = False


_DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}
