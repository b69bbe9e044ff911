"""`plait init`: a first `plait.toml`, empty or out of an agentkernel.toml.

Floor: 7. Owns: the command's options, the text of the file, putting it in place; never: what a setting means.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from plait.cli.escapes import visible
from plait.cli.exits import Exit
from plait.cli.folder import inside
from plait.cli.toml_lines import toml_value
from plait.config.keys import KEYS, OLDER, TABLES, key_of, nearest
from plait.config.layers import layer_of_file, lines_of
from plait.config.places import project_root
from plait.config.settings import BYTES_MAX, CONFIG_FILE, settings_of, user_settings
from plait.core.errors import ConfigError

_OFFERED: Final = (
    *("model", "endpoint", "key_env", "profile", "max_steps", "max_cost_usd", "timeout"),
    *("compaction_trigger_tokens", "max_tool_result_tokens", "awareness"),
)
"""Settings that a new file names, each behind a `#`."""
_EXAMPLES: Final[Mapping[str, Any]] = {
    "model": "qwen3-coder",
    "endpoint": "http://127.0.0.1:8080/v1",
    "key_env": "MY_API_KEY",
    "profile": "coder",
    "max_steps": 200,
    "max_cost_usd": 1.0,
    "timeout": 3600,
    "compaction_trigger_tokens": 100_000,
    "max_tool_result_tokens": 8_000,
    "awareness": ["user", "system", "git", "time", "token", "change"],
}
_HEAD: Final = (
    "# Settings of plait. Options of a command win over PLAIT_… variables, these over a project's file (once it is\n"
    "# trusted: plait trust), that over your own. `plait config show --all` lists every setting.\n"
)
_MODEL: Final = (
    "# A name for a model with all that belongs to it: plait run -m big\n"
    '# [models.big]\n# model = "org/big-1"\n# endpoint = "openrouter"\n# context_window = 200000\n'
)


@click.command(short_help="Write a first plait.toml.")
@click.option("-C", "--cwd", "directory", metavar="DIR", default=".", help="For the project around this folder.")
@click.option("--global", "is_global", is_flag=True, help="Write your own file in place of the project's.")
@click.option("--from", "source", metavar="FILE", help="Take over what this agentkernel.toml says.")
@click.option("--force", is_flag=True, help="Replace a file that is there; it is kept as plait.toml.old.")
def init(directory: str, *, is_global: bool, source: str | None, force: bool) -> int:
    """Write a plait.toml at the root of the project, with the usual settings behind a #.

    With --from, the settings of an agentkernel.toml stand in it under their names here; what plait does not have yet
    stands in it behind a #, and is told.
    """
    given = None if source is None else _translated(Path(os.path.abspath(source)))
    with inside(directory):
        path = user_settings(os.environ) if is_global else project_root(os.getcwd()) / CONFIG_FILE
    lines, left_out = ([], []) if given is None else given
    text = _text(lines)
    layer_of_file(text.encode(), str(path))  # what is written can be read
    _put(path, text, is_replaced=force)
    print(
        visible(f"{path} is written" + ("; a project's file counts once you trust it: plait trust" * (not is_global)))
    )
    for line in left_out:
        print(visible(f"left out: {line}"))
    return Exit.COMPLETED


def _text(lines: list[str]) -> str:
    if lines:
        return "\n".join((_HEAD, *lines, ""))
    offered = [f"# {name} = {toml_value(_EXAMPLES[name])}  # {KEYS[name].words}" for name in _OFFERED]
    return "\n".join((_HEAD, *offered, "", _MODEL))


def _translated(path: Path) -> tuple[list[str], list[str]]:
    """Return the lines of a new file for an agentkernel.toml, and what of it is left out."""
    try:
        data = path.read_bytes()[: BYTES_MAX + 1]
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}", hint="check --from") from error
    told, places = settings_of(data, repr(str(path))), lines_of(data, str(path))
    lines: list[str] = [f"# from {path.name}"]
    left_out: list[str] = []
    tables: list[str] = []
    for name, value in told.items():
        if name in TABLES and not isinstance(value, str):
            tables += _tables(name, value)
            continue
        why = _why_not(name, value)
        if why:
            left_out.append(f"{places.at(name)}: {name} {why}")
            lines.append(f"# {_one_line(name, value)}  # {why}")
            continue
        new = OLDER.get(name, name)
        if new == "endpoint" and name == "provider" and told.get("base_url"):
            lines.append(f"# {_one_line(name, value)}  # base_url says where")
            continue
        lines.append(_one_line(new, value))
    return [*lines, *tables], left_out


def _why_not(name: str, value: object) -> str:
    """Return why a setting of an older file is not taken over; empty where it is."""
    key = key_of(name)
    if key is None:
        near = nearest(name)
        return f"is no setting{f'; {near}' if near.startswith('did') else ''}"
    if key.use == "later":
        return "is not available yet"
    wanted = key.wrong(value)
    return f"is not {wanted}" if wanted else ""


def _one_line(name: str, value: object) -> str:
    return f"{name} = {toml_value(value)}"


def _tables(name: str, value: object) -> Iterator[str]:
    """Yield the lines of tables that stand in both files alike."""
    for table in value if isinstance(value, list) else [value]:
        yield ""
        yield f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
        for key, each in (table if isinstance(table, dict) else {}).items():
            yield _one_line(key, each)


def _put(path: Path, text: str, *, is_replaced: bool) -> None:
    """Write a new file; one that is there stays, or is kept under another name. Raises `ConfigError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        with open(
            os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), "w", encoding="utf-8"
        ) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            if is_replaced and os.path.lexists(path):
                os.replace(path, path.with_name(f"{path.name}.old"))
            os.link(new, path)  # nobody's file is replaced, also not one that came just now
        finally:
            new.unlink()
    except FileExistsError:
        raise ConfigError(f"{str(path)!r} is there already", hint="edit it, or --force replaces it") from None
    except OSError as error:
        raise ConfigError(
            f"cannot write {str(path)!r}: {error.strerror}", hint="choose another folder with -C"
        ) from error
