"""`plait mcp`: plait's tools for other hosts, over the Model Context Protocol.

Floor: 7. Owns: the options and the exit code; never: the server (`serve.mcp_server`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from plait.cli.exits import Exit
from plait.cli.run_command import filled
from plait.cli.signals import Signals
from plait.cli.words import complaint
from plait.core.cancel import Cancel
from plait.core.errors import ConfigError, PlaitError, Refusal


@click.command(short_help="Offer plait's tools to another host, as an MCP server on stdin and stdout.")
@click.option("--workspace", metavar="DIR", default=".", callback=filled, help="The folder that the tools work in.")
@click.option("--tools", metavar="NAME,...", multiple=True, callback=filled, help="Offer these tools; may be repeated.")
@click.option("-y", "--yes", is_flag=True, help="Offer the tools that change files or run commands as well.")
def mcp(workspace: str, tools: Sequence[str], yes: bool) -> int:
    """Offer plait's tools to another host, as an MCP server on standard input and output.

    Without options it offers the tools that only read. Tools that write files or run commands are offered with --yes,
    or when --tools names them: the host is then the one that asks its user. File tools reach nothing outside the
    workspace; a command can.

    It ends when the host closes its input, and with Ctrl-C; what the tools have started ends with it.
    """
    names = [name.strip() for text in tools for name in text.split(",") if name.strip()]
    if sys.stdin is None or sys.stdout is None:
        raise click.UsageError("standard input and output are closed; a host talks over them")
    cancel = Cancel()
    with Signals(cancel) as signals:
        try:
            from plait.serve.mcp_server import serve_tools

            serve_tools(workspace, names, allows_changes=yes, cancel=cancel)
        except (ConfigError, Refusal) as error:
            return _refused(error)
        return signals.exit_code or Exit.COMPLETED


def _refused(error: PlaitError) -> int:
    click.echo(complaint(error.message, error.hint), err=True, nl=False)
    return Exit.USAGE
