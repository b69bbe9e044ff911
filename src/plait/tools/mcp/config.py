"""Which MCP servers there are: read from `.mcp.json`, from `[[mcp_servers]]` tables, or from what a program passes.

Floor: 3. Owns: the shapes of a declaration and what each field may hold; never: starting a server, or trust.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from plait.config.settings import settings_in
from plait.core.errors import ConfigError
from plait.core.strict_json import JsonInvalid, parse_object
from plait.core.values import dataclass

if TYPE_CHECKING:
    from plait.hands.fence.fence import Fence

TIMEOUT_S: Final = 30.0
WAIT_S: Final = 10.0

Kind = Literal["stdio", "http", "sse"]

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_KINDS: Final[Mapping[str, Kind]] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_FIELDS: Final = frozenset(
    "name command args env cwd timeout startup_timeout url headers type disabled always_ask".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server: a program that is started (`command`), or an address that is asked (`url`)."""

    name: str
    kind: Kind = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that the program gets beside those that every program needs; of plait's own it gets no others."""
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    """How long one answer may take."""
    wait_s: float = WAIT_S
    """How long a first turn waits for its tools; after that they come with a later turn."""
    always_ask: bool = False
    """Its word that a tool only reads is not believed: every one of its tools is gated."""
    fence: Fence | None = field(default=None, compare=False, repr=False)
    """Stands around its program. Whoever starts servers sets it; no declaration can."""

    @property
    def place(self) -> str:
        """The program or the address, as messages name it; without what may hold a password."""
        if self.kind == "stdio":
            return self.command
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


def servers_of(given: object, environ: Mapping[str, str], *, source: str = "mcp_servers") -> tuple[ServerConfig, ...]:
    """Return the servers that `given` declares, in its order.

    Args:
        given: a path of a JSON file; `{"mcpServers": {name: {…}}}` or `{name: {…}}`; a list of tables with a `name`
            each, or of `ServerConfig`s; None for none.
        environ: where `${NAME}` and `${NAME:-default}` in texts are looked up.
        source: how messages name the place.

    Raises:
        ConfigError: a declaration cannot be used; the server and the field are named.
    """
    if given is None:
        return ()
    if isinstance(given, (str, os.PathLike)):
        return servers_in(Path(given), environ)
    if isinstance(given, ServerConfig):
        given = (given,)
    if isinstance(given, Mapping):
        servers = _of_mapping(given, environ, source)
    elif isinstance(given, Iterable) and not isinstance(given, (bytes, bytearray)):
        servers = [_of_item(item, environ, source) for item in given]
    else:
        raise ConfigError(f"{source} is {type(given).__name__!r}", hint="pass a dict of servers, a list, or a path")
    return _once([server for server in servers if server is not None], source)


