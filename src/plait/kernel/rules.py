"""How patient the loop is: limits, retries, guards, compaction, as data.

Floor: 1. Owns: the numbers and the arithmetic of retry delays; never: a clock or a random source.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from plait.core.exchange import ProviderFailed
from plait.core.values import dataclass

if TYPE_CHECKING:
    from plait.kernel.budget import Room
    from plait.kernel.counting import TokenCounter

_DOUBLINGS_MAX: Final = 64
_AGE_S: Final = 10 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class Retry:
    """When a failed request is made again."""

    attempts_max: int = 6
    """Requests in all, the first one counted."""
    base_s: float = 0.5
    cap_s: float = 60.0
    stated_wait_max_s: float = 600.0
    """The longest wait of a provider's own that is honoured; a longer one is surfaced instead."""
    seed: int | None = None
    """Makes the jitter repeatable; None gives each conversation its own, so that they do not retry in step."""

    def delay_s(self, failure: ProviderFailed, attempt: int) -> float | None:
        """Return how long to wait before the next request, or None when there shall be none.

        `attempt` counts the requests made so far. A stated wait is taken as it is (never less), otherwise the
        wait doubles each time and is shortened by up to half at random.
        """
        if not failure.retryable or attempt >= self.attempts_max:
            return None
        if failure.retry_after_s is not None:
            return max(0.0, failure.retry_after_s) if failure.retry_after_s <= self.stated_wait_max_s else None
        full_s = min(self.cap_s, self.base_s * 2.0 ** min(attempt - 1, _DOUBLINGS_MAX))
        import random  # most requests are made once

        return full_s * (1 - random.Random(f"{self.seed}:{attempt}").random() / 2)

    def why_not(self, failure: ProviderFailed, attempt: int) -> str:
        """Return in words why `delay_s` is None, nothing where the failure itself says it."""
        if not failure.retryable:
            return ""
        stated_s = failure.retry_after_s
        if stated_s is not None and not stated_s <= self.stated_wait_max_s:
            return f"it asks to wait {_span(stated_s)}, and no more than {_span(self.stated_wait_max_s)} are waited"
        return f"gave up after {attempt} requests" if attempt > 1 else ""

    def of(self, seed: int) -> Retry:
        """Return these rules for one conversation: with a seed of their own, or else with its."""
        return replace(self, seed=seed) if self.seed is None else self


@dataclass(frozen=True, slots=True)
class Guards:
    """When the loop says to the model that it is getting nowhere, and when it stops."""

    repeats_told: int = 3
    """Rounds of the same calls with the same results, after which the model is told."""
    repeats_max: int = 6
    """Such rounds after which the turn ends: told once, it had as many rounds again to do something else."""
    nudges_max: int = 3
    """Warnings of any kind in a turn; the next concern ends it."""
    tellings_max: int = 1
    """How often in a row it is told of an empty answer, or of one that the output limit cut off; the next ends it."""


@dataclass(frozen=True, slots=True)
class Shrinking:
    """How history is compacted."""

    keep_last_units: int = 4
    """Messages kept as they are, a call and its results counting as one."""
    tries_max: int = 3
    """Compactions for one request that does not fit."""
    keep_last_turns: int | None = None
    """Turns kept as they are, and steps inside a single long turn; None keeps units."""
    kept_tokens_max: int = 20_000
    """Where turns are kept: fewer are, when they are larger than this."""
    chars_min: int = 0
    """Less text than this is not summarised."""
    trigger_tokens: int | None = None
    """Size of a request from which history is summarised before it: None is as the host thinks fit, 0 never."""
    summary_tokens_max: int | None = None
    """Tokens that a summary may have; None leaves it to what every answer may have."""
    summary_timeout_s: float | None = 180.0
    """Seconds after which a summary is given up."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything the loop weighs, fixed for a turn."""

    max_steps: int | None = 25
    """Model answers a turn may take; None for no limit."""
    retry: Retry = field(default_factory=Retry)
    guards: Guards = field(default_factory=Guards)
    shrinking: Shrinking = field(default_factory=Shrinking)
    room: Room | None = None
    """What requests have to fit into; None: nobody knows, and the provider says."""
    token_counter: TokenCounter | None = None
    """Counts the tokens of a text exactly for the model; None: they are estimated from what the provider reports."""


def _span(seconds: float) -> str:
    """Return a length of time as a person says it."""
    if not 0 <= seconds < _AGE_S:
        return "without end"
    if seconds < 120:
        return f"{seconds:g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
