"""`plait doctor`: what plait needs of this machine, one line a check.

Floor: 7. Owns: the command's options and its two ways of answering; never: a check.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Final

import click

from plait._version import __version__
from plait.cli.checks import Check, machine_checks
from plait.cli.escapes import visible
from plait.cli.exits import Exit

_MARKS: Final[Mapping[str, str]] = {"ok": "[ OK ]", "warn": "[WARN]", "fail": "[FAIL]"}


@click.command(short_help="Check what plait needs on this machine.")
@click.argument("what", type=click.Choice(["sandbox"]), required=False)
@click.option("--endpoint", metavar="URL", help="Also ask this endpoint (a URL, or a provider's name) for its models.")
@click.option("-m", "--model", metavar="NAME", help="A model that the endpoint should know.")
@click.option("--key-env", metavar="NAME", help="Environment variable that holds the endpoint's key.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(what: str | None, endpoint: str | None, model: str | None, key_env: str | None, as_json: bool) -> int:
    """Check Python, packages, helpers, the terminal, the state folder and which keys are set.

    `plait doctor sandbox` has a fenced process try to break out instead, and shows which promises of the sandbox hold
    on this machine; exit code 1 where there is no fence or one of its promises was broken.

    Names of key variables are shown, never their values. Without --endpoint nothing goes over the network.
    Exit code 1 when a check fails; a warning is none.
    """
    if what is not None:
        from plait.cli.sandbox_check import check_sandbox

        return check_sandbox(as_json=as_json)
    found: list[Check] = []
    for check in machine_checks(os.environ):
        found.append(check)
        if not as_json:
            _show(check)
    if endpoint:
        from plait.cli.endpoint_check import endpoint_check

        found.append(endpoint_check(endpoint, model, key_env, os.environ))
        if not as_json:
            _show(found[-1])
    return _finish(found, as_json)


def _show(check: Check) -> None:
    print(f"{_MARKS[check.status]} {check.name}: {visible(check.detail)}", flush=True)
    if check.status != "ok" and check.advice:
        print(f"       {visible(check.advice)}")


def _finish(found: list[Check], as_json: bool) -> int:
    counts = {status: sum(check.status == status for check in found) for status in _MARKS}
    if as_json:
        document = {
            "ok": not counts["fail"],
            "version": __version__,
            "python": sys.version.split()[0],
            "checks": [check.to_dict() for check in found],
        }
        print(json.dumps(document))
    else:
        print(f"{counts['ok']} fine, {counts['warn']} to know, {counts['fail']} to fix")
    return Exit.FAILED if counts["fail"] else Exit.COMPLETED
