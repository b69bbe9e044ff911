"""Hooks asked at a moment: which are meant, what they say together, and what comes later from those nobody waits for.

Floor: 3. Owns: the set of a session's hooks, and its background; never: when a moment is, what follows from an answer.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from plait.core.cancel import Cancel
from plait.core.values import dataclass
from plait.hands.process_tree import stop_marked
from plait.hooks.decision import NOTHING, HookDecision, combine
from plait.hooks.entry import HookEntry
from plait.hooks.events import EVENTS
from plait.hooks.matching import matches
from plait.hooks.round import Round
from plait.hooks.runners import Ground
from plait.hooks.sources import dedupe_entries
from plait.hooks.verdict import verdict

CONTEXT_CHARS_MAX: Final = 10_000
_HEAD_CHARS: Final = 4_000
_TAIL_CHARS: Final = 2_000
_TO_END_S: Final = 1.0
"""How long hooks that nobody waits for may still take when the session ends."""

Keep = Callable[[str], str | None]
"""Keeps a text whole and returns the path of its file, None where there is no room."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What hooks said at one moment."""

    decision: HookDecision = NOTHING
    parts: tuple[tuple[HookEntry, HookDecision], ...] = ()
    """What each one said."""


@dataclass(slots=True)
class Leftovers:
    """What commands of hooks have left running; knows no hook, so that it may outlive them."""

    mark: str
    may_be: bool = False
    """A hook was asked."""

    def close(self) -> None:
        """End all of it."""
        if self.may_be:
            stop_marked(self.mark)
            self.may_be = False


class Background:
    """Hooks that nobody waits for. Knows only those that run, so that whatever the others know may be dropped."""

    def __init__(self, ground: Ground, keep: Keep) -> None:
        self._ground = ground
        self._keep = keep
        self._cancel = Cancel()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._said: deque[tuple[HookEntry, HookDecision]] = deque()

    def begin(self, entries: Sequence[HookEntry], payload: Mapping[str, Any]) -> None:
        """Run hooks."""
        for entry in entries:
            thread = threading.Thread(target=self._run, args=(entry, payload), name="plait-hook-later", daemon=True)
            with self._lock:
                self._threads = [*(each for each in self._threads if each.is_alive()), thread]
            thread.start()

    def take(self) -> list[tuple[HookEntry, HookDecision]]:
        """Return what they have said since the last time."""
        taken = []
        while self._said:
            with suppress(IndexError):
                taken.append(self._said.popleft())
        return taken

    def close(self) -> None:
        """Give them a moment, then end them."""
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join(_TO_END_S / len(threads))
        self._cancel.cancel("closed")
        for thread in threads:
            thread.join(_TO_END_S)

    def _run(self, entry: HookEntry, payload: Mapping[str, Any]) -> None:
        (raw,) = Round([entry], payload, self._ground, self._cancel).run(lambda entry: None)
        said = with_short_context(verdict(entry.event, raw), entry, self._keep)
        # What it decides comes too late for what it was asked about.
        said = HookDecision(context=said.context, messages=said.messages, errors=said.errors)
        if said != NOTHING:
            self._said.append((entry, said))


class HookSet:
    """The hooks of one session. Safe in any thread."""

    def __init__(self, ground: Ground, keep: Keep, entries: Iterable[HookEntry] = ()) -> None:
        self._ground = replace(ground, mark=ground.mark or uuid.uuid4().hex)
        self.leftovers = Leftovers(self._ground.mark)
        self._keep = keep
        self._entries = tuple(dedupe_entries(entries, ground.cwd))
        self._lock = threading.Lock()
        self._background = Background(self._ground, keep)

    @property
    def entries(self) -> Sequence[HookEntry]:
        """Every hook, in the order in which they count."""
        return self._entries

    def add(self, entries: Iterable[HookEntry]) -> None:
        """Take more hooks in, after those that are there; repeats are left out."""
        with self._lock:
            self._entries = tuple(dedupe_entries((*self._entries, *entries), self._ground.cwd))

    def has(self, event: str) -> bool:
        """Say whether any hook is for an event."""
        return any(entry.event == event for entry in self._entries)

    def matching(self, event: str, values: Iterable[str] = ()) -> list[HookEntry]:
        """Return the hooks of an event that mean one of these names."""
        names = tuple(values)
        is_open = not EVENTS[event].has_matcher
        return [entry for entry in self._entries if entry.event == event and (is_open or matches(entry.matcher, names))]

    def ask(
        self,
        event: str,
        payload: Mapping[str, Any],
        values: Iterable[str] = (),
        cancel: Cancel | None = None,
        on_begin: Callable[[HookEntry], object] = lambda entry: None,
    ) -> Answer:
        """Run the hooks of a moment and return what they say.

        Args:
            values: the names of what happens, one of which a hook's matcher has to mean.
            on_begin: told of each hook that is waited for, before it begins.

        Cancel: as `Round.run`.
        """
        chosen = self.matching(event, values)
        if not chosen:
            return Answer()
        told = {**payload, "hook_event_name": event}
        self.leftovers.may_be = True
        waited_for = [entry for entry in chosen if not entry.is_async]
        self._background.begin([entry for entry in chosen if entry.is_async], told)
        ends = Round(waited_for, told, self._ground, cancel).run(on_begin) if waited_for else []
        said = [
            with_short_context(verdict(event, raw, entry.on_error), entry, self._keep)
            for entry, raw in zip(waited_for, ends, strict=True)
        ]
        return Answer(combine(said), tuple(zip(waited_for, said, strict=True)))

    def tell(self, event: str, payload: Mapping[str, Any], values: Iterable[str] = ()) -> None:
        """Run the hooks of a moment without waiting for any."""
        chosen = self.matching(event, values)
        self.leftovers.may_be |= bool(chosen)
        self._background.begin(chosen, {**payload, "hook_event_name": event})

    def take_later(self) -> list[tuple[HookEntry, HookDecision]]:
        """Return what hooks that nobody waited for have said since the last time."""
        return self._background.take()

    def close(self) -> None:
        """Give hooks that nobody waits for a moment, then end everything that hooks have left running."""
        self._background.close()
        self.leftovers.close()


def with_short_context(said: HookDecision, entry: HookEntry, keep: Keep) -> HookDecision:
    """Return what a hook said with its context as long as it may be."""
    limit = CONTEXT_CHARS_MAX if entry.context_chars_max is None else entry.context_chars_max
    if all(len(text) <= limit for text in said.context):
        return said
    return replace(said, context=tuple(fitted(text, limit, keep) for text in said.context))


def fitted(text: str, chars_max: int, keep: Keep) -> str:
    """Return a text as it is, or its head and tail with the place where all of it is."""
    if len(text) <= chars_max:
        return text
    path = keep(text)
    where = f"all of it is in {path}" if path else "the rest could not be kept"
    head = min(_HEAD_CHARS, chars_max * 2 // 3)
    tail = min(_TAIL_CHARS, chars_max // 3)
    dropped = len(text) - head - tail
    return f"{text[:head]}\n[… {dropped:,} characters of a hook's text left out; {where} …]\n{text[len(text) - tail :]}"
