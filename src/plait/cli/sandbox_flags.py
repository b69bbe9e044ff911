"""`--sandbox` and `--sandbox-network`: a fence for one run, on the command line.

Floor: 7. Owns: the two options; never: what they come to (`sandboxing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
_MODES: Final = ("auto", "on", "off")
_MODE_HELP: Final = (
    "auto: commands run unasked in a sandbox, and are asked for where none can be made. on: in a sandbox or not at "
    "all, hooks and servers too. off: without, asked for. (auto)"
)


def sandbox_options(function: F) -> F:
    """Give a command the two options."""
    function = click.option(
        "--sandbox-network",
        metavar="HOST",
        multiple=True,
        callback=_filled,
        help="Let commands in the sandbox reach this host; may be repeated.",
    )(function)
    return click.option("--sandbox", metavar="auto|on|off", type=click.Choice(_MODES), help=_MODE_HELP)(function)


def _filled(_context: click.Context, _param: click.Parameter, value: Sequence[str]) -> Sequence[str]:
    if any(not host.strip() for host in value):
        raise click.BadParameter("it is empty; is the variable set that it comes from?")
    return value
