"""`plait wire`: what plait makes of a captured answer.

Floor: 7. Owns: options, reading the file, printing one line; never: a decoding rule.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from plait.cli.streams import read_input
from plait.core.strict_json import plain
from plait.wire.decode import decode_body, describe_answer, describe_failure, parse_cut
from plait.wire.errors.classify import classify as classify_error
from plait.wire.profile import ThinkMode, WireName, WireProfile


class Number(click.IntRange):
    """A whole number in a range; what is none is told shortened, however long it is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; anything else is a usage error."""
        text = str(value)
        if len(text) > _NUMBER_CHARS_MAX:
            self.fail(f"{text[: _NUMBER_CHARS_MAX - 1] + '…'!r} has more digits than any such number.", param, ctx)
        return int(super().convert(value, param, ctx))


_NUMBER_CHARS_MAX: Final = 18
TOKENS: Final = Number(0)


@click.group(no_args_is_help=False)
def wire() -> None:
    """Look at what an endpoint sent, without sending anything."""


@wire.command()
@click.argument("file")
@click.option("--wire", "wire_name", type=click.Choice(["chat", "responses", "anthropic"]), required=True)
@click.option("--header", "headers", multiple=True, metavar="'K: V'", help="A header of the answer.")
@click.option("--think", type=click.Choice(["inline", "prefilled", "off"]), default="off", show_default=True)
@click.option("--cut", default="whole", show_default=True, metavar="whole|bytes|random:SEED|N,N,…")
@click.option("--echo", is_flag=True, help="Add what the provider wants back in the next request.")
def decode(file: str, wire_name: WireName, headers: Sequence[str], think: ThinkMode, cut: str, *, echo: bool) -> None:
    """Decode the answer in FILE (- is stdin) and print it as one line of JSON."""
    body = read_input(file)
    try:
        cuts = parse_cut(cut, len(body))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    profile = WireProfile(wire=wire_name, think=think)
    answer = decode_body(body, profile, cuts=cuts, headers=parse_headers(headers))
    tell(describe_answer(answer, with_replay=echo))


@wire.command()
@click.argument("file")
@click.option("--status", type=Number(100, 999), required=True, help="HTTP status of the answer.")
@click.option("--header", "headers", multiple=True, metavar="'K: V'", help="A header of the answer.")
@click.option("--prompt-tokens", type=TOKENS, help="Size of the request in tokens, where it is known.")
@click.option("--window", type=TOKENS, help="Window of the model in tokens, where it is known.")
def classify(file: str, status: int, headers: Sequence[str], prompt_tokens: int | None, window: int | None) -> None:
    """Say what went wrong in the answer in FILE (- is stdin), whether to try again, and what to do."""
    failure = classify_error(
        status,
        parse_headers(headers),
        read_input(file),
        prompt_tokens=prompt_tokens,
        window=window,
        now_s=time.time(),
    )
    tell(describe_failure(failure))


def tell(described: Mapping[str, object]) -> None:
    """Print one line of JSON that every parser takes: a provider's own records may hold NaN, or go thousands deep."""
    click.echo(json.dumps(plain(described), allow_nan=False))


def parse_headers(lines: Sequence[str]) -> Mapping[str, str]:
    """Return headers by name; a line without a colon is a usage error."""
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise click.UsageError(f"{line!r} is no header: write it as 'Name: value'")
        headers[name.strip()] = value.strip()
    return headers
