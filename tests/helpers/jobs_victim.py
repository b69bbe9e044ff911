"""A life of a session's process that starts a background job and waits for it; the job survives the process.

Points stand, beside those of the journal, around every step of a job's start and of what is looked up of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from plait.hands import jobs
from plait.hands.jobs import Job, Jobs
from plait.hands.launcher import Launcher, Started
from plait.hands.spool import Entry, Spool
from plait.kernel.tools import Tool
from plait.testing import Call, Say
from plait.tools.board import Board
from plait.tools.toolbox import Toolbox, ToolboxOptions
from tests.helpers.effects_victim import WORK, passing
from tests.helpers.victim import Life, Order

COMMAND: Final = "echo n1 >> effects; sleep 0.02; echo out; exit 3"
_WATCHED: Final = (
    (jobs, "_make_input"),
    (jobs, "_write_terms"),
    (jobs, "_claimed"),
    (Launcher, "start_apart"),
    (Started, "order"),
    (Entry, "make"),
    (Entry, "withdraw"),
    (Spool, "prepare"),
    (Jobs, "adopt"),
    (Board, "link"),
    (Board, "tell"),
    (Job, "state"),
)


class JobsLife(Life):
    """A life with the background shell, in a workspace of the session's folder."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._work = Path(order.folder, WORK)
        self._work.mkdir(exist_ok=True)
        spool, spill = (Path(order.folder, "session", name) for name in ("spool", "spill"))
        self._box = Toolbox(self._work, ToolboxOptions(spool=spool, spill_dir=spill, job_grace_s=0.1))

    def live(self) -> int:
        """Live, and close what was opened."""
        passed = super().live()
        self._box.close()
        return passed

    def answer(self, asked: Any) -> Any:
        """Start a job, wait for it where it was started, and be done."""
        results = [result for message in asked.messages for result in message.tool_results]
        if not results:
            return Say("I start.", calls=[Call("nohup", {"command": COMMAND}, id="n1")])
        if len(results) == 1 and results[0].status == "ok":
            job = json.loads(results[0].content)
            return Say(calls=[Call("nohup_wait", {"tool_exec_id": job["tool_exec_id"], "howmuch": 30}, id="n2")])
        return Say("Done.")

    def _tools(self) -> list[Tool]:
        return self._box.background.tools()

    def _watch(self) -> None:
        for owner, name in _WATCHED:
            setattr(owner, name, passing(self._points, getattr(owner, name)))
