"""`plait context`: what the model sees, part by part, with the size of each.

Floor: 7. Owns: the command's options and its lines; never: what a prompt is made of (`session.senses.looking`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from plait.cli.awareness_flags import SenseOptions, awareness_options, senses_given
from plait.cli.escapes import one_line, visible
from plait.cli.exits import Exit
from plait.cli.folder import inside

if TYPE_CHECKING:
    from plait.session.senses.looking import Seen, Sight

_TEXT_CHARS: Final = 2_000
_NAME_CHARS: Final = 200
_NO_MODEL: Final = "MODEL"


@click.command(short_help="Show what the model sees, part by part.")
@click.argument("session", required=False)
@click.option("-C", "--cwd", "directory", metavar="DIR", help="Of a session that would begin in this folder.")
@click.option("--spec", metavar="FILE", help="… with this agent spec.")
@click.option("--profile", metavar="NAME", help="… with this profile.")
@awareness_options
@click.option("--full", is_flag=True, help="Show long texts whole.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every text whole.")
def context(
    *,
    session: str | None,
    directory: str | None,
    spec: str | None,
    profile: str | None,
    bare: bool,
    full: bool,
    as_json: bool,
    without: Sequence[str] = (),
) -> int:
    """Show what the model of SESSION would be sent next: prompt, tools, messages, about how many tokens each.

    SESSION is a name, the beginning of one, or a folder. Without it: what a session that began in this folder would
    send with its first question, and which instructions files it would read. Nothing is started, and no hook is asked.
    """
    if session and (directory or spec or profile or bare or without):
        raise click.UsageError(
            "SESSION has begun: -C, --spec, --profile, --bare and --no-…-awareness are for one that has not"
        )
    sight = _kept(session) if session else _ahead(directory or ".", spec, profile, senses_given(bare, without))
    if as_json:
        print(json.dumps(sight.to_dict()))
        return Exit.COMPLETED
    for line in lines_of(sight, None if full else _TEXT_CHARS):
        print(line)
    return Exit.COMPLETED


def _kept(session: str) -> Sight:
    from plait.session.kept.keeping import kept_at  # a look at this folder needs none of it
    from plait.session.senses.looking import look_at
    from plait.store.sessions import Sessions

    return look_at(kept_at(session) or Sessions.of(os.environ).find(session))


def _ahead(directory: str, spec: str | None, profile: str | None, senses: SenseOptions) -> Sight:
    from plait.cli.configured import configured, with_fields
    from plait.cli.run_options import RunOptions
    from plait.cli.specs import built_in_spec
    from plait.engine.spec import load_specification
    from plait.session.senses.looking import look_ahead

    with inside(directory):
        options = configured(RunOptions(task=None, spec=spec, profile=profile), goes_on=False)
        schema = built_in_spec(options.model or _NO_MODEL, "") if spec is None else load_specification("", "", spec)
        with_fields(schema, options.fields)
        words = {"profile": options.profile, "system_prompt_supplement": options.supplement}
        return look_ahead({"model": _NO_MODEL, **schema}, **words, **senses)


def lines_of(sight: Sight, chars_max: int | None) -> Iterator[str]:
    """Yield what is printed; texts longer than `chars_max` are cut, None cuts none."""
    yield _headline(sight)
    senses = ", ".join(name for name, is_on in sight.senses.status.items() if is_on)
    yield f"senses: {senses or 'none'}"
    for file in sight.instructions:
        why = f" ({file.get('notice')})" if file.get("notice") else f" ({file.get('chars')} characters)"
        yield one_line(f"instructions of the {file.get('scope')}: {file.get('path')}{why}", _NAME_CHARS)
    for part in sight.parts:
        yield ""
        yield one_line(f"── {part.kind}: {part.name} ({part.stability}, ~{part.tokens:,} tokens)", _NAME_CHARS)
        yield _cut(visible(part.text), chars_max)


def _headline(sight: Sight) -> str:
    def of(kind: str) -> Sequence[Seen]:
        return [part for part in sight.parts if part.kind == kind]

    who = f"session {sight.session} ({sight.model})" if sight.session else "a session that begins here"
    size = f"{len(of('tool'))} tools, {len(of('message'))} messages, ~{sight.tokens:,} tokens"
    counted = f"; the endpoint counted {sight.reported_tokens:,} for the last request" if sight.reported_tokens else ""
    what = "; the last turn is unfinished and goes on first" if sight.is_unfinished else ""
    return one_line(f"{who} would send: {size}{counted}{what}", 2 * _NAME_CHARS)


def _cut(text: str, chars_max: int | None) -> str:
    if chars_max is None or len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}\n[… {len(text) - chars_max:,} more characters; --full shows them]"
