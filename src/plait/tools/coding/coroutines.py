"""The strict tools as coroutine functions, for a host whose callbacks are: the work in a thread, the questions here.

Floor: 3. Owns: crossing from a loop into a thread and waiting for it, whatever happens; never: the work.

Every call has a thread of its own, so that no pool can run out of them while one call waits for another's answer.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

from plait.core.cancel import Cancel
from plait.kernel.tools import ToolContext

HOST_LOOP: Final[ContextVar[asyncio.AbstractEventLoop | None]] = ContextVar("plait_coding_loop", default=None)
"""The loop in which an asynchronous host waits for the call that runs in this thread."""


def in_thread(fn: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Return a tool function as a coroutine function.

    Cancel: a cancelled call is told to stop, and has stopped before the cancellation goes on; its loop is not held up.
    """
    takes_call = "call" in inspect.signature(fn).parameters

    @functools.wraps(fn)
    async def run(**arguments: Any) -> Any:
        cancel = Cancel()
        if takes_call:
            given = arguments.get("call")
            context = given if isinstance(given, ToolContext) else ToolContext("", "", Cancel())
            cancel = context.cancel.child()
            arguments["call"] = replace(context, cancel=cancel)
        try:
            return await _outlast(_started(functools.partial(fn, **arguments)), cancel)
        finally:
            cancel.detach()

    return run


def _started(work: Callable[[], Any]) -> asyncio.Future[Any]:
    """Run work in a new thread, which knows this loop; return what will be its result."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()
    context.run(HOST_LOOP.set, loop)

    def tell(result: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def serve() -> None:
        result, raised = None, None
        try:
            result = context.run(work)
        except BaseException as error:  # boundary: raised again in the loop that waits
            raised = error
        with suppress(RuntimeError):  # the loop is closed, and nobody waits in it
            loop.call_soon_threadsafe(tell, result, raised)

    threading.Thread(target=serve, name="plait-coding", daemon=True).start()
    return future


async def _outlast(future: asyncio.Future[Any], cancel: Cancel) -> Any:
    """Wait for a thread; when this task is cancelled, tell the thread to stop and wait until it has."""
    stopped: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            stopped = error
            cancel.cancel("cancelled")
    if stopped is not None:
        future.exception()  # seen: nobody waits for it any more
        raise stopped
    return future.result()
