"""`--allow`, `--ask` and `--deny`: rules for one run, on the command line.

Floor: 7. Owns: the three options; never: what a rule means (`engine.permissions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from plait.core.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])
_HELP: Final = {
    "allow": "Run calls that this rule means without asking, such as 'Bash(git status)'; may be repeated.",
    "ask": "Ask about calls that this rule means; may be repeated.",
    "deny": "Never run calls that this rule means; may be repeated.",
}


def permission_options(function: F) -> F:
    """Give a command the three options."""
    for action, text in reversed(_HELP.items()):
        function = click.option(f"--{action}", metavar="RULE", multiple=True, callback=_rules, help=text)(function)
    return function


def given_rules(allow: Sequence[str], ask: Sequence[str], deny: Sequence[str]) -> Mapping[str, Sequence[str]] | None:
    """Return the rules of a command line as a session takes them; None for none."""
    if not (allow or ask or deny):
        return None
    from plait.session.permitting import SourcedRules  # most runs name none

    return SourcedRules("the command line", allow=allow, ask=ask, deny=deny)


def _rules(_ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> Sequence[str]:
    """Refuse what is no rule, by the option's name."""
    if value:
        from plait.engine.permissions.rule import parse_rule  # most runs name none

        for text in value:
            try:
                parse_rule(text, param.name or "")  # type: ignore[arg-type]
            except ConfigError as error:
                raise click.BadParameter(f"{error.message}; {error.hint}") from error
    return value
