"""`plait compact`: a summary in the place of a session's old turns.

Floor: 7. Owns: the command's options and its words; never: the summary (`session.history.resetting`).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final

import click

from plait.cli.exits import Exit
from plait.cli.folder import inside
from plait.cli.run_command import filled, run
from plait.cli.run_options import RunOptions
from plait.cli.signals import Signals
from plait.cli.specs import built_in_spec
from plait.cli.terminal import Terminal
from plait.cli.whom import chosen
from plait.core.cancel import Cancel
from plait.core.errors import ConfigError
from plait.events.reducer import counts
from plait.session.clients import create_client
from plait.session.history.resetting import Compacted, compact_session
from plait.session.kept.keeping import kept_at
from plait.session.kept.recorded import RecordedTerms, home_of
from plait.session.opening import init_session
from plait.session.summaries.terms import DEFAULT_COMPACTION_KEEP_LAST_TURNS
from plait.session.summaries.uncompacting import uncompact_session
from plait.store.sessions import Sessions

_OF_RUN: Final = frozenset({"model", "endpoint", "key_env", "inference_db", "directory", "spec", "timeout_s"})


@click.command(short_help="Put a summary in the place of a session's old turns.")
@click.argument("session", callback=filled)
@click.option(
    "--keep",
    "keep_last_turns",
    metavar="N",
    type=click.IntRange(0),
    default=DEFAULT_COMPACTION_KEEP_LAST_TURNS,
    show_default=True,
    help="So many turns stay as they are.",
)
@click.option("--undo", "is_undo", is_flag=True, help="Put back what the last summary stands for.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compact(session: str, keep_last_turns: int, *, is_undo: bool, as_json: bool, **given: Any) -> int:
    """Have the model of SESSION summarise all but its last turns, and put that in their place.

    In a single long turn its last steps stay, and its task word for word. It takes one request; where nothing would be
    gained, nothing is changed, and the exit code is 0 all the same. The journal keeps what was said, and `plait rewind`
    goes back to it.

    With --undo the last summary is taken back instead: what it stands for is in the conversation again, as it was, and
    no model is asked.

    The model is asked as `plait resume` asks it: on the session's own terms, unless an option says otherwise.
    """
    if is_undo:
        return _undone(session, as_json=as_json)
    cancel = Cancel()
    with Signals(cancel) as signals:
        told = _compacted(RunOptions(task=None, resume=session, **given), keep_last_turns, cancel).raise_for_status()
    if told.status == "interrupted":
        print("stopped; nothing was changed", file=sys.stderr)
        return signals.exit_code or Exit.INTERRUPTED
    if as_json:
        print(json.dumps(_told(told)))
    else:
        print(_line(told))
    return Exit.COMPLETED


compact.params += [option for option in run.params if isinstance(option, click.Option) and option.name in _OF_RUN]


def _undone(session: str, *, as_json: bool) -> int:
    place = kept_at(session) or Sessions.of(os.environ).find(session)
    recorded = RecordedTerms.of(place)
    spec = built_in_spec(recorded.model or "none", recorded.endpoint)
    folder = str(home_of(recorded) or os.getcwd())
    with init_session(spec, resumed_from=str(place.path), workspace=folder, strict_cache_proof=False) as opened:
        count = uncompact_session(opened)
    name = place.path.name
    if as_json:
        print(json.dumps({"id": name, "messages_restored": count}))
    else:
        print(
            f"{name}: {count} messages are back" if count else f"{name}: no summary stands in it; nothing was changed"
        )
    return Exit.COMPLETED


def _compacted(options: RunOptions, keep_last_turns: int, cancel: Cancel) -> Compacted:
    from plait.cli.configured import configured
    from plait.cli.continuing import bound_to, folder_of, session_meant
    from plait.cli.turn import spec_of

    going = session_meant(options)
    if going is None:
        raise ConfigError(f"there is no session {options.resume!r}", hint="`plait sessions list --all` names them")
    with inside(options.directory or folder_of(going)):
        options = configured(options, goes_on=True)
        bound, folder = bound_to(options, going, spec_of(options, chosen(options, going)))
        with (
            create_client(bound) as client,
            init_session(
                bound,
                resumed_from=folder,
                strict_cache_proof=False,
                non_interactive=not Terminal.is_there(),
                opening_cancel=cancel,
            ) as opened,
        ):
            return compact_session(
                client,
                opened["model"],
                opened,
                keep_last_turns=keep_last_turns,
                cancel=cancel,
                timeout=options.timeout_s,
            )


def _line(told: Compacted) -> str:
    tokens = counts(told.usage)
    spent = f"; the summary took {tokens['prompt']:,} + {tokens['completion']:,} tokens" if tokens["total"] else ""
    if not told:
        return f"{told.session_id}: nothing was gained ({told.reason}){spent}"
    return (
        f"{told.session_id}: {told.messages_before} messages are {told.messages_after} now, "
        f"{told.chars_before:,} characters {told.chars_after:,}{spent}"
    )


def _told(told: Compacted) -> dict[str, object]:
    return {
        "id": told.session_id,
        "is_gain": bool(told),
        "reason": told.reason,
        "summary": told.summary,
        "messages_before": told.messages_before,
        "messages_after": told.messages_after,
        "chars_before": told.chars_before,
        "chars_after": told.chars_after,
        "usage": counts(told.usage),
    }
