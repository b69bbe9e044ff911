"""Events as plain lines on standard output: `init_session(schema, on_event=plait.console)`.

Floor: 7. Owns: whether colours are used; never: the lines (`events.render`).
"""

from __future__ import annotations

import os
import sys

from plait.events.named import NamedEvent
from plait.events.render import render


def console(type: str, event: NamedEvent) -> None:
    """Print an event as a person reads it; nothing for an event that says nothing on a terminal.

    Colours are used on a terminal, unless NO_COLOR is set. `token_limit` and `error` go to standard error.
    """
    stream = sys.stderr if type in ("token_limit", "error") else sys.stdout
    if stream is None:
        return
    text = render(event, color=stream.isatty() and not os.environ.get("NO_COLOR"))
    if text:
        print(text, end="" if event.get("no_newline") else "\n", file=stream, flush=True)
