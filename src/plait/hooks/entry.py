"""One hook: what is run, when, and how its answer is taken.

Floor: 3. Owns: the value and what a Python hook may do; never: where it was read, or running it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal

from plait.core.values import dataclass
from plait.hooks.events import EVENTS

HookHandler = Callable[[dict[str, Any]], object]
"""A hook in Python. It gets the payload that a command gets on standard input, as a dict of its own, and returns what a
command would print: None for nothing, a dict for JSON, a text. It is called in a thread of its own, must not be a
coroutine, and is given up at its timeout (a thread cannot be ended). `HookBlock` says no; any other exception is an
error of the hook."""

OnError = Literal["ignore", "deny"]


class HookBlock(Exception):
    """Raised by a Python hook to say no, as exit code 2 does; the message is the reason."""


@dataclass(frozen=True, slots=True)
class HookEntry:
    """One hook: a command or a function for one event."""

    event: str
    matcher: str = ""
    """Which tools, sources, reasons or triggers it is for; empty for all."""
    command: str | None = None
    args: tuple[str, ...] | None = None
    """Given: `command` is a program that gets them. None: `command` is a line for the shell."""
    fn: HookHandler | None = None
    timeout_s: float | None = None
    """None is the event's own; 0 is as long as any hook may take."""
    is_async: bool = False
    """Nobody waits for it: what it decides is dropped, what it says comes later."""
    status_message: str = ""
    """Shown while it runs."""
    context_chars_max: int | None = None
    """Of its `additionalContext`; None is 10,000."""
    on_error: OnError = "ignore"
    """`deny`: when it crashes, times out or says what cannot be read, that is a no."""
    source: str = ""
    """Where it comes from: a file with the place in it, or who registered it."""
    guard: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    """Says before each run why it may not run any more; an empty text is leave."""

    @property
    def name(self) -> str:
        """What it runs, in a few words."""
        if self.fn is not None:
            return str(getattr(self.fn, "__qualname__", None) or repr(self.fn))
        return " ".join([self.command or "", *(self.args or ())])

    @property
    def limit_s(self) -> float:
        """Seconds that it may take."""
        trait = EVENTS[self.event]
        if self.timeout_s is None:
            return trait.timeout_s
        return min(self.timeout_s or trait.timeout_max_s, trait.timeout_max_s)

    def to_dict(self) -> dict[str, object]:
        """Return it as plain JSON, for a list of hooks."""
        return {
            "event": self.event,
            "matcher": self.matcher,
            "type": "command" if self.fn is None else "python",
            "command": self.name,
            "timeout_s": self.limit_s,
            "async": self.is_async,
            "on_error": self.on_error,
            "source": self.source,
        }
