"""The background shell under the name that programs import it by.

Floor: 6. Owns: nothing; never: logic.

Programs assign to `wait_interrupt_hook` here; that sets the process's default, as `plait.set_wait_interrupt_hook` does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

from plait.session.background import drain_completions
from plait.session.defaults import LIBRARY, get_wait_interrupt_hook, set_wait_interrupt_hook
from plait.tools.background import ASYNC_FAST_THRESHOLD_S, ASYNC_INLINE_MAX_BYTES, completion_notice
from plait.tools.background_specs import (
    NOHUP_TIMEOUT_MIN,
    WAIT_FOR_MAX_SECONDS,
    WAIT_FOR_UNIT_SECONDS,
    enable_nohup,
    nohup_tool_specs,
)

wait_interrupt_hook: Callable[[], bool] | None
"""Asked while a call waits for a background job: True ends the wait, and the job runs on."""
t_execute_async = LIBRARY.own.t_execute_async
t_query_exec = LIBRARY.own.t_query_exec
t_nohup = LIBRARY.own.t_nohup
t_nohup_wait = LIBRARY.own.t_nohup_wait

__all__ = [
    "ASYNC_FAST_THRESHOLD_S",
    "ASYNC_INLINE_MAX_BYTES",
    "NOHUP_TIMEOUT_MIN",
    "WAIT_FOR_MAX_SECONDS",
    "WAIT_FOR_UNIT_SECONDS",
    "completion_notice",
    "drain_completions",
    "enable_nohup",
    "nohup_tool_specs",
    "t_execute_async",
    "t_nohup",
    "t_nohup_wait",
    "t_query_exec",
]


class _Module(ModuleType):
    @property
    def wait_interrupt_hook(self) -> Callable[[], bool] | None:
        """Asked while a call waits for a background job."""
        return get_wait_interrupt_hook()

    @wait_interrupt_hook.setter
    def wait_interrupt_hook(self, hook: Callable[[], bool] | None) -> None:
        set_wait_interrupt_hook(hook)


sys.modules[__name__].__class__ = _Module
