"""What a run's options leave open, as the chosen profile and the configuration say.

Floor: 7. Owns: which option or field of the spec a setting comes to; never: where settings stand (`config`).

Options have the word, then an agent spec that was named, then the profile, then the configuration. A session that goes
on keeps its model, its endpoint and its profile.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from plait.config.keys import KEYS
from plait.config.layers import Setting, Settings, strange_variables, with_model
from plait.core.errors import ConfigError
from plait.engine.configuration import Configuration, configuration
from plait.engine.profile import Profile
from plait.engine.profile_files import profile_of

if TYPE_CHECKING:
    from plait.cli.run_options import RunOptions

_FIELDS: Final = (
    *("max_output_tokens", "context_window", "token_counter", "min_cacheable_tokens", "cache_ttl_seconds"),
    *("compaction_enabled", "compaction_trigger_tokens", "compaction_target_tokens", "compaction_keep_last_turns"),
    *("compaction_policy", "compaction_min_chars", "time_awareness_tool_timestamps", "token_awareness_budget_tokens"),
    *("token_awareness_reminder_tokens", "token_awareness_update_every", "tool_loading"),
)
"""Settings that are fields of an agent spec by the same name."""
_LIMITS: Final = (
    *("max_steps", "max_cost_usd", "max_input_tokens", "max_tool_calls", "max_wall_seconds"),
    *("max_tool_result_tokens", "max_turn_result_tokens", "dedupe_reads"),
)
"""… and limits of one; those of a session begin with `session_` here."""
_OF_SESSIONS: Final = ("max_steps", "max_cost_usd", "max_input_tokens", "max_wall_seconds")


def configured(options: RunOptions, *, goes_on: bool) -> RunOptions:
    """Return a run's options with what the configuration of the current folder says.

    Raises:
        ConfigError: a file, a variable or the profile cannot be used.
    """
    found = configuration(".", os.environ, file=options.config)
    profile = _profile(options, found, goes_on=goes_on)
    settings, address = _address(options, found.found, profile, goes_on=goes_on)
    notices = [found.notice] if found.notice else []
    notices += _unused(found.found)
    notices += [f"{name} is no setting; did you mean {meant}?" for name, meant in strange_variables(os.environ)]

    def said(name: str, own: Any) -> Any:
        return settings.get(name) if own is None else own

    return replace(
        options,
        **address,
        # The option has been obeyed by now, or the model of the profile has.
        profile=None if profile is None else replace(profile, model_override=None),
        max_tokens=said("max_tokens", options.max_tokens),
        retries=said("retries", options.retries),
        timeout_s=said("timeout", options.timeout_s),
        strict_cache_proof=said("strict_cache_proof", options.strict_cache_proof),
        durable=options.durable and settings.get("durable") is not False,
        nohup=options.nohup or settings.get("nohup") is True,
        has_plugins=options.has_plugins and settings.get("enable_plugins") is not False,
        supplement="" if goes_on else settings.get("system_prompt_supplement") or "",
        tool_concurrency=settings.get("tool_concurrency"),
        fields=fields_of(settings),
        notices=tuple(notices),
    )


def _unused(settings: Settings) -> list[str]:
    """Return a line about settings that are for `build_runtime`: somebody may count on what they forbid."""
    places = [setting.origin for name, setting in settings.settings.items() if KEYS[name].use == "runtime"]
    return [f"{', '.join(places)}: for build_runtime only, and not for this run (plait config show)"] if places else []


def _profile(options: RunOptions, found: Configuration, *, goes_on: bool) -> Profile | None:
    wanted = options.profile or (None if goes_on else found.get("profile"))
    if wanted is None or isinstance(wanted, Profile):
        return wanted
    more = found.get("profile_dir")
    try:
        return profile_of(wanted, os.getcwd(), more=() if more is None else [os.path.join(found.root, more)])
    except ConfigError as error:
        if options.profile is not None:
            raise
        place = found.found.settings["profile"].origin
        raise ConfigError(f"{place}: {error.message}", hint=error.hint) from error


def _address(
    options: RunOptions, settings: Settings, profile: Profile | None, *, goes_on: bool
) -> tuple[Settings, dict[str, Any]]:
    """Return the settings with those of the model's table, and the options that say which model is asked where."""
    asked = options.model or (None if profile is None or goes_on else profile.model_override)
    keeps_its_own = goes_on or options.spec is not None
    if asked is None and keeps_its_own:
        return settings, {}
    name = asked or settings.get("model")
    is_table = name in settings.models
    settings = with_model(settings, name)
    if keeps_its_own and not is_table:
        return settings, {"model": asked}
    place = settings.settings.get("model")
    told: dict[str, Any] = {"model": settings.get("model") if is_table or asked is None else asked}
    if not (options.endpoint or options.inference_db):
        # A key belongs to the endpoint that it was named with.
        told |= {"endpoint": settings.get("endpoint"), "inference_db": settings.get("inference_db")}
        told["key_env"] = options.key_env or settings.get("key_env")
        place = settings.settings.get("endpoint") or place
    if place is not None and options.model is None:
        told["because"] = f"as {place.origin} says"
    return settings, told


def fields_of(settings: Settings) -> dict[str, Any]:
    """Return the fields of an agent spec that settings come to."""
    fields = {name: value for name in _FIELDS if (value := settings.get(name)) is not None}
    limits = {name: value for name in _LIMITS if (value := settings.get(name)) is not None}
    session = {name: value for name in _OF_SESSIONS if (value := settings.get(f"session_{name}")) is not None}
    limits |= {"session": session} if session else {}
    fields |= {"limits": limits} if limits else {}
    awareness = settings.settings.get("awareness")
    return fields if awareness is None else {**fields, **senses_of(awareness)}


def senses_of(awareness: Setting) -> dict[str, bool]:
    """Return which senses a setting has on, by the keywords of sessions; raise `ConfigError` for what is none."""
    from plait.context.senses import NAMES  # most configurations leave them on

    wanted = [] if awareness.value == "off" else [name.lower() for name in awareness.value]
    if unknown := next((name for name in wanted if name not in NAMES), None):
        raise ConfigError(
            f"{awareness.origin}: 'awareness' names {unknown!r}, which is no sense",
            hint=f"off, or some of: {', '.join(NAMES)}",
        )
    return {f"{name}_awareness_enabled": name in wanted for name in NAMES}


def with_fields(spec: dict[str, Any], fields: Mapping[str, Any]) -> None:
    """Put into a spec what it does not say itself."""
    for name, value in fields.items():
        if name == "limits":
            own = spec.get(name) or {}
            session = {**value.get("session", {}), **(own.get("session") or {})}
            spec[name] = {**value, **own, **({"session": session} if session else {})}
        elif spec.get(name) is None:
            spec[name] = value
