"""`plait run --nohup` is killed beside its job: the job goes on, the resume has it, and the end of the run ends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plait.testing import Call, ScriptServer
from plait.testing.faults import Stall
from plait.testing.request import Request
from tests.e2e.command import plait, start, wait_until
from tests.e2e.test_resuming import kill, run
from tests.helpers.processes import working_in


def test_a_job_outlives_a_killed_run_and_not_an_orderly_one(tmp_path: Path) -> None:
    """After kill -9 the resume offers the same tools, finds the job alive, reads its output, and ends it at its end."""

    def answer(request: Request) -> Any:
        told = [message["content"] for message in request.messages if message["role"] == "tool"]
        job = json.loads(told[0]) if told else {}
        if request.number == 2:
            return Stall("mid_event", answer="One two.")
        return (
            Call("nohup", {"command": "echo out; sleep 61; true"}),
            Call("nohup_wait", {"tool_exec_id": job.get("tool_exec_id"), "howmuch": 0.1}),
            Call("read_file", {"path": job.get("stdout_localfile")}),
            "Done.",
        )[len(told)]

    with ScriptServer(answer) as server:
        process = start(*run(server, "--session", "s", "--nohup"), cwd=tmp_path)
        server.wait_for_requests(2)
        kill(process)
        wait_until(lambda: "sleep 61" in working_in(tmp_path), "the job")
        ran = plait("resume", "s", "--yes", cwd=tmp_path)
        bodies = [json.loads(request.body) for request in server.requests]

    assert (0, "Done.\n") == (ran.code, ran.out)
    assert ["nohup", "nohup_query", "nohup_wait"] == [tool["function"]["name"] for tool in bodies[2]["tools"]][-3:]
    assert server.requests[1].body == server.requests[2].body
    said = [message["content"] for message in bodies[-1]["messages"] if message["role"] == "tool"]
    assert (False, "out\n") == (json.loads(said[1])["completed"], said[2])
    wait_until(lambda: "sleep 61" not in working_in(tmp_path), "the end of the job")
