"""`plait permissions`: what the rules say, what they would have said, what was answered for good, and one more rule.

Floor: 7. Owns: the command's options and its words; never: a rule (`engine.permissions`), or a journal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from plait.cli.escapes import literal, one_line
from plait.cli.exits import Exit
from plait.cli.folder import inside
from plait.config.settings import settings_of, user_settings
from plait.core.errors import ConfigError, JournalError
from plait.core.messages import ToolCall
from plait.store.layout import SessionFolder
from plait.store.sessions import Sessions

if TYPE_CHECKING:
    from plait.engine.permissions.rule import Rule
    from plait.engine.permissions.ruling import Ruling
    from plait.session.past_calls import Flip, Tried

_CHARS: Final = 400
_WORDS: Final = {"allow": "allowed", "ask": "asked about", "deny": "denied", None: "judged without rules"}
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_folder = click.option("-C", "--cwd", "directory", metavar="DIR", help="Of this folder.")


@click.group(no_args_is_help=False)
def permissions() -> None:
    """See what the permission rules say, try other ones on past sessions, and add one."""


@permissions.command("list")
@click.argument("session", required=False)
@_folder
@_as_json
def list_permissions(session: str | None, *, directory: str | None, as_json: bool) -> int:
    """List the rules that hold in this folder; of a SESSION, the calls that were answered for good."""
    if session is not None:
        return _list_answers(session, as_json=as_json)
    with inside(directory or "."):
        rules = _rules_here()
    told = [{"action": rule.action, "rule": rule.text, "source": rule.source} for rule in rules]
    if as_json:
        print(json.dumps({"rules": told}))
    for rule in () if as_json else rules:
        print(one_line(f"{rule.action} {rule.text} ({rule.source})", _CHARS))
    if not rules and not as_json:
        print("there are no rules here", file=sys.stderr)
    return Exit.COMPLETED


@permissions.command()
@click.argument("command", metavar="COMMAND|PATH|URL")
@click.option("--tool", default="exec_shell", show_default=True, help="Ask about a call of this tool.")
@_folder
@_as_json
def check(command: str, *, tool: str, directory: str | None, as_json: bool) -> int:
    """Say what the rules of this folder say of a command, and why; for another tool, of a path or an address."""
    from plait.engine.permissions.ruling import Permissions
    from plait.engine.permissions.subject import subject_of
    from plait.kernel.tools import Tool

    with inside(directory or "."):
        rules = Permissions(tuple(_rules_here()), os.path.realpath("."))
        call = ToolCall.of("check", tool, {"command": command, "path": command, "url": command})
        subject = subject_of(call, Tool(tool, "", lambda: None), rules.root)
        ruling = rules.judge(subject)
    commands, doubts = _read(subject.command)
    if as_json:
        rule = None if ruling.rule is None else f"{ruling.rule.action} {ruling.rule.text}"
        told = {"action": ruling.action, "rule": rule, "why": ruling.why, "commands": commands, "doubts": doubts}
        print(json.dumps(told))
        return Exit.COMPLETED
    print(_said(ruling))
    for each in commands:
        print(f"  = {' '.join(literal(' '.join(f'[{word}]' for word in each)))}")
    for doubt in doubts:
        print(f"  ! {one_line(doubt, _CHARS)}")
    return Exit.COMPLETED


@permissions.command("try")
@click.argument("rules", metavar="RULES", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--sessions", "names", metavar="ID", multiple=True, help="Look at this session; may be repeated.")
@click.option("--all", "everywhere", is_flag=True, help="Look at the sessions of every project, not only this one's.")
@_as_json
def try_on_past(rules: Path, *, names: Sequence[str], everywhere: bool, as_json: bool) -> int:
    """Show which past calls the RULES would have treated otherwise: a TOML or JSON file with a permissions table.

    Only journals are read. Exit code 0, whatever is found; 1 where a journal cannot be read.
    """
    from plait.session.past_calls import try_rules

    if names and everywhere:
        raise click.UsageError("--sessions and --all exclude each other")
    wanted, tried, unread = _rules_in(rules), list[tuple[str, "Tried"]](), list[tuple[str, str]]()
    for place in _places(names, everywhere=everywhere):
        try:
            tried.append((place.path.name, try_rules(place, wanted)))
        except JournalError as error:
            unread.append((place.path.name, error.message))
    flips = [flip for _, each in tried for flip in each.flips]
    calls = sum(each.calls for _, each in tried)
    if as_json:
        told = {"sessions": len(tried), "calls": calls, "flips": [flip.to_dict() for flip in flips]}
        print(json.dumps({**told, "unread": [{"session": name, "why": why} for name, why in unread]}))
    else:
        for flip in flips:
            print(_flip_line(flip))
        print(f"{len(flips)} of {calls} calls in {len(tried)} sessions would be treated otherwise")
    for name, why in unread:
        print(f"plait: {one_line(f'{name} was not read: {why}', _CHARS)}", file=sys.stderr)
    return Exit.FAILED if unread else Exit.COMPLETED


@permissions.command()
@click.argument("rule")
@click.option("--allow", is_flag=True, help="Run such calls without asking.")
@click.option("--ask", is_flag=True, help="Ask about such calls.")
@click.option("--deny", is_flag=True, help="Never run such calls.")
@_as_json
def add(rule: str, *, as_json: bool, **actions: bool) -> int:
    """Write a RULE, such as "Bash(git status)", into your own plait.toml; what stands there stays as it is."""
    from plait.config.rule_lines import add_rule
    from plait.engine.permissions.rule import parse_rule

    said = [name for name, is_said in actions.items() if is_said]
    if len(said) != 1:
        raise click.UsageError("say what the rule is to do: one of --allow, --ask and --deny")
    action = said[0]
    parsed = parse_rule(rule, action, f"--{action}")  # type: ignore[arg-type]
    path = user_settings(os.environ)
    _rules_in(path, may_miss=True)
    is_new = add_rule(path, action, parsed.text)
    if as_json:
        print(json.dumps({"file": str(path), "action": action, "rule": parsed.text, "added": is_new}))
    else:
        what = "added to" if is_new else "stands already in"
        print(one_line(f"{action} {parsed.text} {what} {path}", _CHARS))
    return Exit.COMPLETED


def _rules_here() -> Sequence[Rule]:
    from plait.session.permitting import permissions_of

    found = permissions_of({}, {}, os.getcwd())
    return () if found is None else found.rules


def _rules_in(path: Path, *, may_miss: bool = False) -> Sequence[Rule]:
    """Read the permissions of a file: its table of that name, or its own lists."""
    from plait.engine.permissions.rule import rules_of

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if may_miss:
            return ()
        raise ConfigError(f"there is no file {str(path)!r}", hint="name a TOML or JSON file with rules") from None
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}", hint="name a file with rules") from error
    told = _json_of(data, path) if path.suffix == ".json" else settings_of(data, repr(str(path)))
    table = told.get("permissions", {} if may_miss else told) if isinstance(told, dict) else told
    return rules_of(table, str(path))


def _json_of(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{str(path)!r} is no JSON: {error}", hint="mend it") from error


def _places(names: Sequence[str], *, everywhere: bool) -> list[SessionFolder]:
    own = Sessions.of(os.environ)
    if names:
        return [own.find(name) for name in names]
    return [SessionFolder(own.folder / each.id) for each in own.listed(None if everywhere else os.getcwd())]


def _list_answers(session: str, *, as_json: bool) -> int:
    from plait.session.kept.remembering import answers_in
    from plait.store.opening import load_journal

    place = Sessions.of(os.environ).find(session)
    journal = load_journal(place.journal)
    answers = answers_in(journal.facts, journal.conversation)
    if as_json:
        print(json.dumps({"session": place.path.name, "answers": [answer.to_dict() for answer in answers]}))
        return Exit.COMPLETED
    for answer in answers:
        print(f"{' '.join(literal(answer.tool))} {' '.join(literal(answer.arguments))}")
        for path in answer.leads_to:
            print(f"  > {' '.join(literal(path))}")
    if not answers:
        print("nothing was answered for good in this session", file=sys.stderr)
    return Exit.COMPLETED


def _read(command: str | None) -> tuple[list[list[str]], list[str]]:
    if command is None:
        return [], []
    from plait.hands.command_lines.command_line import read_command_line

    line = read_command_line(command)
    return [list(each.words) for each in line.all], list(line.doubts)


def _said(ruling: Ruling) -> str:
    why = f": {ruling.why}" if ruling.why else ""
    return one_line(f"{_WORDS[ruling.action]}{why}", _CHARS)


def _flip_line(flip: Flip) -> str:
    arguments = flip.past.call.to_dict()["arguments"]
    about = arguments.get("command", arguments) if isinstance(arguments, dict) else arguments
    text = about if isinstance(about, str) else json.dumps(about)
    past = f"{flip.session} {flip.past.call.name}: {text}"
    would = {"run": "would run", "asked": "would be asked about", "denied": "would be denied"}[flip.would]
    return f"{one_line(past, 200)}\n  {flip.past.became}, {would}: {one_line(flip.why, _CHARS)}"
