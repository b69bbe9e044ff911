"""`plait probe`: what an endpoint can do, as a report and as an agent spec.

Floor: 7. Owns: the options and the words; never: a question (`models.probes`), a field of the spec (`engine`).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final, TextIO

import click

from plait._version import __version__
from plait.cli.escapes import visible
from plait.cli.exits import Exit
from plait.cli.outcome import Outcome
from plait.cli.run_command import filled, finite
from plait.cli.signals import Signals
from plait.core.cancel import Cancel
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.engine.probed_spec import check_place, spec_path, specification_of, write_spec
from plait.kernel.effects import Interrupted
from plait.models.credentials import credentials_for
from plait.models.endpoint import endpoint_of
from plait.models.prices import bundled_prices, with_cost
from plait.models.probes import probing
from plait.models.probes.asking import OUTPUT_TOKENS, AskingOptions
from plait.models.probes.findings import MEANINGS, Dossier, Finding
from plait.wire.profile import WireName

DEFAULT_RETRIES: Final = 2
DEFAULT_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What was asked for on the command line."""

    endpoint: str
    model: str
    wire: WireName | None
    key_env: str | None
    output: Path | None
    force: bool
    timeout_s: float
    retries: int


@click.command(short_help="Find out what an endpoint can do, and write an agent spec.")
@click.argument("endpoint", callback=filled)
@click.option("-m", "--model", metavar="NAME", required=True, callback=filled, help="The model to ask.")
@click.option(
    "--wire",
    type=click.Choice(["chat", "responses", "anthropic"]),
    help="Ask on this wire only; otherwise the likely one is tried first.",
)
@click.option("--key-env", metavar="NAME", callback=filled, help="Environment variable that holds the key.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where the spec goes; agent_spec_MODEL.json without it.",
)
@click.option("--force", is_flag=True, help="Replace a spec that is there.")
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    callback=finite,
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    help="Wait so long for one answer.",
)
@click.option(
    "--retries",
    metavar="N",
    type=click.IntRange(min=0),
    default=DEFAULT_RETRIES,
    show_default=True,
    help="Ask so many times again when the endpoint fails in passing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def probe(as_json: bool, **chosen: Any) -> int:
    """Ask ENDPOINT a few small questions and write down what it can do.

    ENDPOINT is a base URL such as http://127.0.0.1:8080/v1, or a provider's name such as openrouter. The requests cost
    what a few short answers cost: how much is said before and after. The spec is used by `plait run --spec FILE`.
    """
    order = _Order(**chosen)
    path = order.output or spec_path(order.model)
    check_place(path, overwrite=order.force)
    _tell_plan(order)
    cancel = Cancel()
    with Signals(cancel) as signals:
        try:
            dossier = _probe(order, cancel, sys.stderr if as_json else sys.stdout)
        except Interrupted:
            outcome = Outcome("interrupted", signal_exit=signals.exit_code)
            if as_json:
                print(json.dumps(outcome.to_dict()))
            print("plait: interrupted, nothing was written", file=sys.stderr)
            return outcome.exit_code
    comment = f"probed by plait {__version__} on {time.strftime('%Y-%m-%d')}, {dossier.requests} requests"
    write_spec(specification_of(dossier, key_env=order.key_env, comment=comment), path, overwrite=order.force)
    _report(dossier, path, as_json=as_json)
    return Exit.COMPLETED


def _probe(order: _Order, cancel: Cancel, findings_to: TextIO) -> Dossier:
    at = endpoint_of(order.endpoint)
    options = probing.ProbeOptions(
        wire=order.wire, asking=AskingOptions(timeout_s=order.timeout_s, attempts_max=order.retries + 1)
    )
    credentials = credentials_for(at, key_env=order.key_env, environ=os.environ)
    return probing.probe(
        at,
        order.model,
        credentials,
        options,
        on_finding=lambda finding: _tell(finding, findings_to),
        cancel=cancel,
    )


def _tell_plan(order: _Order) -> None:
    """Say what it will cost, before it costs anything."""
    what = f"plait: asking {visible(order.model)} at {visible(order.endpoint)}"
    requests = f"usually {probing.QUESTIONS_USUAL} requests (at most {probing.QUESTIONS_MAX}, and retries)"
    tokens = f"about {probing.INPUT_TOKENS_ABOUT:,} tokens in, at most {OUTPUT_TOKENS} out for each"
    print(f"{what}: {requests}, {tokens}", file=sys.stderr, flush=True)


def _tell(finding: Finding, stream: TextIO) -> None:
    line = f"{finding.verdict:<7}  {MEANINGS[finding.capability]}: {visible(finding.evidence)}"
    print(line, file=stream, flush=True)


def _report(dossier: Dossier, path: Path, *, as_json: bool) -> None:
    usage = with_cost(dossier.usage, bundled_prices().price_of(dossier.profile.name, dossier.model))
    print(f"plait: {_spent(dossier.requests, usage)}", file=sys.stderr)
    if as_json:
        print(json.dumps(_document(dossier, usage, path)))
        return
    window = "not stated" if dossier.context_window is None else f"{dossier.context_window:,} tokens"
    print(f"wire {dossier.wire}, window {window}, written to {visible(str(path))}")
    print(f'use it: plait run --spec {visible(str(path))} "..."', file=sys.stderr)


def _document(dossier: Dossier, usage: Usage, path: Path) -> dict[str, object]:
    return {
        "status": "completed",
        "error": None,
        "endpoint": dossier.endpoint,
        "model": dossier.model,
        "wire": dossier.wire,
        "context_window": dossier.context_window,
        "findings": [finding.to_dict() for finding in dossier.findings],
        "requests": dossier.requests,
        "usage": {"input": usage.input, "output": usage.output, "cached": usage.cache_read},
        "cost": None if usage.cost is None else float(usage.cost),
        "spec": str(path),
    }


def _spent(requests: int, usage: Usage) -> str:
    """Return what the probe came to."""
    made = f"{requests} requests"
    if usage.input is None and usage.output is None:
        return f"{made}, tokens not reported"
    cost = "" if usage.cost is None else f", {usage.cost.normalize():f} {usage.currency}"
    return f"{made}, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"
