"""The page about the command line names every command and option, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from plait.cli.exits import Exit
from plait.cli.group import group
from tests.docs.examples import REPOSITORY

PAGE = (REPOSITORY / "docs/cli.md").read_text(encoding="utf-8")
COMMON = {"--help", "-h", "--version", "-V"}


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that can be run, with the words that run it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, f"{path} {name}")


COMMANDS = dict(commands(group, "plait"))


def options_of(command: click.Command) -> set[str]:
    """Return the options of a command as they are typed."""
    options = [option for option in command.params if isinstance(option, click.Option)]
    return {name for option in options for name in (*option.opts, *option.secondary_opts)}


def part_about(path: str) -> str:
    """Return the part of the page about one command: a section, or what follows the command's own paragraph in it."""
    words = path.split()
    section = next(part for part in PAGE.split("\n## ") if part.startswith(f"`{' '.join(words[:2])}`"))
    if len(words) > 2:
        section = section[section.index(f"`{path} ") + 1 :].split("\n`plait ")[0]
    return section


def test_every_command_is_on_the_page() -> None:
    """What can be run is described."""
    assert [] == [path for path in COMMANDS if f"`{path}" not in PAGE]


def test_every_option_is_on_the_page_and_no_other() -> None:
    """Each command's tables name its options, and nothing that it does not take."""
    for path, command in COMMANDS.items():
        rows = re.findall(r"^\| (`-.*?) \|", part_about(path), re.MULTILINE)
        named = set(re.findall(r"`(--?[a-zA-Z-]+)", " ".join(rows)))

        assert (path, options_of(command)) == (path, named)


def test_the_options_of_plait_itself_are_on_the_page() -> None:
    """Version and help are said once, for all."""
    assert [] == [option for option in COMMON if f"`{option}`" not in PAGE]


def test_every_exit_code_is_on_the_page() -> None:
    """The table of exit codes is the one of the program."""
    table = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}

    assert {*Exit, 143, 129} == table
