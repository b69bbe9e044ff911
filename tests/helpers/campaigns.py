"""A campaign: one test that runs small in every suite and large under `make prove`.

The runner (`tools/prove.py`) says how large, which part, for how long and from which seed; without it a campaign takes
a few fixed cases, so that a red run is red again. What was done is told to the runner as properties of the test.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass
class Campaign:
    """How large to run, and what was run."""

    is_full: bool = False
    part: int = 0
    parts: int = 1
    seconds: float | None = None
    seed: int = 1
    cases: int = 0
    is_cut: bool = False
    """The time was over before the cases were."""
    _began_s: float | None = None
    """When the first case began: what has to be ready before it may take its time."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ, *, sharing: int = 1) -> Campaign:
        """Return what the runner asked for, or a small one; so many share the time."""
        if "PROVE_PART" not in environ:
            return cls()
        part, _, parts = environ["PROVE_PART"].partition("/")
        seconds = environ.get("PROVE_SECONDS")
        return cls(
            True, int(part) - 1, int(parts), float(seconds) / sharing if seconds else None, int(environ["PROVE_SEED"])
        )

    def each(self, items: Sequence[T], fast: int) -> Iterator[T]:
        """Give every item of this part, in an order that spreads over all of them; alone, `fast` of them."""
        if not self.is_full:
            count = min(fast, len(items))
            yield from self._counted([items[number * len(items) // count] for number in range(count)])
            return
        mine = [*items[self.part :: self.parts]]
        # Whenever the time is over, what was tried lies everywhere and not only at the beginning.
        random.Random(self.seed).shuffle(mine)
        yield from self._counted(mine)

    def seeds(self, fast: int, full: int) -> Iterator[int]:
        """Give seeds, of which each stands for one random case, and print the first."""
        count = full if self.is_full else fast
        print(f"seeds {self.seed} to {self.seed + count - 1}")
        yield from self._counted(range(self.seed + self.part, self.seed + count, self.parts))

    def _counted(self, items: Sequence[T]) -> Iterator[T]:
        if self._began_s is None:
            self._began_s = time.monotonic()
        for item in items:
            if self.seconds is not None and self.cases and time.monotonic() - self._began_s > self.seconds:
                self.is_cut = True
                return
            yield item
            self.cases += 1
