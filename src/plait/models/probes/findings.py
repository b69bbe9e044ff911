"""What a probe found out: one finding for each capability, and all of them together.

Floor: 2. Owns: the names of the capabilities and what a reader needs of a finding; never: a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final, Literal

from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.models.profiles import EndpointProfile
from plait.wire.profile import WireName

Capability = Literal[
    "answers",
    "usage",
    "streaming",
    "stream_usage",
    "tools",
    "tool_choice",
    "parallel_calls",
    "tool_results",
    "cache",
    "reasoning",
    "effort",
    "grammar",
]
Verdict = Literal["yes", "no", "unknown"]

MEANINGS: Final[Mapping[Capability, str]] = MappingProxyType(
    {
        "answers": "answers a plain request",
        "usage": "says how many tokens a request used",
        "streaming": "streams answers",
        "stream_usage": "says so in streams as well",
        "tools": "calls tools",
        "tool_choice": "takes an order to call one",
        "parallel_calls": "makes several calls at once",
        "tool_results": "goes on after results",
        "cache": "says how many tokens a cache held",
        "reasoning": "shows or counts its thoughts",
        "effort": "takes a reasoning effort",
        "grammar": "holds an answer to a JSON Schema",
    }
)
"""Every capability in the order of a report, with its meaning."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer to the question whether an endpoint can do something, with what it rests on."""

    capability: Capability
    verdict: Verdict
    evidence: str

    def to_dict(self) -> dict[str, str]:
        """Return `{capability, verdict, evidence}`."""
        return {"capability": self.capability, "verdict": self.verdict, "evidence": self.evidence}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """Everything that a probe found out about one model at one endpoint."""

    endpoint: str
    """Base URL with its query."""
    model: str
    profile: EndpointProfile
    """What is known of the endpoint now, in the form that requests are made from."""
    findings: tuple[Finding, ...]
    context_window: int | None = None
    """Tokens, where the endpoint's list of models states them."""
    writes_calls_as_text: bool = False
    """Whether the model was seen to write its calls into its text."""
    requests: int = 0
    usage: Usage = field(default_factory=lambda: Usage.UNAVAILABLE)

    @property
    def wire(self) -> WireName:
        """The wire it answered on."""
        return self.profile.wire.wire

    def verdict(self, capability: Capability) -> Verdict:
        """Return what was found of a capability, `unknown` where nothing was."""
        for found in self.findings:
            if found.capability == capability:
                return found.verdict
        return "unknown"

    def says(self, capability: Capability) -> bool | None:
        """Return the same as true, false or None."""
        return {"yes": True, "no": False, "unknown": None}[self.verdict(capability)]
