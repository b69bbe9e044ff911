"""The kernel face's configuration out of files and the environment.

Floor: 4. Owns: which of the layered settings a `Config` takes, and where its paths are meant from; never: a layer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from plait.config.keys import KEYS
from plait.config.settings import CONFIG_FILE
from plait.engine.configuration import Configuration, configuration
from plait.engine.kernel_config import Config

_NAMES: Final[Mapping[str, str]] = {
    "max_iterations": "max_steps",
    "max_input_tokens_per_run": "max_input_tokens",
    "keep_recent_turns": "compaction_keep_last_turns",
}
"""Fields of a `Config` whose settings have another name."""
_PATHS: Final = ("log_dir", "mcp_log_dir", "plugins_dir", "profile_dir")


def resolve_config(
    config_arg: str | os.PathLike[str] | None = None,
    *,
    cwd: str | os.PathLike[str] = ".",
    env: Mapping[str, str] | None = None,
    **overrides: Any,
) -> tuple[Config, Path | None]:
    """Return the configuration of a folder, and the project's file that has a part in it, None for none.

    The user's `plait.toml` comes first, then the project's where the project is trusted, then `PLAIT_…` variables, then
    `overrides`; the later one has the word. Paths are meant from the project's root.

    Args:
        config_arg: a file that is read in place of both.
        env: the environment; the process's unless given.

    Raises:
        ConfigError: a file or variable says what means nothing, with its place; a file that was named is missing.
    """
    environ = os.environ if env is None else env
    found = configuration(cwd, environ, file=config_arg)
    projects = found.root / CONFIG_FILE
    is_used = any(source.path == projects and source.state == "read" for source in found.sources)
    return _config(found, overrides), projects if is_used and config_arg is None else None


def load_config(file: str | os.PathLike[str], env: Mapping[str, str] | None, overrides: Mapping[str, Any]) -> Config:
    """Return the configuration of one file, with the environment above it; see `Config.load`."""
    return _config(configuration(".", os.environ if env is None else env, file=file), overrides)


def _config(found: Configuration, overrides: Mapping[str, Any]) -> Config:
    values: dict[str, Any] = {}
    for field in Config.__dataclass_fields__:
        name = _NAMES.get(field, field)
        key = KEYS.get(name)
        if key is not None and key.use in ("both", "runtime") and (value := found.get(name)) is not None:
            values[field] = value
    if endpoint := found.get("endpoint"):
        values["base_url" if "://" in endpoint else "provider"] = endpoint
    values.update(overrides)
    for name in _PATHS:
        if values.get(name) is not None:
            values[name] = _anchored(values[name], found.root)
    values["working_dir"] = _anchored(values.get("working_dir") or ".", found.root)
    return Config(**values)


def _anchored(path: str | os.PathLike[str], base: Path) -> str:
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))
