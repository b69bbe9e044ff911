"""The kept session that a run goes on with: which one, on what terms, and how to go on after it.

Floor: 7. Owns: what `--session`, `--continue` and `resume` mean; never: how a session is read (`session.kept.keeping`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plait.cli.choosing import Choice
from plait.core.errors import ConfigError
from plait.core.values import dataclass
from plait.engine.spec_entry import with_entry
from plait.models.endpoint import endpoint_of
from plait.session.kept.keeping import kept_at, target_of
from plait.session.kept.recorded import RecordedTerms, home_of, port
from plait.store.layout import SessionFolder
from plait.store.sessions import Sessions
from plait.tools.background_specs import NOHUP, enable_nohup

if TYPE_CHECKING:
    from plait.cli.run_options import RunOptions


@dataclass(frozen=True, slots=True)
class Going:
    """A session that is kept, and the terms that it began on."""

    place: SessionFolder
    recorded: RecordedTerms


def session_meant(options: RunOptions) -> Going | None:
    """Return the kept session that a run is to go on with; None for a new one.

    Raises:
        ConfigError: there is none where there has to be one.
    """
    own = Sessions.of(os.environ)
    if options.resume is not None:
        place = kept_at(options.resume) or own.find(options.resume)
    elif options.session is not None:
        place = own.place_of(options.session)
        if not place.journal.exists():
            return None
    else:
        newest = own.newest(os.getcwd())
        if newest is None:
            raise ConfigError(
                f"nothing was kept of a session in {os.getcwd()!r}",
                hint="`plait sessions list --all` names those of other folders",
            )
        place = SessionFolder(newest.folder)
    return Going(place, RecordedTerms.of(place))


def folder_of(going: Going) -> str:
    """Return the folder that a session worked in; raise `ConfigError` when it is gone."""
    home = home_of(going.recorded)
    if home is None and going.recorded.cwd:
        raise ConfigError(
            f"the session worked in {going.recorded.cwd!r}, which is gone", hint="say with -C where it is to go on"
        )
    return str(home or ".")


def terms_of(options: RunOptions, going: Going) -> Choice | None:
    """Return the model and the endpoint of a session, where the flags name no others; None when it did not say."""
    recorded = going.recorded
    if not recorded.model or options.spec or options.inference_db:
        return None
    key_env = options.key_env or (recorded.key or {}).get("key_env")
    return Choice(options.model or recorded.model, options.endpoint or recorded.endpoint, key_env)


def bound_to(options: RunOptions, going: Going, spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the spec on the session's terms, and the folder of the session that goes on.

    A provider that the flags name, and that is another than the session's, gets a copy of it, as another model does.
    """
    place = going.place
    if not options.spec and NOHUP.name in going.recorded.tools and isinstance(spec, dict):
        enable_nohup(spec)  # it may have left jobs, and its requests begin as they did
    if options.endpoint and _address(options.endpoint) != _address(going.recorded.endpoint):
        place = port(place, place.path.name, spec)
    folder = str(place.path)
    return target_of(with_entry(spec), {"resumed_from": folder}).schema, folder


def hint_for(folder: Path) -> str:
    """Return the command that goes on with a session."""
    own = Sessions.of(os.environ).folder
    return f"plait resume {shlex.quote(folder.name if folder.parent == own else str(folder))}"


def _address(endpoint: str) -> str:
    try:
        return endpoint_of(endpoint).base
    except ConfigError:
        return endpoint
