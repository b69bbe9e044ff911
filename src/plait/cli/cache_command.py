"""`plait cache`: what a session's requests found in the endpoint's prompt cache.

Floor: 7. Owns: the command's options and its table; never: a judgement (`engine.cache.ledger`), or a price.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from plait.cli.escapes import one_line
from plait.cli.exits import Exit
from plait.core.usage import Usage
from plait.engine.cache.ledger import CacheLedger, CacheRequest
from plait.events.reducer import iso
from plait.models.prices import PriceTable, known_prices, with_cost
from plait.store.opening import load_journal
from plait.store.sessions import Sessions

_PLACE_CHARS: Final = 34
_UNKNOWN: Final = "?"


@click.group(no_args_is_help=False)
def cache() -> None:
    """Look at what the endpoint's prompt cache did for a session."""


@cache.command()
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(session: str, *, as_json: bool) -> int:
    """Show each request of SESSION, what the cache held of it, and whose fault a miss was.

    SESSION is a name, the beginning of one, a folder, or a journal.
    """
    journal = load_journal(_journal_of(session))
    prices = known_prices()
    found = CacheLedger().take_all(journal.facts, journal.told.times_ms)
    requests = [(request, priced(request, prices)) for request in found]
    if as_json:
        told = [to_dict(request, usage) for request, usage in requests]
        total = _total([usage for _, usage in requests])
        print(json.dumps({"session": journal.conversation, "requests": told, "total": total}))
        return Exit.COMPLETED
    if not requests:
        print(f"no request of {journal.conversation} was answered", file=sys.stderr)
        return Exit.COMPLETED
    for line in table(requests):
        print(line)
    return Exit.COMPLETED


def priced(request: CacheRequest, prices: PriceTable) -> Usage:
    """Return what a request used, with its cost where it was reported, or where the model's price is known."""
    provider, _, model = request.origin.partition(":")
    return with_cost(request.usage, prices.price_of(provider, model))


def to_dict(request: CacheRequest, usage: Usage) -> dict[str, object]:
    """Return a request as `--json` prints it: numbers that nobody reported are null, money is text."""
    departure = request.departure
    return {
        "number": request.number,
        "at": iso(request.at_ms),
        "purpose": request.purpose,
        "model": request.origin or None,
        "input": usage.input,
        "cached": usage.cache_read,
        "written": usage.cache_write,
        "output": usage.output,
        "expected": request.expected,
        "extends": request.extends,
        "part": None if departure is None else departure.part,
        "index": None if departure is None else departure.index,
        "why": None if departure is None else departure.why,
        "verdict": request.blame,
        "cost": None if usage.cost is None else f"{usage.cost:f}",
        "currency": None if usage.cost is None else usage.currency,
        "cost_is": usage.amount("cost").provenance,
    }


def table(requests: Sequence[tuple[CacheRequest, Usage]]) -> list[str]:
    """Return the requests as lines with columns, a line for each change of model, and a sum."""
    lines = [_row("#", "when (UTC)", "input", "cached", "written", "request", "verdict", "cost")]
    origin = ""
    for request, usage in requests:
        if request.origin != origin:
            origin = request.origin
            lines.append(f"    {one_line(origin, 100)}")
        lines.append(
            _row(
                str(request.number),
                f"{datetime.fromtimestamp(request.at_ms / 1_000, UTC):%Y-%m-%d %H:%M:%S}",
                _count(usage.input),
                _count(usage.cache_read),
                _count(usage.cache_write),
                one_line(_place(request), _PLACE_CHARS),
                request.blame.replace("_", " "),
                _money(usage),
            )
        )
    return [*lines, _sum_line([usage for _, usage in requests])]


def _journal_of(text: str) -> Path:
    path = Path(text)
    return path if path.is_file() else Sessions.of(os.environ).find(text).journal


def _place(request: CacheRequest) -> str:
    """Say where a request went on from."""
    words = "" if request.purpose == "step" else f"{request.purpose}: "
    if request.blame == "first":
        return f"{words}begins"
    if request.blame == "unanswered":
        return request.purpose
    departure = request.departure
    return f"{words}extends" if departure is None else f"{words}{departure.place} ({departure.why})"


def _row(*cells: str) -> str:
    number, when, read, cached, written, place, verdict, cost = cells
    return f"{number:>3} {when:<19} {read:>9} {cached:>9} {written:>9}  {place:<34} {verdict:<13} {cost}".rstrip()


def _count(tokens: int | None) -> str:
    return _UNKNOWN if tokens is None else f"{tokens:,}"


def _money(usage: Usage) -> str:
    if usage.cost is None:
        return _UNKNOWN
    about = "~" if "cost" in usage.estimated else ""
    return f"{about}{usage.cost.normalize():f} {usage.currency}"


def _total(usages: Sequence[Usage]) -> dict[str, object]:
    whole = sum(usages, Usage.ZERO)
    return {
        "requests": len(usages),
        "input": whole.input,
        "cached": whole.cache_read,
        "written": whole.cache_write,
        "cost": None if whole.cost is None else f"{whole.cost:f}",
        "currency": None if whole.cost is None else whole.currency,
        "unpriced": sum(usage.cost is None for usage in usages),
    }


def _sum_line(usages: Sequence[Usage]) -> str:
    whole = sum(usages, Usage.ZERO)
    read = f"{whole.input_tokens:,} tokens in"
    if whole.cache_read and whole.input:
        read += f" ({100 * whole.cache_read / whole.input:.0f} % from the cache)"
    priced = [usage for usage in usages if usage.cost is not None]
    known = sum(priced, Usage.ZERO)
    unpriced = len(usages) - len(priced)
    cost = f"{_money(known)}" if priced else "price unknown"
    if priced and unpriced:
        cost += f" and {unpriced} of unknown price"
    count = "1 request" if len(usages) == 1 else f"{len(usages)} requests"
    return f"{count}, {read}, {cost}"
