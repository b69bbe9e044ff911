"""The console handler prints events as a person reads them."""

from __future__ import annotations

import io
import os
import sys

import pytest

from plait.cli.console import console
from plait.events import named


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_events_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Fragments run on, everything else is a line; what went wrong goes to standard error."""
    console("content_delta", named.ContentDelta("hel", first=True))
    console("content_delta", named.ContentDelta("lo", first=False))
    console("content_stream_end", named.ContentStreamEnd())
    console("tool_call", named.ToolCall("exec_shell", {"command": "make"}, "c", ""))
    console("turn_end", named.TurnEnd("completed", ""))
    console("error", named.Error("it broke", "X", "it broke"))

    assert ("hello\n→ exec_shell make\n", "error: it broke\n") == capsys.readouterr()


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal gets colours unless NO_COLOR is set; anything else gets none."""
    event = named.ToolCall("t", {}, "c", "")
    shown = []
    for stream, no_color in ((Terminal(), ""), (Terminal(), "1"), (io.StringIO(), "")):
        os.environ["NO_COLOR"] = no_color
        monkeypatch.setattr(sys, "stdout", stream)
        console("tool_call", event)
        shown.append("\x1b" in stream.getvalue())

    assert [True, False, False] == shown


def test_without_a_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without standard output prints nothing and goes on."""
    monkeypatch.setattr(sys, "stdout", None)

    console("tool_call", named.ToolCall("t", {}, "c", ""))
