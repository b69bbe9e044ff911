"""Which model a run asks, and where: by its options, by the session that goes on, by what is at hand.

Floor: 7. Owns: which of them has the word; never: how one is found at hand (`choosing`).
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from plait.cli.choosing import Choice, choose
from plait.core.errors import ConfigError

if TYPE_CHECKING:
    from plait.cli.continuing import Going
    from plait.cli.run_options import RunOptions


def chosen(options: RunOptions, going: Going | None) -> Choice:
    """Return the model to ask, and where: what the flags name, else the session's own, else what is at hand."""
    if going is not None:
        from plait.cli.continuing import terms_of

        if (choice := terms_of(options, going)) is not None:
            return choice
    if options.inference_db and not (options.model or options.spec):
        raise ConfigError(f"no model was chosen for the endpoint {options.inference_db!r}", hint="name it with -m")
    if options.inference_db or (options.spec and not options.endpoint):
        # The entry's endpoint, or the spec's own model and endpoint, count where no flag says otherwise.
        return Choice(options.model or "", "", options.key_env)
    choice = choose(options.model, options.endpoint, options.key_env, os.environ)
    return replace(choice, reason=choice.reason or options.because)
