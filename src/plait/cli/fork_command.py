"""`plait fork`: a new session from what another one held at the end of a turn.

Floor: 7. Owns: the command's options and its words; never: a file (`store`).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Final

import click

from plait.cli.escapes import one_line
from plait.cli.exits import Exit
from plait.core.ids import new_id
from plait.store.sessions import Sessions
from plait.store.turns import fork as fork_session

_WORDS_CHARS: Final = 60


@click.command(short_help="Begin a new session with what another one held.")
@click.argument("session")
@click.option("--to", "turn", type=click.IntRange(0), help="Up to the end of this turn; 0 is before the first.")
@click.option("--as", "name", metavar="NAME", help="What the new session is called.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def fork(session: str, turn: int | None, name: str | None, *, as_json: bool) -> int:
    """Begin a new session with what SESSION held at the end of its last turn, or of an earlier one.

    SESSION may be running: its turn that has not ended stays behind. Files are shared, only the conversation is
    copied; `plait rewind` takes files back too.
    """
    own = Sessions.of(os.environ)
    source, place = own.find(session), own.place_of(name or new_id("s"))
    mark = fork_session(source.journal, place.path, place.path.name, turn)
    if as_json:
        told = {"id": place.path.name, "folder": str(place.path), "turn": mark.number, "question": mark.question}
        print(json.dumps(told))
        return Exit.COMPLETED
    print(place.path.name)
    after = f'after turn {mark.number}: "{one_line(mark.question, _WORDS_CHARS)}"' if mark.number else "from the start"
    print(f"forked {source.path.name} {after}; go on with: plait resume {place.path.name}", file=sys.stderr)
    return Exit.COMPLETED
