"""`plait probe` as its users type it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from plait.testing import Request, Say, ScriptServer, unused_url
from plait.testing.faults import Hold, Status
from tests.e2e.command import Line, end_of, environment, plait, plait_each, start
from tests.unit.models.probes.test_probing import Server


def test_a_probe_writes_a_spec_that_a_run_uses(tmp_path: Path) -> None:
    """What it will cost is said first, what was found line by line, and `plait run` asks on the wire that was found."""

    def responses_only(request: Request) -> Any:
        if not request.path.endswith("/responses"):
            return Status(404)
        return Say("done by the spec") if b"what next" in request.body else Server()(request)

    with ScriptServer(responses_only) as server:
        probe, run = plait_each(
            ["probe", server.url, "-m", "org/m"],
            ["run", "--spec", "agent_spec_org_m.json", "what next"],
            cwd=tmp_path,
        )

    assert (0, 0) == (probe.code, run.code), (probe, run)
    assert "usually 6 requests" in probe.err.splitlines()[0]
    assert "7 requests, " in probe.err
    assert "yes      calls tools: called 'get_temperature'" in probe.out
    assert "wire responses, window not stated, written to agent_spec_org_m.json" == probe.out.splitlines()[-1]
    assert "done by the spec\n" == run.out
    assert server.requests[-1].path.endswith("/responses")


def test_json_is_one_object_and_the_rest_is_talk(tmp_path: Path) -> None:
    """--json prints the dossier; -o names the file, and the key's variable goes into the spec, never the key."""
    with ScriptServer(Server()) as server:
        ran = plait(
            "probe",
            server.url,
            *("-m", "m", "--wire", "chat", "--key-env", "MY_KEY", "-o", "s.json", "--json"),
            cwd=tmp_path,
            env=environment(MY_KEY="k-123456789"),
        )

    told = ran.json
    spec = json.loads((tmp_path / "s.json").read_text())
    assert (0, "completed", "s.json", "chat", 6) == (
        ran.code,
        told["status"],
        told["spec"],
        told["wire"],
        told["requests"],
    )
    assert {"yes"} == {finding["verdict"] for finding in told["findings"]}
    assert told["usage"]["input"] > 0
    assert ("MY_KEY", True) == (spec["key_env"], spec["provider_api_support"]["tools"]["supported"])
    assert "k-123456789" not in (tmp_path / "s.json").read_text() + ran.out + ran.err
    assert "Bearer k-123456789" == server.requests[0].headers["authorization"]


def test_what_cannot_be_probed_is_a_sentence_and_an_exit_code(tmp_path: Path) -> None:
    """What is wrong with the command ends with 2 and asks nothing, a key or a port with 3; no file is left."""
    (tmp_path / "agent_spec_m.json").write_text("mine")
    with ScriptServer(lambda _: Status(401)) as server:
        taken, no_model, no_address, no_folder, key, port, missing = plait_each(
            ["probe", server.url, "-m", "m"],
            ["probe", server.url],
            ["probe", "ftp://x", "-m", "n"],
            ["probe", server.url, "-m", "n", "-o", "no/such/s.json"],
            ["probe", server.url, "-m", "n", "--json"],
            ["probe", unused_url(), "-m", "n", "--retries", "0"],
            Line(["probe", "openai", "-m", "n"], {}),
            cwd=tmp_path,
        )

    assert [2, 2, 2, 2, 3, 3, 3] == [ran.code for ran in (taken, no_model, no_address, no_folder, key, port, missing)]
    assert "--force" in taken.err
    assert "AuthenticationError" == key.json["error"]["class"]
    assert "nothing listens" in port.err
    assert "OPENAI_API_KEY" in missing.err
    assert "mine" == (tmp_path / "agent_spec_m.json").read_text()
    assert ["agent_spec_m.json"] == [path.name for path in tmp_path.iterdir()]
    assert 1 == len(server.requests)


def test_force_replaces_a_spec(tmp_path: Path) -> None:
    """With --force the old file is gone when the new one is whole."""
    (tmp_path / "agent_spec_m.json").write_text("mine")
    with ScriptServer(Server()) as server:
        ran = plait("probe", server.url, "-m", "m", "--force", cwd=tmp_path)

    assert 0 == ran.code
    assert "probed" == json.loads((tmp_path / "agent_spec_m.json").read_text())["status"]


def test_ctrl_c_ends_a_probe(tmp_path: Path) -> None:
    """The request is dropped, nothing is written, and the exit code is 130."""
    with ScriptServer([Hold()], allow_unused=True) as server:
        process = start("probe", server.url, "-m", "m", "--wire", "chat", "--json", cwd=tmp_path)
        server.wait_for_requests(1, timeout_s=30)
        process.send_signal(signal.SIGINT)
        ran = end_of(process)

    assert (130, "interrupted") == (ran.code, ran.json["status"])
    assert [] == list(tmp_path.iterdir())
