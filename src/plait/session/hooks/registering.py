"""Hooks of a session that is open: given to it when it opens, added to it later, listed.

Floor: 5. Owns: `register_hook`, `load_hooks`, `session_hooks`, and that a session without hooks loads nothing of them;
never: a moment (`hooking`).
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plait.config.places import project_root
from plait.engine.trusting import Vouched
from plait.events.hook_events import HookWarning
from plait.hooks.asking import HookSet
from plait.hooks.entry import HookEntry, HookHandler
from plait.hooks.events import EVENTS
from plait.hooks.runners import Ground
from plait.hooks.sources import read_place, read_source
from plait.session.hooks.hooking import SessionHooks
from plait.session.hooks.sources import Sources
from plait.session.live import live_of

if TYPE_CHECKING:
    from plait.session.session import Session


def register_hook(
    session: Session,
    event: str,
    fn: HookHandler | None = None,
    *,
    matcher: str = "",
    timeout: float | None = None,
    async_: bool = False,
    command: str | None = None,
    args: Sequence[str] | None = None,
    on_error: str = "ignore",
    source: str = "api",
) -> HookEntry:
    """Add one hook to an open session; from the next moment on it is asked.

    Args:
        event: one of `PreToolUse`, `Stop`, …; see the page about hooks.
        fn: a function that gets the payload as a dict; or `command`, with `args` a program and without a shell line.
        matcher: which tools, sources, reasons or triggers it is for; empty for all.
        timeout: seconds; the event's own unless given.
        async_: nobody waits for it.
        on_error: `deny`: where it crashes or takes too long, that is a no.
        source: what it is listed by.

    Raises:
        ValueError: there is no such event, not exactly one of a function and a command, or a value that means nothing.
        ConfigError: `session` is no open session.
    """
    if event not in EVENTS:
        raise ValueError(f"no event is called {event!r}; they are: {', '.join(EVENTS)}")
    if (fn is None) == (command is None):
        raise ValueError("a hook is a function or a command: give one of them")
    if on_error not in ("ignore", "deny"):
        raise ValueError(f"on_error={on_error!r} is 'ignore' or 'deny'")
    if async_ and on_error == "deny":
        raise ValueError("on_error='deny' and async_=True exclude each other: nobody waits for an async hook")
    if timeout is not None and not (math.isfinite(timeout) and timeout >= 0):
        raise ValueError(f"timeout={timeout!r} is a number of seconds; 0 is as long as any hook may take")
    entry = HookEntry(
        event,
        matcher,
        command,
        None if args is None else tuple(args),
        fn,
        timeout,
        async_,
        on_error="deny" if on_error == "deny" else "ignore",
        source=source,
    )
    hooks_for(session).hooks.add([entry])
    return entry


def load_hooks(session: Session, source: object) -> tuple[list[HookEntry], list[str]]:
    """Add the hooks of a file, a folder, a dict or a list of these to an open session.

    Returns:
        the hooks, and what is doubtful about the source.

    Raises:
        ConfigError: the source cannot be read, with the place in it; or `session` is no open session.
    """
    entries, warnings = read_source(source, live_of(session).standing.cwd)
    if entries:
        hooks_for(session).hooks.add(entries)
    return entries, warnings


def session_hooks(session: Session) -> list[dict[str, object]]:
    """Return a session's hooks in the order in which they count, as plain JSON."""
    hooks = live_of(session).hooks
    return [] if hooks is None else [entry.to_dict() for entry in hooks.hooks.entries]


def hooks_for(session: Session) -> SessionHooks:
    """Return the hooks of a session, which has them from now on."""
    live = live_of(session)
    if live.hooks is None:
        cwd = live.standing.cwd
        box = live.toolbox.options
        ground = Ground(cwd, str(project_root(cwd)), "", box.environment, box.fence)
        live.hooks = SessionHooks(session, HookSet(ground, live.toolbox.spill.keep))
        # Its leftovers alone: a hook may know the session, and would keep it from ever being dropped.
        weakref.finalize(session, live.hooks.hooks.leftovers.close)
        live.policy = None  # made anew with the next turn, with the gates in it
    return live.hooks


def hook_up(session: Session, sources: Sources, *, is_new: bool, transcript: str | None = None) -> None:
    """Give a session that opens its hooks, and tell them that it does.

    `transcript` is where its journal is, or will be.

    Raises:
        ConfigError: a source cannot be read, with the place in it.
    """
    entries, warnings = entries_of(sources, live_of(session).standing.cwd)
    for warning in warnings:
        live_of(session).hub.emit(HookWarning(warning))
    if not entries:
        return
    hooks = hooks_for(session)
    hooks.hooks.add(entries)
    hooks.transcript = transcript
    context = hooks.started("startup" if is_new else "resume")
    if is_new:
        _instruct(session, context)
    else:
        hooks.queue(context)


def entries_of(sources: Sources, cwd: str | os.PathLike[str]) -> tuple[list[HookEntry], list[str]]:
    """Return the hooks of all sources in their order, and what is doubtful about them."""
    entries: list[HookEntry] = []
    warnings: list[str] = []

    def take(found: tuple[Iterable[HookEntry], Iterable[str]]) -> None:
        entries.extend(found[0])
        warnings.extend(found[1])

    for source, name in sources.named:
        take(read_source(source, cwd, name))
    for place in sources.places:
        found, doubts = read_place(place)
        take((_guarded(found, sources.trust, place.path), doubts))
    return entries, warnings


def _guarded(entries: Iterable[HookEntry], trust: Vouched | None, path: Path) -> Iterable[HookEntry]:
    """Return hooks of a repository so that they run only while it is what its user has trusted."""
    if trust is None or not trust.is_by_digest or not path.is_relative_to(trust.root):
        return entries
    return [replace(entry, guard=trust.changed) for entry in entries]


def _instruct(session: Session, context: str) -> None:
    """Put a text at the end of the system prompt of a session that has not begun."""
    if not context:
        return
    items: list[dict[str, Any]] = session["messages"]
    if items and items[0]["role"] == "system":
        items[0]["content"] = f"{items[0]['content']}\n\n{context}"
    else:
        items.insert(0, {"role": "system", "content": context})
