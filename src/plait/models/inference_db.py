"""A user's own list of endpoints, shared with other programs: `~/.config/inference-db/endpoints.toml`.

Floor: 2. Owns: reading an entry of it; never: writing it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from plait.core.errors import AgentSpecInvalidError
from plait.core.values import dataclass
from plait.models.credentials import Credentials, FromEnv, KeySource
from plait.models.key_sources import FromCommand, FromFile, FromKeyring, NoKey

PATH_VARIABLE: Final = "INFERENCE_DB"
DEFAULT_PATH: Final = "~/.config/inference-db/endpoints.toml"
TOOL_LOADINGS: Final = ("none", "system-message-tools", "defer-loading-tool-reference")
_AUTH_HEADERS: Final[Mapping[str, str]] = {
    "bearer": "Authorization",
    "x-api-key": "x-api-key",
    "api-key": "api-key",
    "none": "Authorization",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One endpoint of the list."""

    id: str
    url: str
    """Base URL; `{model}` in it stands for the model's name."""
    auth_header: str = "Authorization"
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, object] = field(default_factory=dict)
    model_params: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    tool_loading: str = "none"
    model_tool_loading: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[KeySource, ...] = ()
    """Where its key may be, in order; sources of a kind nobody should read are left out."""

    def url_for(self, model: str) -> str:
        """Return the base URL for a model, with the query."""
        url = self.url.replace("{model}", model).rstrip("/")
        if not self.query:
            return url
        return f"{url}{'&' if '?' in url else '?'}{urlencode(self.query)}"

    def params_for(self, model: str) -> dict[str, object]:
        """Return the body members that every request for a model has; the model's own win."""
        return {**self.params, **self.model_params.get(model, {})}

    def tool_loading_for(self, model: str) -> str:
        """Return how tools that are not shown at once are loaded."""
        return self.model_tool_loading.get(model, self.tool_loading)

    def credentials(self, host: str) -> Credentials:
        """Return where the key for the endpoint is looked for; none is missed where the list says that it has none."""
        is_needed = not any(isinstance(source, NoKey) for source in self.keys)
        return Credentials(self.keys, is_needed=is_needed, host=host, is_named=is_needed)


def database_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return where the list is."""
    environ = os.environ if environ is None else environ
    return Path(environ.get(PATH_VARIABLE) or DEFAULT_PATH).expanduser()


def load_entry(id: str, path: Path | None = None) -> Entry:
    """Read one entry.

    Raises:
        AgentSpecInvalidError: there is no such file or entry, or a field of it has the wrong type.
    """
    path = path or database_path()
    endpoints = _endpoints(path)
    table = endpoints.get(id)
    if not isinstance(table, dict):
        known = ", ".join(sorted(endpoints)) or "none"
        raise AgentSpecInvalidError(f"{path} has no endpoint called {id!r}", hint=f"it has: {known}")
    url = table.get("url")
    if not isinstance(url, str) or not url:
        raise _wrong(path, id, "url", "an address")
    auth = table.get("auth", "bearer")
    if auth not in _AUTH_HEADERS:
        raise _wrong(path, id, "auth", f"one of {', '.join(_AUTH_HEADERS)}")
    texts = {name: _texts(path, id, name, table.get(name)) for name in ("headers", "query", "model_tool_loading")}
    params = _table(path, id, "params", table.get("params"))
    by_model = _table(path, id, "model_params", table.get("model_params"))
    return Entry(
        id,
        url,
        _AUTH_HEADERS[auth],
        texts["headers"],
        texts["query"],
        params,
        {name: _table(path, id, f"model_params.{name}", value) for name, value in by_model.items()},
        _loading(path, id, table.get("tool_loading", "none")),
        texts["model_tool_loading"],
        _sources(table.get("key")),
    )


def _endpoints(path: Path) -> dict[str, object]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AgentSpecInvalidError(
            f"there is no list of endpoints at {path}", hint=f"make it, or name another with {PATH_VARIABLE}"
        ) from None
    except (OSError, ValueError) as error:
        raise AgentSpecInvalidError(f"{path} cannot be read: {error}", hint="it is a TOML file") from error
    endpoints = document.get("endpoints", {})
    return endpoints if isinstance(endpoints, dict) else {}


def _sources(value: object) -> tuple[KeySource, ...]:
    """Read where the key may be; a key that stands in the file itself is never read."""
    items = value if isinstance(value, list) else [value]
    return tuple(source for item in items if isinstance(item, dict) if (source := _source(item)) is not None)


def _source(item: Mapping[str, object]) -> KeySource | None:
    def text(name: str) -> str:
        value = item.get(name)
        return value if isinstance(value, str) else ""

    kind = item.get("source")
    if kind == "keyring" and text("service") and text("username"):
        return FromKeyring(text("service"), text("username"))
    if kind == "env" and text("var"):
        return FromEnv(text("var"))
    if kind == "file" and text("path"):
        return FromFile(text("path"), text("field"))
    if kind == "command" and text("command") and "(" not in text("command"):  # with a parenthesis it is a note
        return FromCommand(text("command"))
    return NoKey() if kind == "none" else None


def _loading(path: Path, id: str, value: object) -> str:
    if value not in TOOL_LOADINGS:
        raise _wrong(path, id, "tool_loading", f"one of {', '.join(TOOL_LOADINGS)}")
    return str(value)


def _table(path: Path, id: str, name: str, value: object) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(path, id, name, "a table")
    return value


def _texts(path: Path, id: str, name: str, value: object) -> dict[str, str]:
    return {key: str(item) for key, item in _table(path, id, name, value).items()}


def _wrong(path: Path, id: str, name: str, wanted: str) -> AgentSpecInvalidError:
    return AgentSpecInvalidError(f"{name!r} of the endpoint {id!r} in {path} must be {wanted}", hint="correct the file")
