"""The profile of a session: chosen when it begins, and the same whenever it goes on.

Floor: 5. Owns: which profile holds; never: what one says (`engine.profile`), or the words of a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from plait.core.errors import ConfigError
from plait.core.facts import Observation
from plait.session.kept.heads import START

if TYPE_CHECKING:
    from plait.engine.profile import Profile
    from plait.session.kept.keeping import Kept, Target


def profiled(
    target: Target, given: Mapping[str, Any], kept: Kept, earlier: Mapping[str, Any] | None
) -> tuple[Profile | None, Target]:
    """Return the profile of a session, and its target with the profile's model in the spec's place.

    Raises:
        ConfigError: there is no such profile, or the session began with another one.
    """
    start = next((fact.data for fact in kept.facts if isinstance(fact, Observation) and fact.type == START), None)
    # A session that is restored from its dict alone keeps to what that says.
    if start is None and earlier is not None and "profile" in earlier:
        start = {"profile": earlier["profile"]}
    wanted = given["profile"]
    if wanted is None and (start is None or start.get("profile") is None):
        return None, target
    from plait.engine.profile import Profile, as_profile  # most sessions have none

    profile = as_profile(wanted)
    if start is not None:
        recorded = Profile.told(start.get("profile"))
        if profile is not None and profile.name != ("" if recorded is None else recorded.name):
            began = "without a profile" if recorded is None else f"with the profile {recorded.name!r}"
            raise ConfigError(
                f"the session began {began}, so that it cannot go on with {profile.name!r}",
                hint="leave the profile out, or begin a new session",
            )
        return recorded, target
    if profile is not None and profile.model_override:
        target = replace(target, schema={**target.schema, "model": profile.model_override})
    return profile, target
