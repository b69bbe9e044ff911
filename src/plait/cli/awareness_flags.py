"""`--bare` and `--no-…-awareness`: what the model of one run is not told, on the command line.

Floor: 7. Owns: the options; never: a sense (`plait.context`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypedDict, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
_HELP: Final = {
    "user": "Do not tell the model who you are, nor what your own instructions files say.",
    "system": "Do not tell it about this machine, the folder and the date.",
    "git": "Do not tell it about the git repository.",
    "time": "Do not tell it how much time passes.",
    "token": "Do not tell it how many tokens are used.",
    "change": "Do not tell it what others change meanwhile.",
}
_WITHOUT: Final = "without"


class SenseOptions(TypedDict, total=False):
    """Keywords of a session that these options come to."""

    bare: bool
    user_awareness_enabled: bool | None
    system_awareness_enabled: bool | None
    git_awareness_enabled: bool | None
    time_awareness_enabled: bool | None
    token_awareness_enabled: bool | None
    change_awareness_enabled: bool | None


def awareness_options(function: F) -> F:
    """Give a command the seven options."""
    for sense, text in reversed(_HELP.items()):
        function = click.option(
            f"--no-{sense}-awareness", is_flag=True, expose_value=False, callback=_leaves_out, help=text
        )(function)
    help_text = "Tell it the task alone: no prompt of plait's, no instructions files, none of these senses."
    return click.option("--bare", is_flag=True, help=help_text)(function)


def senses_given(bare: bool, without: Sequence[str]) -> SenseOptions:
    """Return what a command line says of the senses, as a session takes it."""

    def said(sense: str) -> bool | None:
        return False if sense in without else None

    return SenseOptions(
        bare=bare,
        user_awareness_enabled=said("user"),
        system_awareness_enabled=said("system"),
        git_awareness_enabled=said("git"),
        time_awareness_enabled=said("time"),
        token_awareness_enabled=said("token"),
        change_awareness_enabled=said("change"),
    )


def _leaves_out(context: click.Context, param: click.Parameter, value: bool) -> bool:
    sense = (param.name or "").removeprefix("no_").removesuffix("_awareness")
    if value:
        context.params[_WITHOUT] = (*context.params.get(_WITHOUT, ()), sense)
    return value
