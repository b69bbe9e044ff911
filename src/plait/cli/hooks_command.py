"""`plait hooks`: which hooks a session here would have.

Floor: 7. Owns: the command, and the sources that a command line names; never: reading or running a hook.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from plait.cli.escapes import one_line
from plait.cli.exits import Exit
from plait.cli.folder import inside
from plait.core.errors import ConfigError
from plait.session.hooks.sources import Sources, sources_of

_WORDS_CHARS = 200


def named_hooks(paths: Sequence[str]) -> list[str]:
    """Return the files and folders of `--hooks`; raise `ConfigError` for one that is not there."""
    for path in paths:
        if not os.path.lexists(os.path.expanduser(path)):
            raise ConfigError(f"there are no hooks at {path!r}", hint="give an existing file or folder with --hooks")
    return list(paths)


@click.group(no_args_is_help=False)
def hooks() -> None:
    """Look at the hooks that sessions have."""


@hooks.command("list")
@click.option("--hooks", "paths", metavar="FILE|DIR", multiple=True, help="Count these too, as `plait run` would.")
@click.option("-C", "--cwd", "directory", metavar="DIR", help="Of this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_hooks(*, paths: Sequence[str], directory: str | None, as_json: bool) -> int:
    """List the hooks that a run here would have, by event, each with where it comes from.

    Nothing is run. The repository's own count where it is trusted; otherwise they are only named.
    """
    from plait.session.hooks.registering import entries_of  # a folder without hooks needs none of it

    with inside(directory or "."):
        sources = sources_of({}, {"hooks": named_hooks(paths)}, os.getcwd())
        entries, warnings = entries_of(sources, os.getcwd())
    told = [entry.to_dict() for entry in entries]
    if as_json:
        print(json.dumps({"hooks": told, "warnings": warnings, "untrusted": _untrusted(sources)}))
        return Exit.COMPLETED
    for hook in sorted(told, key=lambda hook: str(hook["event"])):
        print(_line(hook))
    for warning in (*warnings, *filter(None, [sources.notice])):
        print(f"plait: {one_line(warning, 2 * _WORDS_CHARS)}", file=sys.stderr)
    if not told:
        print("there are no hooks here", file=sys.stderr)
    return Exit.COMPLETED


def _line(hook: dict[str, Any]) -> str:
    what = f"{hook['event']} {hook['matcher']}".rstrip()
    more = [f"{hook['timeout_s']:g} s", *(["async"] if hook["async"] else [])]
    more += ["has to agree"] if hook["on_error"] == "deny" else []
    return one_line(f"{what}: {hook['command']} ({', '.join(more)}; {hook['source']})", 2 * _WORDS_CHARS)


def _untrusted(sources: Sources) -> list[str]:
    return [str(place.path) for place in sources.untrusted]
