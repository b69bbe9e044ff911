"""`plait trust`: a look at what a repository would run, and the yes or no to it.

Floor: 7. Owns: the command's options, what is shown before a yes, and how the yes is given; never: the list
(`config.trust`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

import click

from plait.cli.escapes import literal
from plait.cli.exits import Exit
from plait.cli.terminal import Terminal
from plait.config.trust import Change, Standing
from plait.core.cancel import Cancel
from plait.engine.trusting import trust_store

_SIGNS: Final = MappingProxyType({"new": "+", "gone": "-", "changed": "~", "mode": "~"})


@click.command(short_help="Look at what a repository would run, and trust it.")
@click.argument("directory", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--yes", is_flag=True, help="Trust it without asking, as it is shown.")
@click.option("--list", "lists", is_flag=True, help="List the trusted repositories.")
@click.option("--revoke", is_flag=True, help="Trust it no longer.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and ask nothing.")
def trust(directory: str, *, yes: bool, lists: bool, revoke: bool, as_json: bool) -> int:
    """Show what of the repository around DIRECTORY runs code or says where requests go, and ask for trust in it.

    Its hooks, MCP servers, plugins and rules that allow are used only while they are what was trusted, byte for byte.
    Exit code 0: it is trusted, or there is nothing to trust; 2: it is not.
    """
    store = trust_store()
    if lists:
        roots = store.roots()
        print(json.dumps({"trusted": list(roots)}) if as_json else "\n".join(map(_shown, roots)) or "none")
        return Exit.COMPLETED
    if revoke:
        was = store.revoke(directory)
        if as_json:
            print(json.dumps({"revoked": was}))
        else:
            print("it is trusted no longer" if was else "it was not trusted")
        return Exit.COMPLETED
    standing = store.look(directory)
    is_new = standing.is_needed and not standing.now.faults
    if not as_json:
        for line in _lines(standing):
            print(line)
    if is_new and (yes or (not as_json and _says_yes(standing))):
        store.trust(standing.now)
        standing = store.look(directory)
    if as_json:
        print(json.dumps(_told(standing)))
    elif is_new:
        print("trusted" if standing.is_trusted else "not trusted")
    return Exit.USAGE if standing.is_needed else Exit.COMPLETED


def _lines(standing: Standing) -> Iterator[str]:
    root = _shown(str(standing.now.root))
    if not standing.now:
        yield f"{root}: there is nothing that waits for trust"
        return
    if standing.is_trusted:
        yield f"{root}: trusted"
        return
    yield f"{root}: " + ("changed since it was trusted" if standing.before else "not trusted; this would be used")
    for change in standing.changes():
        yield f"  {_SIGNS[change.kind]} {_shown(change.path)}" + (" (may be run)" if _is_run(standing, change) else "")
        yield from (f"      {line}" for line in (literal(change.diff)[2:] if change.diff else []))
    yield from (f"  ! {_shown(fault)}" for fault in standing.now.faults)
    if standing.now.faults:
        yield "it cannot be trusted as it is"


def _is_run(standing: Standing, change: Change) -> bool:
    return any(part.path == change.path and part.is_executable for part in standing.now.parts)


def _says_yes(standing: Standing) -> bool:
    """Ask on the terminal itself; nobody there is a no."""
    if not Terminal.is_there():
        print("nobody is here to ask; trust it with: plait trust --yes", file=sys.stderr)
        return False
    text = f"Trust {_shown(str(standing.now.root))} with all of this? [y]es, [n]o: "
    answer = Terminal().ask(text, Cancel())
    return answer is not None and answer.strip().lower() in ("y", "yes")


def _told(standing: Standing) -> dict[str, object]:
    return {
        "root": str(standing.now.root),
        "status": _status(standing),
        "digest": standing.now.digest,
        "parts": [part.path for part in standing.now.parts],
        "faults": list(standing.now.faults),
        "changes": [{"path": change.path, "kind": change.kind, "diff": change.diff} for change in standing.changes()],
    }


def _status(standing: Standing) -> str:
    if standing.is_trusted:
        return "trusted"
    if not standing.now:
        return "nothing"
    return "changed" if standing.before else "untrusted"


def _shown(text: str) -> str:
    return " ".join(literal(text))
