"""Several keys for one endpoint: when one is refused, the next is used.

Floor: 2. Owns: which key is used now, and which rest; never: where keys come from.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from typing import Final, Self

from plait.core.values import dataclass
from plait.models.credentials import FromEnv

RECOVERY_S: Final = 60.0
"""How long a key rests that was refused without saying for how long."""


@dataclass(frozen=True, slots=True)
class _Rest:
    until_s: float
    is_stated: bool


_FRESH: Final = _Rest(-inf, is_stated=True)
_OUT: Final = _Rest(inf, is_stated=True)


class CredentialPool:
    """Keys in order of preference; safe to use from any thread.

    A key that was refused for its rate rests until the provider's time is over, and is used again then. A key that
    was refused for good is put out: it is asked again only when all of them are.
    """

    def __init__(self, keys: Iterable[str], *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._keys = tuple(dict.fromkeys(key for raw in keys if (key := raw.strip())))
        self._rests: dict[str, _Rest] = {}
        self._at = 0
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()

    @classmethod
    def from_env(cls, variable: str, environ: Mapping[str, str] | None = None) -> Self:
        """Read `NAME` (several keys split by commas), then `NAME_1`, `NAME_2`, … up to the first that is missing."""
        return cls(FromEnv(variable).find(os.environ if environ is None else environ))

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"CredentialPool({len(self._keys)} keys)"

    def label(self, key: str) -> str:
        """Return what to call a key in words: its place, never a part of it."""
        if len(self._keys) < 2 or key not in self._keys:
            return "the key"
        return f"key {self._keys.index(key) + 1} of {len(self._keys)}"

    def current(self) -> str | None:
        """Return the key that was used last, None of an empty pool."""
        with self._lock:
            return self._keys[self._at] if self._keys else None

    def ready(self) -> str | None:
        """Return the key for the next request, None of an empty pool.

        It is the current one; where that rests, the next one that does not; where all rest, the first to be back;
        where all were put out, the first, and each has another chance.
        """
        with self._lock:
            if not self._rests:
                return self._keys[self._at] if self._keys else None
            if all(self._rest_of(key) is _OUT for key in self._keys):
                self._rests.clear()
                self._at = 0
            if not self._is_fresh(self._keys[self._at]) and not self._rotate(()):
                back_s = [self._rest_of(key).until_s for key in self._keys]
                self._at = back_s.index(min(back_s))
            return self._keys[self._at]

    def wait_s(self) -> float | None:
        """Return the seconds until the first key is back, None where no provider said so."""
        with self._lock:
            rest = min(map(self._rest_of, self._keys), key=lambda rest: rest.until_s, default=_OUT)
            is_known = rest.is_stated and rest.until_s < inf
            return max(0.0, rest.until_s - self._monotonic_s()) if is_known else None

    @property
    def is_out(self) -> bool:
        """True when every key was refused for good."""
        with self._lock:
            return all(self._rest_of(key) is _OUT for key in self._keys)

    def mark_exhausted(self, for_s: float | None = None) -> None:
        """Let the current key rest; it stays the current one until `rotate`."""
        with self._lock:
            if self._keys:
                self._lay(self._keys[self._at], for_s)

    def rotate(self) -> bool:
        """Go on to the next key that does not rest; say whether there was one."""
        with self._lock:
            return self._rotate(())

    def spend(
        self, key: str, for_s: float | None = None, *, is_out: bool = False, tried: Collection[str] = ()
    ) -> str | None:
        """Let `key` rest and return another one to use at once, None where all others rest or were `tried`.

        The key is named because another thread may have gone on from it already.

        Args:
            for_s: how long the provider said, in seconds.
            is_out: the key was refused for good.
            tried: keys that are not to be returned, though their rest may be over.
        """
        with self._lock:
            if key not in self._keys:
                return None
            self._lay(key, for_s, is_out=is_out)
            now = self._keys[self._at]
            if (now != key and now not in tried and self._is_fresh(now)) or self._rotate((key, *tried)):
                return self._keys[self._at]
            return None

    def _lay(self, key: str, for_s: float | None, *, is_out: bool = False) -> None:
        until_s = self._monotonic_s() + (RECOVERY_S if for_s is None else for_s)
        self._rests[key] = _OUT if is_out else _Rest(until_s, is_stated=for_s is not None)

    def _rotate(self, without: Collection[str]) -> bool:
        for step in range(1, len(self._keys)):
            at = (self._at + step) % len(self._keys)
            if self._keys[at] not in without and self._is_fresh(self._keys[at]):
                self._at = at
                return True
        return False

    def _is_fresh(self, key: str) -> bool:
        return self._monotonic_s() >= self._rest_of(key).until_s

    def _rest_of(self, key: str) -> _Rest:
        return self._rests.get(key, _FRESH)