def servers_in(path: Path, environ: Mapping[str, str]) -> tuple[ServerConfig, ...]:
    """Return the servers of a JSON file of the shape of `.mcp.json`; raise `ConfigError` as `servers_of`."""
    source = repr(str(path))
    try:
        content = parse_object(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read {source}: {error.strerror}", hint="name a file of MCP servers") from error
    except JsonInvalid as error:
        raise ConfigError(f"{source} is no JSON object: {error}", hint='write {"mcpServers": {…}}') from error
    if "mcpServers" not in content:
        raise ConfigError(f"{source} has no 'mcpServers'", hint='write {"mcpServers": {"name": {"command": "…"}}}')
    return servers_of(content, environ, source=source)


def tables_in(path: Path, environ: Mapping[str, str]) -> tuple[ServerConfig, ...]:
    """Return the `[[mcp_servers]]`, or `[mcp_servers.NAME]`, of a TOML file; none when there is no such file.

    Raises as `servers_of`.
    """
    source, content = repr(str(path)), settings_in(path)
    tables = content.get("mcp_servers", [])
    if not isinstance(tables, (list, dict)):
        raise ConfigError(f"'mcp_servers' in {source} is no list of tables", hint="write [[mcp_servers]]")
    return servers_of(tables, environ, source=source)


def merged(*layers: Sequence[ServerConfig]) -> tuple[ServerConfig, ...]:
    """Return the servers of several places; of one name the later layer's declaration counts, in the first's place."""
    found: dict[str, ServerConfig] = {}
    for layer in layers:
        found.update((server.name, server) for server in layer)
    return tuple(found.values())


def _of_mapping(given: Mapping[str, object], environ: Mapping[str, str], source: str) -> list[ServerConfig | None]:
    named = given.get("mcpServers", given)
    if not isinstance(named, Mapping):
        raise ConfigError(f"'mcpServers' in {source} is no object", hint='write {"name": {"command": "…"}}')
    found: list[ServerConfig | None] = []
    for name, table in named.items():
        if not isinstance(table, Mapping):
            raise ConfigError(f"the MCP server {name!r} in {source} is no object", hint='write {"command": "…"}')
        found.append(_server({**table, "name": name}, environ, source))
    return found


def _of_item(item: object, environ: Mapping[str, str], source: str) -> ServerConfig | None:
    if isinstance(item, ServerConfig):
        return item
    if not isinstance(item, Mapping):
        raise ConfigError(f"{source} lists {type(item).__name__!r}", hint="list tables with name and command or url")
    for name in item:
        if name not in _FIELDS:
            raise ConfigError(
                f"an MCP server in {source} has an unknown field {name!r}",
                hint=f"the fields are {', '.join(sorted(_FIELDS))}",
            )
    return _server(item, environ, source)


def _server(table: Mapping[str, object], environ: Mapping[str, str], source: str) -> ServerConfig | None:
    """Return what a table declares; None for one that is switched off."""
    if table.get("disabled") is True:
        return None
    name = table.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > 200:
        raise ConfigError(f"an MCP server in {source} has no name", hint="give it a short one of its own")
    read = _Reader(name, table, environ, source)
    command, url = read.text("command"), read.text("url")
    if bool(command) == bool(url):
        raise read.wrong("needs either 'command' or 'url'", "a program has a command, an address has a url")
    kind = read.kind("stdio" if command else "http")
    if (kind == "stdio") != bool(command):
        raise read.wrong(f"has the type {kind!r} and a {'command' if command else 'url'}", "leave the type out")
    if url and urlsplit(url).scheme not in ("http", "https"):
        raise read.wrong("has a 'url' that is no http address", "write https://…")
    return ServerConfig(
        name=name,
        kind=kind,
        command=command,
        args=read.texts("args"),
        env=read.pairs("env"),
        cwd=read.text("cwd") or None,
        url=url,
        headers=read.pairs("headers"),
        timeout_s=read.seconds("timeout", TIMEOUT_S),
        wait_s=read.seconds("startup_timeout", WAIT_S),
        always_ask=read.flag("always_ask"),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the fields of one declaration; what is wrong with one is said with its name, never with its value."""

    name: str
    table: Mapping[str, object]
    environ: Mapping[str, str]
    source: str

    def wrong(self, what: str, hint: str) -> ConfigError:
        return ConfigError(f"the MCP server {self.name!r} in {self.source} {what}", hint=hint)

    def text(self, key: str) -> str:
        value = self.table.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong(f"has a {key!r} that is no text", "write it as one text; arguments go into 'args'")
        return self._expanded(value, key)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.table.get(key)
        if value is None:
            return ()
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise self.wrong(f"has {key!r} that are no list of texts", 'write ["…", "…"]')
        return tuple(self._expanded(item, key) for item in value)

    def pairs(self, key: str) -> dict[str, str]:
        value = self.table.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(f"has {key!r} that is no object of names and texts", 'write {"NAME": "text"}')
        found: dict[str, str] = {}
        for name, item in value.items():
            # Numbers are what a TOML file has where a shell has text.
            if isinstance(item, (int, float)) and not isinstance(item, bool):
                item = str(item)
            if not isinstance(item, str) or not name or "=" in name:
                raise self.wrong(f"has {key!r} that is no object of names and texts", 'write {"NAME": "text"}')
            found[name] = self._expanded(item, f"{key}.{name}")
        return found

    def flag(self, key: str) -> bool:
        value = self.table.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(f"has a {key!r} that is neither true nor false", "write true or false")
        return value is True

    def seconds(self, key: str, usual: float) -> float:
        value = self.table.get(key)
        if value is None:
            return usual
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
            raise self.wrong(f"has a {key!r} that is no number of seconds", "write a number above 0")
        return float(value)

    def kind(self, usual: Kind) -> Kind:
        value = self.table.get("type")
        if value is None:
            return usual
        if value not in _KINDS:
            raise self.wrong("has an unknown 'type'", "it is stdio, http or sse")
        return _KINDS[str(value)]

    def _expanded(self, text: str, key: str) -> str:
        def value_of(match: re.Match[str]) -> str:
            name, default = match[1], match[2]
            if (value := self.environ.get(name)) or (value is not None and default is None):
                return value
            if default is None:
                raise self.wrong(
                    f"needs the variable {name!r} for {key!r}, which is not set",
                    f"set it, or write ${{{name}:-default}}",
                )
            return str(default)

        expanded = _VARIABLE.sub(value_of, text)
        if "\0" in expanded:
            raise self.wrong(f"has a NUL character in {key!r}", "leave it out")
        return expanded


def _once(servers: Sequence[ServerConfig], source: str) -> tuple[ServerConfig, ...]:
    """Return servers of which no two have one name; raise `ConfigError` for two."""
    seen: set[str] = set()
    for server in servers:
        if server.name in seen:
            raise ConfigError(f"two MCP servers in {source} are named {server.name!r}", hint="give one another name")
        seen.add(server.name)
    return tuple(servers)


def with_folder(servers: Iterable[ServerConfig], folder: str) -> tuple[ServerConfig, ...]:
    """Return servers that work in `folder` where they name none, and below it where they name a relative one."""
    return tuple(
        replace(server, cwd=os.path.join(folder, server.cwd) if server.cwd else folder)
        if server.kind == "stdio"
        else server
        for server in servers
    )
