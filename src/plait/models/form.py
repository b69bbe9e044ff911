"""What a conversation's requests are otherwise than it asks for: left out, asked less of, or kept with one provider.

Floor: 2. Owns: these differences as a value, and what each does to a request; never: how they came about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, Self

from plait.core.values import dataclass
from plait.wire.profile import WireProfile

ECHO: Final = "echo"
"""Learnt of an endpoint that wants the reasoning of its answers back."""
ALTERNATE: Final = "alternate"
"""Learnt of an endpoint that wants user and assistant in turn."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a request; with nothing in it, the request is what the conversation asks for."""

    learnt: frozenset[str] = frozenset()
    """Members that are left out, `echo` and `alternate`."""
    output_max: int | None = None
    """Tokens that an answer may have, where the window has no room for more."""
    provider: str = ""
    """Where the endpoint routes to several: the one that is asked for."""

    @classmethod
    def of(cls, told: Mapping[str, object]) -> Self:
        """Return the form that `told` came from; what cannot be understood is left out."""
        learnt, output_max, provider = told.get("learnt"), told.get("output_max"), told.get("provider")
        return cls(
            frozenset(map(str, learnt)) if isinstance(learnt, (list, tuple)) else frozenset(),
            output_max if isinstance(output_max, int) else None,
            provider if isinstance(provider, str) else "",
        )

    def told(self) -> dict[str, object]:
        """Return the form as plain JSON, without what is as ever."""
        told = {"learnt": sorted(self.learnt), "output_max": self.output_max, "provider": self.provider}
        return {name: value for name, value in told.items() if value}

    def with_learnt(self, names: Iterable[str]) -> Form:
        """Return the form with more that was learnt."""
        return replace(self, learnt=self.learnt | frozenset(names))

    def takes(self, name: str) -> bool:
        """Say whether a member may be sent."""
        return name not in self.learnt

    def output_tokens(self, wanted: int | None) -> int | None:
        """Return how many tokens to ask for at most."""
        limits = [limit for limit in (wanted, self.output_max) if limit is not None]
        return min(limits, default=None)

    def wire(self, wire: WireProfile) -> WireProfile:
        """Return a wire as the endpoint wants it."""
        if ECHO in self.learnt:
            wire = replace(wire, reasoning_echo="always")
        if ALTERNATE in self.learnt:
            wire = replace(wire, alternates=True)
        if not self.takes("parallel_tool_calls"):
            wire = replace(wire, parallel_tool_calls=None)
        return wire if self.takes("stream_options") else replace(wire, stream_usage=False)
