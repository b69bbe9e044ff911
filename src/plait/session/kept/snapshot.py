"""`messages.json` beside a journal: the conversation as chat messages, for programs that only want to read it there.

Floor: 5. Owns: what the file says, and when it is worth writing; never: a resume, which reads the journal alone.

It is a cache: it may be old, damaged or gone, and nothing of plait's misses it. So no sync is made for it, and no error
of its own is anybody's. It is written when the session is closed, and before that at the end of a turn, not more often
than every few seconds: putting a file in the place of another makes the journal's next sync dearer. A long one waits
until there is a quarter more of it, so that all writes come to a few times its size.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from plait._version import __version__
from plait.core.facts import Fact, Observation
from plait.core.strict_json import plain
from plait.session.history.mirror import Mirror, has_system
from plait.session.kept.heads import START
from plait.store import disk
from plait.store.jsonl import JsonlLog
from plait.store.layout import SNAPSHOT

_PAUSE_S: Final = 5.0
"""Seconds between two writes of a session that goes on."""
_SHORT_BYTES: Final = 1 << 16
"""A file up to this size is written again whatever has been added."""
_GROWTH: Final = 4
"""A longer one when there is this part more of it."""


class Snapshot:
    """Keeps the file of one session up, now and then."""

    def __init__(
        self, mirror: Mirror, ported_from: object = None, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with nothing shown.

        Args:
            mirror: knows the messages as the journal has them.
            ported_from: the session that this one is a copy of.
        """
        self._mirror = mirror
        self._ported_from = ported_from
        self._written = mirror.shown
        self._size_bytes = 0
        self._monotonic_s = monotonic_s
        self._written_s = monotonic_s()

    def stands(self) -> None:
        """Take what was there when the session was opened for written: nothing is, until something is added."""
        self._written = self._mirror.shown

    def keep(self, session: Mapping[str, Any], journal: JsonlLog | None, *, is_last: bool = False) -> None:
        """Write the file beside a journal, if it is time; never raises for the disk's sake.

        Args:
            session: whose keys tell what it is about.
            journal: None writes nothing.
            is_last: the session is closed, so that it is time whenever there is something new.
        """
        shown = self._mirror.shown
        if journal is None or shown == self._written or not (is_last or self._is_due(*shown)):
            return
        told = {"metadata": self._about(session, journal.seq), "messages": [*_system(session), *self._mirror.items]}
        data = _encoded(told)
        with contextlib.suppress(OSError):
            disk.put_in_place(journal.path.with_name(SNAPSHOT), data)
        # Also where that failed: a full disk is not to be asked again after each turn.
        self._written, self._size_bytes, self._written_s = shown, len(data), self._monotonic_s()

    def _is_due(self, epoch: int, length: int) -> bool:
        if self._monotonic_s() - self._written_s < _PAUSE_S:
            return False
        before_epoch, before = self._written
        is_short = self._size_bytes <= _SHORT_BYTES
        return is_short or epoch != before_epoch or length - before >= max(1, before // _GROWTH)

    def _about(self, session: Mapping[str, Any], seq: int) -> dict[str, object]:
        told: dict[str, object] = {name: session[name] for name in ("endpoint", "model", "session_id", "auth")}
        told["tools"] = list(session["tool_dispatch"])
        told["cache"] = {
            "min_cacheable_tokens": session["min_cacheable_tokens"],
            "ttl_seconds": session["cache_ttl_seconds"],
        }
        told["plait"], told["up_to_seq"] = __version__, seq
        if self._ported_from:
            told["ported_from"] = self._ported_from
        return told


def source_of(facts: Iterable[Fact]) -> object:
    """Return what a session that is a copy said of the one that it was made from; None for any other."""
    said = (fact.data for fact in facts if isinstance(fact, Observation) and fact.type == START)
    return next(said, {}).get("ported_from")


def _system(session: Mapping[str, Any]) -> Sequence[object]:
    items = session["messages"]
    return items[:1] if has_system(items) else ()


def _encoded(document: Mapping[str, object]) -> bytes:
    try:
        return orjson.dumps(document, option=orjson.OPT_INDENT_2)
    except TypeError:
        # Half characters, and integers that do not fit 64 bits.
        return json.dumps(plain(document), indent=2).encode()
