"""The user's own plugins in a run: loaded before it begins, with standard output out of their reach.

Floor: 7. Owns: when they are loaded, and the names that are taken; never: what a plugin is (`tools.plugins`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from plait.engine.spec_tools import tools_of_spec
from plait.engine.trusting import vouched
from plait.session.defaults import LIBRARY
from plait.tools.background_specs import BACKGROUND
from plait.tools.definitions import ASKING, BUILT_IN
from plait.tools.extra_specs import EXTRA
from plait.tools.plugins import Plugins, load_plugins
from plait.tools.renames import RENAMED
from plait.tools.spec import name_of


def plugins_for_run(spec: Mapping[str, Any]) -> Plugins:
    """Load the user's plugins, and a trusted repository's, for a run in the current folder.

    No plugin takes the name of a built-in tool, by whatever name it goes, or of one of the spec's.
    """
    own = {known.name for known in (*BUILT_IN, *EXTRA, *ASKING, *BACKGROUND)}
    entries, _ = tools_of_spec(spec, LIBRARY.functions)
    with _stdout_aside():
        return load_plugins(
            os.environ,
            os.getcwd(),
            taken=own | set(RENAMED) | {name_of(entry) for entry in entries},
            is_trusted=vouched(os.getcwd(), None).is_trusted,
        )


@contextmanager
def _stdout_aside() -> Iterator[None]:
    """Have whatever is written to descriptor 1 go to standard error: what a run prints there is data."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:
        yield  # there is no standard output to keep clean
        return
    try:
        with suppress(OSError):
            os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
