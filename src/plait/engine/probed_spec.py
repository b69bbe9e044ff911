"""From what a probe found out to the agent spec that a run uses.

Floor: 4. Owns: the fields of that spec and its file; never: a question to an endpoint.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from plait.core.errors import ConfigError
from plait.engine.agent_spec import AgentSpec, safe_model_name
from plait.engine.spec import validate_schema
from plait.models.endpoint import endpoint_of
from plait.models.probes.findings import Dossier
from plait.models.support import support_of
from plait.store.disk import new_file, replace_file, sync_folder
from plait.tools import definitions
from plait.tools.spec import schema_entry


def spec_path(model: str) -> Path:
    """Return where `load_specification` looks for the spec of a model: a file in the working directory."""
    return Path(f"agent_spec_{safe_model_name(model)}.json")


def specification_of(dossier: Dossier, *, key_env: str | None = None, comment: str = "") -> AgentSpec:
    """Return the spec of an agent with all built-in tools at the endpoint that was probed.

    Raises:
        AgentSpecInvalidError: what was found makes no spec.
    """
    delivery = "inline_json" if dossier.says("tools") is False else "structured_tool_calls"
    data: dict[str, object] = {
        "model": dossier.model,
        "endpoint": dossier.endpoint,
        "status": "probed",
        "comment": comment,
        "provider_api_support": support_of(dossier),
        "behaviour": {"call_delivery_mode": delivery},
        "tool_specs": [schema_entry(known.tool(_nothing)) for known in definitions.BUILT_IN],
    }
    if dossier.context_window is not None:
        data["context_window"] = dossier.context_window
    if dossier.says("usage") is False:
        data["reports_prompt_tokens"] = False
    if key_env:
        data["key_env"] = key_env
    if dossier.profile.auth_header != endpoint_of(dossier.endpoint).profile.auth_header:
        data["auth_header"] = dossier.profile.auth_header
    spec = AgentSpec(data, model=dossier.model, endpoint=dossier.endpoint)
    validate_schema(spec)
    return spec


def check_place(path: Path, *, overwrite: bool) -> None:
    """Refuse a place at which a spec cannot be written, before anything is asked for it.

    Raises:
        ConfigError: there is a file already, or there is no such folder.
    """
    if not path.parent.is_dir():
        raise ConfigError(
            f"there is no folder {str(path.parent)!r} for the spec", hint="make it, or name another with -o"
        )
    if path.is_dir():
        raise ConfigError(f"{str(path)!r} is a folder", hint="name a file with -o")
    if path.exists() and not overwrite:
        raise _taken(path)


def write_spec(spec: AgentSpec, path: Path, *, overwrite: bool = False) -> None:
    """Write a spec; on return it is on disk, and at no moment is there half of one at `path`.

    Raises:
        ConfigError: there is a file already and it may not be replaced, or the disk refuses.
    """
    data = (json.dumps(dict(spec), indent=2, ensure_ascii=False) + "\n").encode()
    try:
        if overwrite:
            replace_file(path, data)
        else:
            _place(path, data)
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"the spec {str(path)!r} cannot be written: {reason}", hint="name another file with -o"
        ) from error


def _place(path: Path, data: bytes) -> None:
    """Put a whole file where there is none; raise `FileExistsError` where there is one by now."""
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    new_file(temporary, data)
    try:
        os.link(temporary, path)
    finally:
        os.unlink(temporary)
    sync_folder(path.parent)


def _taken(path: Path) -> ConfigError:
    return ConfigError(
        f"there is a file {str(path)!r} already", hint="replace it with --force, or name another with -o"
    )


def _nothing() -> None:
    """Stand for the function of a tool of which only the description is wanted."""
