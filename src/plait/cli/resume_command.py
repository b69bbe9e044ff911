"""`plait resume`: a session goes on where it stood.

Floor: 7. Owns: its two arguments; never: an option (those are `run`'s).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from plait.cli.run_command import filled, form_of, read_task, run
from plait.cli.run_options import RunOptions
from plait.cli.running import run_and_report

_OF_RUN_ALONE: Final = frozenset({"session", "is_continue", "no_durable"})


@click.command(short_help="Go on with a session: first with what it left unfinished.", epilog=run.epilog)
@click.argument("session", required=False, callback=filled)
@click.argument("words", metavar="[TEXT]...", nargs=-1)
def resume(session: str | None, words: Sequence[str], as_json: bool, stream_json: bool, **chosen: Any) -> int:
    """Go on with SESSION: a name, the beginning of one, or a folder; without it, with the newest of this folder.

    A turn that was interrupted by a crash goes on first: what had ended is not run again, and what nobody saw the end
    of is looked into. Then comes TEXT, if there is any.

    The session goes on in its folder, with its model, its endpoint and the key from where it came. With another model
    or provider it goes on as a copy, and stays as it is.
    """
    task = read_task(words) if words else None
    form = form_of(as_json, stream_json)
    return run_and_report(RunOptions(task=task, form=form, resume=session, is_continue=session is None, **chosen))


resume.params += [
    option for option in run.params if isinstance(option, click.Option) and option.name not in _OF_RUN_ALONE
]
