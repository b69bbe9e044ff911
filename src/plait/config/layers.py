"""Settings in layers: each says some, and the higher one has the word.

Floor: 2. Owns: reading one layer, the place of every value, and which of several counts; never: a file's whereabouts,
or whether a repository's counts.

Where a key goes is settled together with the key: a layer that names an endpoint takes the place of all that a lower
one said of endpoints, so that no key is sent to an endpoint that somebody else has named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from plait.config.keys import KEYS, OF_MODELS, OLDER, PREFIX, TABLES, Key, key_of, nearest, read_text
from plait.config.settings import settings_of
from plait.core.errors import ConfigError
from plait.core.values import dataclass

_WHERE: Final = frozenset({"endpoint", "inference_db", "key_env"})
"""Settings that say where a request goes, and with which key: the highest layer with an endpoint says all of them."""
_ADDRESSES: Final = ("provider", "base_url", "endpoint")
_OWN: Final = frozenset({"PLAIT_HOME", "PLAIT_API_KEY", "PLAIT_PROJECT_DIR"})
"""Variables that are no settings."""
_HEADER: Final = re.compile(r"\s*\[\[?\s*(?P<name>[^\]]+?)\s*\]\]?\s*(?:#.*)?")
_SETS: Final = re.compile(r"""\s*(?P<name>[A-Za-z0-9_-]+|"[^"]*"|'[^']*')\s*[.=]""")


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and where it was said."""

    value: Any
    origin: str
    """`FILE:LINE`, or the variable's name."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one place says."""

    settings: Mapping[str, Setting] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Setting]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """What counts of all layers."""

    settings: Mapping[str, Setting]
    models: Mapping[str, Mapping[str, Setting]]

    def get(self, name: str) -> Any:
        """Return a setting's value, None where nobody says."""
        found = self.settings.get(name)
        return None if found is None else found.value


def merged(*layers: Layer) -> Settings:
    """Return what counts; the last layer has the word."""
    settings: dict[str, Setting] = {}
    models: dict[str, dict[str, Setting]] = {}
    for layer in layers:
        _put(settings, layer.settings)
        for name, table in layer.models.items():
            _put(models.setdefault(name, {}), table)
    return Settings(settings, models)


def with_model(found: Settings, model: str | None) -> Settings:
    """Return settings with the table of a model in them, where there is one of that name."""
    table = found.models.get(model or "")
    if table is None:
        return found
    settings = dict(found.settings)
    _put(settings, {"model": Setting(model, _place_of(table)), **table})
    return Settings(settings, found.models)


def _place_of(table: Mapping[str, Setting]) -> str:
    return next((setting.origin for setting in table.values()), "")


def _put(settings: dict[str, Setting], more: Mapping[str, Setting]) -> None:
    if not more.keys().isdisjoint({"endpoint", "inference_db"}):
        for name in _WHERE:
            settings.pop(name, None)
    settings.update(more)


def layer_of_file(data: bytes, source: str) -> Layer:
    """Return what the text of a `plait.toml` says.

    Raises:
        ConfigError: it is no TOML, sets what is no setting, or sets one to what it cannot be; names file and line.
    """
    told = settings_of(data, repr(source))
    lines = lines_of(data, source)
    settings = dict(_read({name: value for name, value in told.items() if not _is_table(name, value)}, lines, ()))
    models = told.get("models", {})
    if not isinstance(models, dict):
        raise ConfigError(f"{lines.at('models')}: 'models' is no table", hint="write [models.NAME]")
    return Layer(settings, {name: dict(_read_model(name, table, lines)) for name, table in models.items()})


def _is_table(name: str, value: object) -> bool:
    return name in TABLES and (isinstance(value, (dict, list)) or name not in KEYS)


def _read_model(name: str, table: object, lines: Lines) -> Iterator[tuple[str, Setting]]:
    if not isinstance(table, dict):
        raise ConfigError(f"{lines.at('models', name)}: {name!r} is no table", hint=f"write [models.{name}]")
    for key in table:
        if key not in OF_MODELS:
            raise ConfigError(
                f"{lines.at('models', name, key)}: {key!r} is no setting of a model", hint=nearest(key, OF_MODELS)
            )
    yield from _read(table, lines, ("models", name))


def _read(told: Mapping[str, object], lines: Lines, path: tuple[str, ...]) -> Iterator[tuple[str, Setting]]:
    # Of a provider's name and an address, the address says where.
    for name in sorted(told, key=lambda name: _ADDRESSES.index(name) if name in _ADDRESSES else -1):
        key, value, place = key_of(name), told[name], lines.at(*path, name)
        if key is None:
            raise ConfigError(f"{place}: {name!r} is no setting", hint=nearest(name))
        _check(key, name, value, place)
        yield key.name, Setting(value, place)


def _check(key: Key, name: str, value: object, place: str) -> None:
    if key.use == "later":
        raise ConfigError(f"{place}: {name!r} is not available yet", hint=f"leave {name} out")
    if wanted := key.wrong(value):
        shown = repr(value) if key.kind != "variable" else "what it may not be"
        raise ConfigError(f"{place}: {name!r} is {shown}", hint=f"it is {wanted}")


def layer_of_environment(environ: Mapping[str, str]) -> Layer:
    """Return what `PLAIT_…` variables say; an empty one says nothing.

    Raises:
        ConfigError: one holds what its setting cannot be; names the variable.
    """
    found: dict[str, Setting] = {}
    for name in (*OLDER, *KEYS):
        key = KEYS[OLDER.get(name, name)]
        variable = PREFIX + name.upper()
        text = environ.get(variable, "")
        if not text.strip():
            continue
        value = read_text(key.kind, text)
        value = "off" if key.name == "awareness" and value == ["off"] else value
        _check(key, name, value, variable)
        found[key.name] = Setting(value, variable)
    return Layer(found)


def strange_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield variables that look like settings and are none, each with what was probably meant."""
    names = {PREFIX + name.upper() for name in (*KEYS, *OLDER)}
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in names | _OWN:
            import difflib  # most environments have none

            near = difflib.get_close_matches(variable, names, n=1, cutoff=0.85)
            if near:
                yield variable, near[0]


def lines_of(data: bytes, source: str) -> Lines:
    """Return the lines of a file that has been understood."""
    return Lines(data.decode("utf-8-sig"), source)


class Lines:
    """Finds the line of a file that sets something: `tomllib` does not say."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._found: dict[tuple[str, ...], int] = {}
        table: tuple[str, ...] = ()
        quotes = ""
        for number, line in enumerate(text.splitlines(), 1):
            if not quotes:
                if (header := _HEADER.fullmatch(line)) is not None:
                    table = tuple(part.strip().strip("\"'") for part in header["name"].split("."))
                    self._found.setdefault(table, number)
                elif (sets := _SETS.match(line)) is not None:
                    self._found.setdefault((*table, sets["name"].strip("\"'")), number)
            # What looks like a setting inside of a text over several lines is none.
            for mark in ('"""', "'''"):
                if quotes in ("", mark) and line.count(mark) % 2:
                    quotes = "" if quotes else mark

    def at(self, *path: str) -> str:
        """Return `FILE:LINE`, or the file alone."""
        paths = [path[:end] for end in range(len(path), 0, -1)]
        line = next((self._found[each] for each in paths if each in self._found), 0)
        return f"{self._source}:{line}" if line else self._source
