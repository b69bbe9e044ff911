"""Runs one command and turns whatever comes out of it into a sentence and an exit code.

Floor: 7. Owns: the last boundary before the shell; never: a command's own work.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from plait.cli import streams
from plait.cli.exits import Exit, exit_of_error
from plait.cli.words import complaint
from plait.core.errors import PlaitError


def run_command_line(arguments: Sequence[str]) -> int:
    """Run `arguments` as the user typed them after `plait`; return the exit code, never raise for a mistake."""
    streams.prepare()
    wants_json = "--json" in arguments or "--stream-json" in arguments
    try:
        return streams.finish(_run(arguments, wants_json))
    except KeyboardInterrupt:
        return streams.finish(Exit.INTERRUPTED)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(complaint(f"cannot go on: {error.strerror or error}", ""))
        return streams.finish(Exit.FAILED)


def _run(arguments: Sequence[str], wants_json: bool) -> int:
    from plait.cli.group import group

    try:
        code = group.main(args=[*arguments], prog_name="plait", standalone_mode=False)
    except click.ClickException as error:
        return _refuse(error, wants_json)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort:
        return Exit.INTERRUPTED
    except PlaitError as error:
        return report_error(error, wants_json)
    return int(code or 0)


def report_error(error: PlaitError, wants_json: bool) -> int:
    """Tell of an error that ended a command before it had a result; return the exit code."""
    code = exit_of_error(error)
    if wants_json:
        from plait.cli.outcome import failed

        print(json.dumps(failed(error)))
    sys.stderr.write(complaint(error.message, error.hint))
    return code


def _refuse(error: click.ClickException, wants_json: bool) -> int:
    """Tell of a command line that cannot be carried out: a wrong option, a file that is not there."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "plait"
    hint = getattr(error, "hint", "") or f"`{command} --help` lists what it takes"
    sentence = " ".join(error.format_message().split()).rstrip(".")
    if wants_json:
        from plait.cli.outcome import failed_usage

        print(json.dumps(failed_usage(sentence, hint)))
    sys.stderr.write(complaint(sentence, hint))
    return Exit.USAGE
