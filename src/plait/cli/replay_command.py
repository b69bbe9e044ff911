"""`plait replay`: would the same requests be sent today?

Floor: 7. Owns: the command's options and how a difference is shown; never: the comparison (`history.replaying`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from plait.cli.escapes import one_line, visible
from plait.cli.exits import Exit
from plait.cli.specs import built_in_spec
from plait.core.codec import encode_fact
from plait.core.errors import ConfigError
from plait.engine.spec import load_specification
from plait.kernel.rerun import Difference
from plait.session.history.replaying import Replay, Section, common_length, replay_session
from plait.session.kept.keeping import kept_at
from plait.session.kept.recorded import RecordedTerms, bind
from plait.store.layout import SessionFolder
from plait.store.sessions import Sessions

_AROUND_CHARS: Final = 30
_LINE_CHARS: Final = 100
_BODY_CHARS: Final = 2_000


@click.command(short_help="Run a session again from its journal, without a network.")
@click.argument("session")
@click.option("--spec", metavar="FILE", help="The agent spec of the session; without it, the one of `plait run`.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def replay(session: str, spec: str | None, *, as_json: bool) -> int:
    """Run the loop again on what was recorded of SESSION; nothing is sent, run or written.

    Every request is built again and compared with the one that was sent. Prints the first difference, and what a
    changed prompt or tool would send; exit code 1 where there is any.
    """
    place = kept_at(session) or Sessions.of(os.environ).find(session)
    found = replay_session(place, _spec(place, spec))
    if as_json:
        print(json.dumps(_told(place, found)))
    else:
        for line in _lines(place, found):
            print(line)
    return Exit.COMPLETED if found.is_same else Exit.FAILED


def _spec(place: SessionFolder, path: str | None) -> Mapping[str, Any]:
    recorded = RecordedTerms.of(place)
    if path is not None:
        return bind(load_specification(recorded.model, recorded.endpoint, path), recorded).schema
    if not recorded.model:
        raise ConfigError(
            f"the session {place.path.name!r} does not say which model it asked", hint="give its agent spec with --spec"
        )
    return bind(built_in_spec(recorded.model, recorded.endpoint), recorded).schema


def _lines(place: SessionFolder, found: Replay) -> Iterator[str]:
    told = found.told
    yield (
        f"{place.path.name}: {_count(told.turns, 'turn')}, {_count(told.requests, 'request')}, "
        f"{told.proved} proved to be the same"
    )
    if told.followed:
        yield f"{_count(told.followed, 'turn')} could only be followed: the log does not say all that was answered"
    for section in found.sections:
        yield from _section_lines(section)
    if told.difference is not None:
        yield from _difference_lines(told.difference, found)


def _difference_lines(difference: Difference, found: Replay) -> Iterator[str]:
    where = f"turn {difference.turn}, entry {difference.seq}"
    if difference.ask is None:
        yield f"{where}: something else would be recorded"
        yield f"  recorded: {_shown(difference.recorded)}"
        yield f"  today:    {_shown(difference.made)}"
        return
    yield f"{where}: another request would be sent; what is new in it since the one before:"
    new = found.body[found.common_bytes :].decode(errors="replace")
    cut = f"... and {len(new) - _BODY_CHARS} characters more; --json has all" if len(new) > _BODY_CHARS else ""
    yield visible(new[:_BODY_CHARS])
    if cut:
        yield cut


def _section_lines(section: Section) -> Iterator[str]:
    if isinstance(section.recorded, str) and isinstance(section.now, str):
        at = common_length(section.recorded, section.now)
        yield f"a new session would begin with another system prompt, from character {at} on:"
        yield f"  recorded: {_excerpt(section.recorded, at)}"
        yield f"  today:    {_excerpt(section.now, at)}"
        return
    before, now = _by_name(section.recorded), _by_name(section.now)
    others = [name for name in now if before.get(name) != now[name]]
    what = ", ".join(others) if others else "their order"
    yield f"a new session would show other tools: {one_line(what, _LINE_CHARS)}"


def _excerpt(text: str, at: int) -> str:
    return one_line(text[max(0, at - _AROUND_CHARS) : at + _LINE_CHARS], _LINE_CHARS) or "(nothing)"


def _by_name(tools: object) -> dict[str, object]:
    return {str(tool["name"]): tool for tool in tools} if isinstance(tools, list) else {}


def _shown(what: object) -> str:
    return one_line(json.dumps(_plain(what)), _LINE_CHARS)


def _plain(what: object) -> object:
    """Return a fact as it stands in a journal, and an effect by its name."""
    try:
        name, data = encode_fact(what)  # type: ignore[arg-type]
    except KeyError:
        return type(what).__name__.lower()
    return {"type": name, "data": data}


def _told(place: SessionFolder, found: Replay) -> dict[str, object]:
    told, difference = found.told, found.told.difference
    where: dict[str, object] | None = None
    if difference is not None:
        made = difference.made if isinstance(difference.made, str) else _plain(difference.made)
        where = {"turn": difference.turn, "seq": difference.seq, "recorded": _plain(difference.recorded), "now": made}
        if difference.ask is not None:
            where |= {"request": found.body.decode(errors="replace"), "common_bytes": found.common_bytes}
    return {
        "id": place.path.name,
        "turns": told.turns,
        "requests": told.requests,
        "proved": told.proved,
        "followed": told.followed,
        "sections": [{"name": each.name, "recorded": each.recorded, "now": each.now} for each in found.sections],
        "difference": where,
    }


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
