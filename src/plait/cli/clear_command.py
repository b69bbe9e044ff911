"""`plait clear`: an empty conversation under the same name.

Floor: 7. Owns: the command's options and its words; never: what is emptied (`session.history.resetting`).
"""

from __future__ import annotations

import json
import os

import click

from plait.cli.exits import Exit
from plait.cli.specs import built_in_spec
from plait.session.history.resetting import clear_session
from plait.session.kept.keeping import kept_at
from plait.session.kept.recorded import RecordedTerms, home_of
from plait.session.opening import init_session
from plait.store.sessions import Sessions


@click.command(short_help="Empty a session's conversation.")
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def clear(session: str, *, as_json: bool) -> int:
    """Empty the conversation of SESSION: it goes on without anything that was said; its system prompt stays.

    An unfinished turn is closed first, and what it left running is stopped. The journal keeps what was said, and `plait
    rewind` goes back to it.
    """
    place = kept_at(session) or Sessions.of(os.environ).find(session)
    recorded = RecordedTerms.of(place)
    spec = built_in_spec(recorded.model or "none", recorded.endpoint)
    folder = str(home_of(recorded) or os.getcwd())
    with init_session(spec, resumed_from=str(place.path), workspace=folder, strict_cache_proof=False) as opened:
        count = clear_session(opened)
    if as_json:
        print(json.dumps({"id": place.path.name, "messages_removed": count}))
    else:
        print(f"{place.path.name} is empty now; {count} messages were taken out")
    return Exit.COMPLETED
