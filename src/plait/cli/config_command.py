"""`plait config show`: the settings that hold here, and where each was said.

Floor: 7. Owns: the command's options and its lines; never: which of several values counts (`config.layers`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, Final

import click

from plait.cli.configured import senses_of
from plait.cli.escapes import visible
from plait.cli.exits import Exit
from plait.cli.folder import inside
from plait.cli.toml_lines import toml_value
from plait.config.keys import KEYS
from plait.config.layers import Setting, strange_variables
from plait.core.redact import redact_secrets
from plait.engine.configuration import Configuration, configuration

_DEFAULT: Final = "default"


@click.group(short_help="See which settings hold here, and where each was said.")
def config() -> None:
    """See which settings hold in a folder.

    They come from your own plait.toml, a trusted project's, and PLAIT_… variables; the later has the word.
    """


@config.command(short_help="Show the settings that hold here.")
@click.option("-C", "--cwd", "directory", metavar="DIR", default=".", help="Of this folder.")
@click.option("--config", "file", metavar="FILE", help="Read this file in place of yours and the project's.")
@click.option("--origin", is_flag=True, help="Say of each where it was said, and which files were looked at.")
@click.option("--all", "shows_all", is_flag=True, help="Show every setting, with what holds where nobody says.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(directory: str, *, file: str | None, origin: bool, shows_all: bool, as_json: bool) -> int:
    """Show the settings that hold in this folder, as they would stand in a plait.toml.

    Exit code 2: a file or variable says what means nothing; the message names file and line.
    """
    with inside(directory):
        found = configuration(".", os.environ, file=file)
    if (awareness := found.found.settings.get("awareness")) is not None:
        senses_of(awareness)
    if as_json:
        print(json.dumps(_told(found, shows_all)))
        return Exit.COMPLETED
    for line in (*(_heads(found) if origin else ()), *_lines(found, origin, shows_all)):
        print(visible(line))
    for notice in _notices(found):
        click.echo(visible(f"plait: {notice}"), err=True)
    return Exit.COMPLETED


def _notices(found: Configuration) -> list[str]:
    strange = [f"{name} is no setting; did you mean {meant}?" for name, meant in strange_variables(os.environ)]
    return [*([found.notice] if found.notice else []), *strange]


def _heads(found: Configuration) -> Iterator[str]:
    for source in found.sources:
        yield f"# {source.path}: {source.state}"


def _lines(found: Configuration, with_origin: bool, shows_all: bool) -> Iterator[str]:
    settings = found.found.settings
    tables = [source for source in found.sources if source.tables]
    for source in tables:
        yield f"# {source.path} also has {', '.join(f'[{name}]' for name in source.tables)}, which is not shown here"
    if not settings and not found.found.models and not tables and not shows_all:
        yield "# nothing is set; `plait config show --all` shows what can be"
    for name, key in KEYS.items():
        if name in settings:
            line = _line(name, settings[name], with_origin)
            yield line if key.use != "runtime" else f"{line}{'' if with_origin else '  #'} (only for build_runtime)"
        elif shows_all and key.use != "later":
            words = f"{key.words} ({', '.join(key.choices)})" if key.choices else key.words
            what = f"{words}; {key.default}" if key.default else words
            yield f"# {name}: {what}{' (only for build_runtime)' if key.use == 'runtime' else ''}"
    for model, table in found.found.models.items():
        yield ""
        yield f"[models.{toml_value(model) if not model.isidentifier() else model}]"
        for name, setting in table.items():
            yield _line(name, setting, with_origin)


def _line(name: str, setting: Setting, with_origin: bool) -> str:
    text = f"{name} = {toml_value(_shown(setting.value))}"
    return f"{text:<40}  # {setting.origin}" if with_origin else text


def _shown(value: Any) -> Any:
    """Return a value without what looks like a key: some are written where none belongs."""
    return redact_secrets(value)[0] if isinstance(value, str) else value


def _told(found: Configuration, shows_all: bool) -> dict[str, Any]:
    def of(setting: Setting) -> dict[str, Any]:
        return {"value": _shown(setting.value), "origin": setting.origin}

    settings = {name: of(setting) for name, setting in found.found.settings.items()}
    if shows_all:
        unset = {
            name: {"value": None, "origin": _DEFAULT, "default": key.default or None} for name, key in KEYS.items()
        }
        settings = {**{name: told for name, told in unset.items() if KEYS[name].use != "later"}, **settings}
    return {
        "root": str(found.root),
        "files": [
            {"path": str(source.path), "state": source.state, "tables": list(source.tables)} for source in found.sources
        ],
        "settings": settings,
        "models": {name: {key: of(each) for key, each in table.items()} for name, table in found.found.models.items()},
        "notices": _notices(found),
    }
