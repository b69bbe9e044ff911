"""`plait sessions`: what was kept, looked at, moved, mended and removed.

Floor: 7. Owns: the command's options and its words; never: a file (`store`).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from plait.cli.escapes import one_line, visible
from plait.cli.exits import Exit
from plait.core.ids import new_id
from plait.store.export import Format, export
from plait.store.glance import Glance
from plait.store.importing import import_session
from plait.store.layout import SessionFolder
from plait.store.salvage import Verdict, repair, verify
from plait.store.search import search
from plait.store.sessions import Sessions
from plait.store.tail import read_tail

_WORDS_CHARS: Final = 60
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_everywhere = click.option("--all", "everywhere", is_flag=True, help="Sessions of every project, not only this one's.")


@click.group(no_args_is_help=False)
def sessions() -> None:
    """List, show, search, move, check and delete what was kept."""


@sessions.command("list")
@_everywhere
@_as_json
def list_sessions(*, everywhere: bool, as_json: bool) -> int:
    """List this project's sessions, the latest first."""
    found = _own().listed(_project(everywhere))
    if as_json:
        print(json.dumps([glance.to_dict() for glance in found]))
        return Exit.COMPLETED
    for glance in found:
        print(_line(glance))
    if not found:
        where = "" if everywhere else " of this folder; --all lists every project's"
        print(f"there are no sessions{where}", file=sys.stderr)
    return Exit.COMPLETED


@sessions.command()
@click.argument("session")
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="So many messages.")
@_as_json
def show(session: str, last: int, *, as_json: bool) -> int:
    """Show the last messages of SESSION: a name, the beginning of one, or a folder."""
    tail = read_tail(_own().find(session).journal, last)
    if as_json:
        print(json.dumps([message.to_dict() for message in tail.messages]))
        return Exit.COMPLETED
    for message in tail.messages:
        print(f"{message.role}:")
        calls = [f"[{call.name} {call.raw}]" for call in message.tool_calls]
        for text in (message.content, *calls, *(result.content for result in message.tool_results)):
            if text:
                print(visible(text))
    return Exit.COMPLETED


@sessions.command("search")
@click.argument("words", nargs=-1, required=True)
@_everywhere
@_as_json
def search_sessions(words: tuple[str, ...], *, everywhere: bool, as_json: bool) -> int:
    """Find what was said with all of WORDS in it; exit code 1 when nothing was."""
    hits = [*search(_own().listed(_project(everywhere)), " ".join(words))]
    found = [hit for hit in hits if not hit.problem]
    if as_json:
        print(json.dumps([hit.to_dict() for hit in hits]))
    else:
        for hit in found:
            print(f"{hit.session.id}  {hit.role}: {visible(hit.snippet)}")
        for hit in hits:
            if hit.problem:
                print(f"not searched: {visible(hit.problem)}", file=sys.stderr)
    return Exit.COMPLETED if found else Exit.FAILED


