"""A fence that is made when the first command asks for it, so that what runs no command pays for none.

Floor: 2. Owns: the one verdict whether there is a fence, kept once it was found; never: what follows from it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from plait.core.errors import Refusal
from plait.hands.fence.policy import BARRED, SandboxPolicy

if TYPE_CHECKING:
    from plait.hands.fence.fence import Fence

UNCONFINED: Final = "none"
"""The level of a command that ran without a fence where there was to be one."""


class LateFence:
    """The fence of one policy, once it is asked for. Safe in any thread.

    Whatever was found holds from then on: a command that was judged with a fence in view never runs without one.
    """

    def __init__(
        self, policy: SandboxPolicy | None, *, reason: str = "", missing: Callable[[str], object] = lambda reason: None
    ) -> None:
        """Take a policy, or the reason why there can be none.

        `missing` is told the reason once, when a fence is asked for that cannot be made; it may not raise.
        """
        self.policy: Final = policy
        self.reason: str = reason
        """Why no fence can be made; empty while that is not known, and where one was made."""
        self.advice: str = ""
        """What to do about it."""
        self.is_barred: bool = False
        """It is the workspace that is in the way: a repository does not take the fence away, and no command runs."""
        self.scratch: Callable[[], str | None] = lambda: None
        """Returns a directory for files that come and go, which commands may change as well."""
        self._missing = missing
        self._lock = threading.Lock()
        self._is_judged = False
        self._fence: Fence | None = None

    def found(self) -> Fence | None:
        """Return the fence, made and tried around the policy's own workspace now; None where none can be made."""
        with self._lock:
            if self._is_judged:
                return self._fence
            try:
                self._fence = None if self.policy is None else self._made(self.policy)
            except Refusal as refusal:
                self.reason, self.advice = refusal.message, refusal.hint
                self.is_barred = bool(refusal.details.get(BARRED))
            self._is_judged = True
        if self._fence is None:
            self._missing(self.reason)
        return self._fence

    def _made(self, policy: SandboxPolicy) -> Fence:
        from plait.hands.fence.fence import BubblewrapFence, open_fence  # most of it is for making one

        fence = open_fence(policy, is_tried_in_place=True)
        return replace(fence, scratch=lambda: self.scratch()) if isinstance(fence, BubblewrapFence) else fence

    @property
    def level(self) -> str | None:
        """What the fence is made of, `none` where there is none, None while nobody has asked for it."""
        if not self._is_judged:
            return None
        return UNCONFINED if self._fence is None else self._fence.level
