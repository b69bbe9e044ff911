"""Ctrl-C while the engine waits, in a process of its own: `python -m tests.helpers.engine_interrupts WHERE`.

Prints the end's reason, the status of every result, and what was said. A turn that does not end is killed by the
test's timeout.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from typing import Any

from plait.core.cancel import Cancel
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.kernel.ports import Setup
from plait.kernel.state import fold
from plait.kernel.tools import Tool, ToolContext, ToolTable
from plait.testing import Call, Fail, ScriptedModel, Silence
from tests.helpers.conversations import TASK
from tests.helpers.hosts import NotedLog
from tests.helpers.worlds import assert_same_state

_FIRST = threading.Lock()


def interrupt_soon() -> None:
    """Send this process a real SIGINT, the first time, once the main thread has had time to fall asleep."""
    if not _FIRST.acquire(blocking=False):
        return

    def send() -> None:
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=send, daemon=True).start()


def sleeping() -> str:
    """Sleep in the main thread."""
    interrupt_soon()
    time.sleep(60)
    return "never"


def waiting(context: ToolContext) -> str:
    """Wait in a thread until told to stop."""
    interrupt_soon()
    context.cancel.wait(60)
    return f"told: {context.cancel.reason}"


async def awaiting() -> str:
    """Wait on the portal's loop."""
    interrupt_soon()
    await asyncio.sleep(60)
    return "never"


SCRIPTS: dict[str, list[Any]] = {
    "model": [Silence("Once upon")],
    "tool": [Call("sleeping")],
    "threads": [[Call("waiting"), Call("waiting")]],
    "portal": [Call("awaiting")],
    "retry": [Fail("overloaded", retry_after_s=60)],
}


def main(where: str) -> None:
    """Run a turn that is interrupted while it waits, and print what came of it."""
    tools = ToolTable(
        [
            Tool("sleeping", "", sleeping),
            Tool("waiting", "", waiting, parallel_safe=True),
            Tool("awaiting", "", awaiting),
        ]
    )
    log = NotedLog()
    model = ScriptedModel(SCRIPTS[where], allow_unused=True)
    conversation = Conversation(model, Terms(tools, Setup()), Workbench(), log=log, alog=log)
    if where in ("model", "retry"):
        conversation.observers.add(lambda _: None)
        interrupt_soon()
    end = conversation.turn((TASK,), cancel=Cancel())
    state = conversation.state
    assert not state.in_turn
    assert_same_state(state, fold(log.durable))
    results = [result for message in state.history for result in message.tool_results]
    json.dump(
        [end.reason, [f"{result.status}: {result.content[:20]}" for result in results], state.history[-1].content],
        sys.stdout,
    )


if __name__ == "__main__":
    main(sys.argv[1])
