"""Several keys for one endpoint: when one is spent, the next is used.

Floor: 2. Owns: which key is used now; never: where keys come from.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Self

from plait.models.credentials import FromEnv

RECOVERY_S: Final = 60.0
"""How long a key rests that was refused without saying for how long."""


class CredentialPool:
    """Keys in order of preference; safe to use from any thread.

    A key that was refused for its rate rests until the provider's time is over, and is used again then.
    """

    def __init__(self, keys: Iterable[str], *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._keys = tuple(dict.fromkeys(key for raw in keys if (key := raw.strip())))
        self._rests_until: dict[str, float] = {}
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

    def current(self) -> str | None:
        """Return the key to use now, None of an empty pool."""
        with self._lock:
            return self._keys[self._at] if self._keys else None

    def mark_exhausted(self, for_s: float | None = None) -> None:
        """Let the current key rest; it stays the current one until `rotate`."""
        with self._lock:
            if self._keys:
                self._rest(self._keys[self._at], for_s)

    def rotate(self) -> bool:
        """Go on to the next key that does not rest; say whether there was one."""
        with self._lock:
            return self._rotate()

    def spend(self, key: str, for_s: float | None = None) -> str | None:
        """Let `key` rest and return another one to use at once, None where all of them rest.

        The key is named because another thread may have gone on from it already.
        """
        with self._lock:
            if key not in self._keys:
                return None
            self._rest(key, for_s)
            if self._is_fresh(self._keys[self._at]) or self._rotate():
                return self._keys[self._at]
            return None

    def _rest(self, key: str, for_s: float | None) -> None:
        self._rests_until[key] = self._monotonic_s() + (RECOVERY_S if for_s is None else for_s)

    def _rotate(self) -> bool:
        for step in range(1, len(self._keys)):
            at = (self._at + step) % len(self._keys)
            if self._is_fresh(self._keys[at]):
                self._at = at
                return True
        return False

    def _is_fresh(self, key: str) -> bool:
        return self._monotonic_s() >= self._rests_until.get(key, 0.0)
