"""What an endpoint was found to support, as the `provider_api_support` of an agent spec.

Floor: 2. Owns: the members of that object, written and read; never: finding out, or the rest of a spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast, get_args

from plait.core.errors import ConfigError
from plait.models.probes.findings import Dossier
from plait.models.profiles import EndpointProfile, with_wire
from plait.wire.profile import WireName

_LIMIT_NAMES: Final = ("max_tokens", "max_completion_tokens")


def support_of(dossier: Dossier) -> dict[str, object]:
    """Return what a probe found as data: true, false, or null where nothing is known, and why."""
    says = dossier.says
    return {
        "wire": dossier.wire,
        "streaming": {"supported": says("streaming"), "usage": says("stream_usage")},
        "usage": {"supported": says("usage")},
        "cache": {"supported": says("cache")},
        "tools": {
            "supported": says("tools"),
            "choice": says("tool_choice"),
            "parallel": says("parallel_calls"),
            "results": says("tool_results"),
        },
        "reasoning": {"supported": says("reasoning"), "effort": says("effort")},
        "grammar": {"supported": says("grammar")},
        "request": _request_terms(dossier.profile),
        "evidence": {found.capability: found.evidence for found in dossier.findings},
    }


def with_support(profile: EndpointProfile, support: object) -> EndpointProfile:
    """Return a profile with what a spec says of its endpoint; what it leaves open stays as it is.

    Raises:
        ConfigError: it names a wire or a parameter that there is none of.
    """
    if not isinstance(support, Mapping):
        return profile
    wire = support.get("wire")
    if wire is not None:
        profile = with_wire(profile, _wire(wire))
    streams, cached = _flag(support, "streaming", "supported"), _flag(support, "cache", "supported")
    effort = _flag(support, "reasoning", "effort")
    return replace(
        profile,
        wire=replace(profile.wire, **_wire_terms(profile, support)),
        streams=profile.streams if streams is None else streams,
        reports_cache=profile.reports_cache if cached is None else cached,
        takes_effort=profile.takes_effort if effort is None else effort,
    )


def _request_terms(profile: EndpointProfile) -> dict[str, object]:
    """Return how requests must be made, as far as that was learnt."""
    terms: dict[str, object] = {"stream_usage": profile.wire.stream_usage}
    if profile.wire.wire == "chat":
        terms["max_tokens_field"] = profile.wire.max_tokens_field
    return terms


def _wire_terms(profile: EndpointProfile, support: Mapping[str, object]) -> dict[str, Any]:
    terms: dict[str, Any] = {}
    usage = _flag(support, "request", "stream_usage")
    if usage is not None:
        terms["stream_usage"] = usage
    grammar = _flag(support, "grammar", "supported")
    if grammar is not None:
        kept = profile.wire.structured_output
        terms["structured_output"] = "never" if not grammar else "without_tools" if kept == "never" else kept
    request = support.get("request")
    name = request.get("max_tokens_field") if isinstance(request, Mapping) else None
    if name is not None:
        if name not in _LIMIT_NAMES:
            raise ConfigError(
                f"provider_api_support.request.max_tokens_field is {name!r}", hint=f"it is {_either(_LIMIT_NAMES)}"
            )
        terms["max_tokens_field"] = name
    return terms


def _wire(name: object) -> WireName:
    wires = get_args(WireName)
    if name not in wires:
        raise ConfigError(f"provider_api_support.wire is {name!r}", hint=f"it is {_either(wires)}")
    return cast("WireName", name)


def _flag(support: Mapping[str, object], part: str, name: str) -> bool | None:
    inner = support.get(part)
    value = inner.get(name) if isinstance(inner, Mapping) else None
    return value if isinstance(value, bool) else None


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(map(repr, names[:-1]))} or {names[-1]!r}"
