"""The commands by name, each imported when it is run.

Floor: 7. Owns: the list of commands and the words for those that do not exist; never: a command.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from plait._version import __version__
from plait.cli.exits import Exit

_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("plait.cli.run_command:run", "Give the agent a task and wait for its answer."),
    "demo": ("plait.cli.demo.command:demo", "Watch the agent mend a sample repository; no key, no network."),
    "doctor": ("plait.cli.doctor_command:doctor", "Check what plait needs on this machine."),
    "probe": ("plait.cli.probe_command:probe", "Find out what an endpoint can do, and write an agent spec."),
    "resume": ("plait.cli.resume_command:resume", "Go on with a session: first with what it left unfinished."),
    "rewind": ("plait.cli.rewind_command:rewind", "Take a session back to an earlier turn, with its files."),
    "clear": ("plait.cli.clear_command:clear", "Empty a session's conversation."),
    "compact": ("plait.cli.compact_command:compact", "Put a summary in the place of a session's old turns."),
    "fork": ("plait.cli.fork_command:fork", "Begin a new session with what another one held."),
    "replay": ("plait.cli.replay_command:replay", "Run a session again from its journal, without a network."),
    "cache": ("plait.cli.cache_command:cache", "Look at what the endpoint's prompt cache did for a session."),
    "context": ("plait.cli.context_command:context", "Show what the model sees, part by part."),
    "sessions": ("plait.cli.sessions_command:sessions", "List, show, search, move, check and delete what was kept."),
    "mcp": ("plait.cli.mcp_command:mcp", "Offer plait's tools to another host, as an MCP server."),
    "hooks": ("plait.cli.hooks_command:hooks", "Look at the hooks that sessions have."),
    "permissions": (
        "plait.cli.permissions_command:permissions",
        "See what the permission rules say, and try other ones on past sessions.",
    ),
    "config": ("plait.cli.config_command:config", "See which settings hold here, and where each was said."),
    "init": ("plait.cli.init_command:init", "Write a first plait.toml."),
    "trust": ("plait.cli.trust_command:trust", "Look at what a repository would run, and trust it."),
    "wire": ("plait.cli.wire_command:wire", "Look at what an endpoint really sent."),
}
"""Name → where the command lives, and its line in the help (so that help imports nothing)."""

_LATER: Final = frozenset(
    "acp completion cron eval improve insights kanban loop memory new plugins repl skill skills tui web".split()
)
"""Commands that are planned and not built: named as such when typed, and listed nowhere."""

_START: Final = """
Start with one of these:
  plait demo                        the agent at work, without a key
  plait run "explain this folder"   a task on your own model
  plait doctor                      what is missing here
"""


class UnknownCommand(click.UsageError):
    """A word that is no command; `hint` says what was probably meant."""

    def __init__(self, name: str, ctx: click.Context) -> None:
        self.hint = _advice(name)
        what = "is not there yet" if name in _LATER else "is not a command"
        super().__init__(f"{name!r} {what}", ctx)


class LazyGroup(click.Group):
    """A group that knows its commands by name only."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or return None for a name that is none."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names; raises `UnknownCommand`."""
        command = self.get_command(ctx, args[0])
        if command is None:
            raise UnknownCommand(args[0], ctx)
        return args[0], command, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


def _advice(name: str) -> str:
    if name in _LATER:
        return f"it comes with a later version; this is plait {__version__}"
    close = difflib.get_close_matches(name, _COMMANDS, 1)
    if close:
        return f"did you mean `plait {close[0]}`?"
    return 'to give the agent a task: plait run "..."; `plait --help` lists the commands'


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="plait %(version)s")
@click.pass_context
def group(ctx: click.Context, /, **_: Any) -> int | None:
    """A coding agent you can read, trust and kill: any chat-completions endpoint, one small loop."""
    if ctx.invoked_subcommand is not None:
        return None
    click.echo(ctx.get_help())
    click.echo(_START.rstrip())
    # A pipe or a job got no work done; a person got an answer.
    return Exit.COMPLETED if sys.stdin.isatty() and sys.stdout.isatty() else Exit.USAGE
