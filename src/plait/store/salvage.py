"""Whether a journal is whole, and a new one made of what is whole in a damaged one.

Floor: 2. Owns: `verify` and `repair`; never: a change to the file that was looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plait.core.errors import ConfigError, JournalError
from plait.core.facts import Entry
from plait.core.values import dataclass
from plait.kernel.state import FoldError, State
from plait.store import disk
from plait.store.jsonl import JOURNAL
from plait.store.opening import cannot_open, file_bytes, folded
from plait.store.records import Chain, encode_header, read_journal, read_whole_lines
from plait.store.writer import read_note

_WRITE_ENTRIES: Final = 64
"""So many entries of a copied journal pass for one write, so that its end can be read without the rest."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found out about a journal."""

    path: Path
    records: int
    """Whole ones, from the beginning."""
    size_bytes: int
    problem: JournalError | None = None
    """The first record that is damaged, and where."""
    torn_bytes: int = 0
    """An unfinished write at the end, which nobody was told was safe; no damage."""

    @property
    def is_whole(self) -> bool:
        """Say whether everything that was promised is there."""
        return self.problem is None


def verify(path: Path) -> Verdict:
    """Check every record of a journal, and that the facts fit each other; raise `JournalError` for no such file."""
    safe_bytes = read_note(path).safe_bytes
    data = file_bytes(path)
    try:
        journal = read_journal(data, str(path), safe_bytes)
        folded(journal, data, path)
    except JournalError as problem:
        return Verdict(path, max(0, (problem.seq or 1) - 1), len(data), problem)
    return Verdict(path, journal.seq, len(data), torn_bytes=journal.torn.size_bytes if journal.torn else 0)


def repair(path: Path, folder: Path, conversation: str) -> Verdict:
    """Copy the whole beginning of a damaged journal into a new session; return what was found in the old one.

    Raises:
        ConfigError: there is a journal in `folder` already.
        JournalCorrupt: not even the first line is whole, so that nothing can be known of the rest.
    """
    verdict = verify(path)
    journal = read_whole_lines(file_bytes(path), str(path))
    entries, state = [], State()
    for entry in journal.entries:
        try:
            state.apply(entry.fact)
        except FoldError:
            break
        entries.append(entry)
    write_journal(folder, conversation, {**journal.header, "repaired_from": str(path)}, entries)
    return verdict


def write_journal(folder: Path, conversation: str, header: dict[str, object], entries: Sequence[Entry]) -> Path:
    """Write a whole journal at once, durable on return; raise `ConfigError` where there is one."""
    line, crc = encode_header(conversation, header)
    chain, data = Chain(crc), [line]
    for start in range(0, len(entries), _WRITE_ENTRIES):
        data.append(chain.write(entries[start : start + _WRITE_ENTRIES]))
    path = folder / JOURNAL
    try:
        disk.make_private_folder(folder)
        disk.new_file(path, b"".join(data))
    except FileExistsError as error:
        raise ConfigError(f"there is a session at {str(folder)!r} already", hint="choose another name") from error
    except OSError as error:
        raise cannot_open(path, error, "written") from error
    return path
