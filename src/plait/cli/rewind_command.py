"""`plait rewind`: back to the end of an earlier turn, conversation and files.

Floor: 7. Owns: the command's options and its words; never: what is taken back (`session.history.rewinding`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Final

import click

from plait.cli.escapes import one_line
from plait.cli.exits import Exit
from plait.cli.specs import built_in_spec
from plait.core.errors import ConfigError
from plait.session.history.rewinding import FileBack, Rewound, rewind as rewind_session
from plait.session.kept.keeping import kept_at
from plait.session.kept.recorded import RecordedTerms, home_of
from plait.session.opening import init_session
from plait.store.layout import SessionFolder
from plait.store.opening import load_journal
from plait.store.sessions import Sessions
from plait.store.turns import TurnMark, turn_marks

_WORDS_CHARS: Final = 70
_OUTCOMES: Final = {
    "restored": "taken back",
    "already": "as it was",
    "changed": "left alone: somebody has changed it since",
    "not_kept": "left alone: what it held was not kept",
    "elsewhere": "left alone: it was changed in another workspace",
}


@click.command(short_help="Take a session back to an earlier turn, with the files that it changed.")
@click.argument("session")
@click.option("--to", "turn", type=click.IntRange(0), help="The turn; 0 is before the first. Without it, list them.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("-C", "--cwd", "directory", metavar="DIR", help="Where the session's files are now.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rewind(session: str, turn: int | None, directory: str | None, *, dry_run: bool, as_json: bool) -> int:
    """Take SESSION back to the end of a turn: its conversation, and the files that its tools changed since.

    A file that somebody else has changed since is left alone, and what commands did is not undone; both are said, and
    the exit code is 1 then. Turns that were taken back can be gone to again.
    """
    place = kept_at(session) or Sessions.of(os.environ).find(session)
    if turn is None:
        return _list(place, as_json=as_json)
    recorded = RecordedTerms.of(place)
    folder = directory or str(home_of(recorded) or "")
    if not folder:
        raise ConfigError(f"the session worked in {recorded.cwd!r}, which is gone", hint="say with -C where it is now")
    spec = built_in_spec(recorded.model or "none", recorded.endpoint)
    with init_session(
        spec, session_dir=str(place.path), workspace=folder, strict_cache_proof=False, hooks_enabled=False
    ) as opened:
        told = rewind_session(opened, turn, is_dry=dry_run, is_moved=directory is not None)
    if as_json:
        print(json.dumps(_told(told, dry_run)))
    else:
        for line in _lines(told, dry_run):
            print(line)
    return Exit.COMPLETED if told.is_whole else Exit.FAILED


def _list(place: SessionFolder, *, as_json: bool) -> int:
    marks = turn_marks(load_journal(place.journal).entries)
    if as_json:
        print(json.dumps([{"turn": mark.number, "question": mark.question} for mark in marks]))
        return Exit.COMPLETED
    for mark in marks:
        print(f"{mark.number:>4}  {one_line(_words(mark), _WORDS_CHARS)}")
    print("go back to the end of one with --to TURN", file=sys.stderr)
    return Exit.COMPLETED


def _words(mark: TurnMark) -> str:
    return mark.question if mark.number else "(before the first turn)"


def _lines(told: Rewound, is_dry: bool) -> Iterator[str]:
    where = f'after turn {told.turn}: "{one_line(told.question, _WORDS_CHARS)}"' if told.turn else "at its beginning"
    verb = "would be" if is_dry else "is"
    removed = told.messages_removed
    # Forward, to a turn that was taken back before, there are more of them.
    yield f"{told.session_id} {verb} {where}; {abs(removed)} messages {'taken back' if removed >= 0 else 'put back'}"
    for file in told.files:
        yield f"  {one_line(file.path, _WORDS_CHARS)}: {_outcome(file)}"
    for call in told.not_undone:
        yield f"  not undone: {one_line(call, _WORDS_CHARS)}"


def _outcome(file: FileBack) -> str:
    return _OUTCOMES.get(file.outcome) or f"left alone: {one_line(file.outcome, _WORDS_CHARS)}"


def _told(told: Rewound, is_dry: bool) -> dict[str, object]:
    return {
        "id": told.session_id,
        "turn": told.turn,
        "question": told.question,
        "messages_removed": told.messages_removed,
        "files": [{"path": file.path, "outcome": file.outcome} for file in told.files],
        "not_undone": list(told.not_undone),
        "dry_run": is_dry,
    }
