"""What a refused key comes to: how long it rests, and which one is used instead.

Floor: 2. Owns: which failures speak of a key, and how the change is told; never: a key in any text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Final

from plait.core.errors import ErrorClass
from plait.core.exchange import ProviderFailed
from plait.core.values import dataclass
from plait.models.pool import RECOVERY_S, CredentialPool

_OF_KEYS: Final[frozenset[ErrorClass]] = frozenset({"rate_limit", "auth", "quota"})


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key was refused, and which one comes after it."""

    told: Mapping[str, object]
    """The members of the event `key_rested`."""
    key: str | None = field(default=None, repr=False)
    """The one to use now, None where there is none."""


def key_change(
    pool: CredentialPool, key: str, failed: ProviderFailed, tried: Collection[str], where: str
) -> KeyChange | None:
    """Let a key rest that was refused; None where it is the only one, or the failure is about something else.

    A refused key and one without money are put out; one that was too fast rests for the time that was stated. Where
    no other is left, the failure tells from then on to wait for the first that comes back.

    Args:
        tried: keys that this request was made with before.
        where: what to call the place that the keys are from, empty where it would be a guess.
    """
    if len(pool) < 2 or failed.kind not in _OF_KEYS:
        return None
    stated_s = failed.retry_after_s
    is_out = failed.kind == "auth" or (failed.kind == "quota" and stated_s is None)
    after = pool.spend(key, stated_s, is_out=is_out, tried=tried)
    if after is None and not pool.is_out:
        failed.retryable, failed.retry_after_s = True, pool.wait_s()
    rests_s = None if is_out else RECOVERY_S if stated_s is None else stated_s
    place = f" in {where}" if where else ""
    told = {
        "key": f"{pool.label(key)}{place}",
        "kind": failed.kind,
        "rests_s": rests_s,
        "next": None if after is None else f"{pool.label(after)}{place}",
    }
    return KeyChange(told, after)
