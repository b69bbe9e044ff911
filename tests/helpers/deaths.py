"""Processes that are gone in the middle of what they do on disk."""

from __future__ import annotations

import os
from collections.abc import Callable


def die_before(step: int, live: Callable[[Callable[[str], None]], object]) -> int:
    """Do something in a forked process that is gone before its nth step on disk; return how that process ended.

    Args:
        live: gets what is to be called ahead of each step, as `hands.editing.atomic` calls its `before`.
    """
    pid = os.fork()
    if pid == 0:
        count = 0

        def before(_step: str) -> None:
            nonlocal count
            count += 1
            if count == step:
                os._exit(9)

        try:
            live(before)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