@sessions.command("export")
@click.argument("session")
@click.option(
    "--format", "format", type=click.Choice(["jsonl", "markdown", "html"]), default="jsonl", show_default=True
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A new file; stdout without it.")
def export_session(session: str, format: Format, output: Path | None) -> int:
    """Write SESSION as its journal, as Markdown, or as one HTML page."""
    data = export(_own().find(session).journal, format)
    if output is None:
        if sys.stdout.isatty():
            print(visible(data.decode("utf-8", "replace")))
        else:
            sys.stdout.buffer.write(data)
        return Exit.COMPLETED
    try:
        with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
    except OSError as error:
        raise click.UsageError(f"cannot write {str(output)!r}: {error.strerror or error}") from error
    return Exit.COMPLETED


@sessions.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--as", "name", metavar="NAME", help="What the new session is called.")
@_as_json
def import_path(path: Path, name: str | None, *, as_json: bool) -> int:
    """Make a session of an exported journal, or of the older program's journal, snapshot or folder at PATH."""
    place = _own().place_of(name or new_id("s"))
    import_session(path, place.path, place.path.name)
    _say_made(place, as_json)
    return Exit.COMPLETED


@sessions.command("verify")
@click.argument("names", nargs=-1, metavar="[SESSION]...")
@_everywhere
@_as_json
def verify_sessions(names: tuple[str, ...], *, everywhere: bool, as_json: bool) -> int:
    """Check every record; names the first that is damaged, and its offset. Exit code 1 when there is one."""
    own = _own()
    places = [own.find(name) for name in names]
    if not names:
        places = [SessionFolder(glance.folder) for glance in own.listed(_project(everywhere))]
    verdicts = [(place.path.name, verify(place.journal)) for place in places]
    if as_json:
        print(json.dumps([_verdict_dict(name, verdict) for name, verdict in verdicts]))
    else:
        for name, verdict in verdicts:
            print(_verdict_line(name, verdict))
    return Exit.COMPLETED if all(verdict.is_whole for _, verdict in verdicts) else Exit.FAILED


@sessions.command("repair")
@click.argument("session")
@click.option("--as", "name", metavar="NAME", help="What the new session is called.")
@_as_json
def repair_session(session: str, name: str | None, *, as_json: bool) -> int:
    """Copy what is whole in a damaged SESSION into a new one; the damaged one is left as it is."""
    own = _own()
    old, place = own.find(session), own.place_of(name or new_id("s"))
    verdict = repair(old.journal, place.path, place.path.name)
    if not as_json:
        print(_verdict_line(old.path.name, verdict), file=sys.stderr)
    _say_made(place, as_json)
    return Exit.COMPLETED


@sessions.command()
@click.argument("names", nargs=-1, required=True, metavar="SESSION...")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(names: tuple[str, ...], *, yes: bool) -> int:
    """Remove sessions with everything in their folders, for good."""
    own = _own()
    places = [own.find(name) for name in names]
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody can be asked: say --yes to delete without a question")
        click.confirm(f"delete {', '.join(place.path.name for place in places)} for good?", abort=True, err=True)
    from plait.tools.kept_commands import end_all

    for place in places:
        own.delete(place)
        end_all(place.spool)  # a run that was killed may have left commands and jobs
    return Exit.COMPLETED


def _own() -> Sessions:
    return Sessions.of(os.environ)


def _project(everywhere: bool) -> str | None:
    return None if everywhere else os.getcwd()


def _line(glance: Glance) -> str:
    words = glance.problem or glance.first_words
    mark = "!" if glance.problem else "*" if glance.is_open else " "
    return f"{mark} {glance.id:<24} {_age(glance.active_ms):>8}  {one_line(words, _WORDS_CHARS)}"


def _age(at_ms: int) -> str:
    seconds = max(0, int(time.time() - at_ms / 1_000))
    if not at_ms:
        return "-"
    return next((f"{seconds // size} {unit}" for size, unit in _UNITS if seconds >= size), "now")


def _verdict_line(id: str, verdict: Verdict) -> str:
    if verdict.problem is not None:
        return visible(f"{id}: {verdict.problem.message}")
    torn = f", and an unfinished write of {verdict.torn_bytes} bytes" if verdict.torn_bytes else ""
    return f"{id}: whole, {verdict.records} records{torn}"


def _verdict_dict(id: str, verdict: Verdict) -> dict[str, object]:
    problem = verdict.problem
    told = None if problem is None else {**problem.to_dict(), "seq": problem.seq, "offset": problem.offset}
    return {"id": id, "records": verdict.records, "torn_bytes": verdict.torn_bytes, "problem": told}


def _say_made(place: SessionFolder, as_json: bool) -> None:
    told: Iterable[tuple[str, str]] = (("id", place.path.name), ("folder", str(place.path)))
    print(json.dumps(dict(told)) if as_json else place.path.name)
