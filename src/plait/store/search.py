"""Words in what was said, in all sessions.

Floor: 2. Owns: finding and the snippet around; never: an index, which could be stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from plait.core.errors import JournalError
from plait.core.facts import Fact, MessageAdded, Reset, ToolEnd
from plait.core.values import dataclass
from plait.store.glance import Glance
from plait.store.layout import SessionFolder
from plait.store.opening import load_journal

_AROUND_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Hit:
    """Something said that has all the words; or, with a problem, a session that could not be searched."""

    session: Glance
    seq: int = 0
    role: str = ""
    at_ms: int = 0
    snippet: str = ""
    problem: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return what `--json` prints."""
        told = {"seq": self.seq, "role": self.role, "at_ms": self.at_ms, "snippet": self.snippet}
        return {"id": self.session.id, **told, "problem": self.problem}


def search(sessions: Iterable[Glance], words: str) -> Iterator[Hit]:
    """Yield what was said with all these words in it, whatever their case, session by session."""
    wanted = words.casefold().split()
    for session in sessions:
        try:
            journal = load_journal(SessionFolder(session.folder).journal)
        except JournalError as error:
            yield Hit(session, problem=error.message)
            continue
        for entry in journal.entries:
            for role, text in _said(entry.fact):
                folded = text.casefold()
                if wanted and all(word in folded for word in wanted):
                    yield Hit(session, entry.seq, role, entry.at_ms, _snippet(text, folded.index(wanted[0])))


def _said(fact: Fact) -> Iterator[tuple[str, str]]:
    if isinstance(fact, MessageAdded):
        yield fact.message.role, fact.message.content
    elif isinstance(fact, ToolEnd):
        yield "tool", fact.result.content
    elif isinstance(fact, Reset):
        yield from ((message.role, message.content) for message in fact.messages)


def _snippet(text: str, at: int) -> str:
    start, end = max(0, at - _AROUND_CHARS), at + _AROUND_CHARS
    words = " ".join(text[start:end].split())
    return f"{'...' if start else ''}{words}{'...' if end < len(text) else ''}"
