"""Full capture: requests and answers to the byte, safe before anybody acts on them, at a price that does not grow."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from plait.core.errors import JournalCorrupt
from plait.engine.agent_spec import AgentSpec
from plait.engine.spec import default_specification
from plait.events.named import NamedEvent
from plait.kernel.rules import Retry
from plait.kernel.tools import Tool
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.turns import run_turn
from plait.store.capture import CaptureFile, common_bytes, read_capture
from plait.testing import Call, ScriptedModel, ScriptServer
from plait.testing.faults import Status
from tests.unit.session.clients import OwnClient

SPEC = default_specification("m", "http://127.0.0.1:1/v1")
ECHO = Tool("echo", "Say it again.", lambda text: f"echo:{text}", parameters={"type": "object"})
HI = Call("echo", {"text": "hi \u00e9 \U0001f600"})
FOLDER = Path("kept")


def opened(spec: Mapping[str, Any] = SPEC, **options: Any) -> Session:
    """Return a session that captures everything."""
    return init_session(spec, **{"tools": [ECHO], "strict_cache_proof": False, "session_dir": FOLDER, **options})


def captured(*types: str) -> list[dict[str, Any]]:
    """Return the records of these types, or all."""
    records = list(read_capture(FOLDER / "events.jsonl"))
    return [record for record in records if not types or record["type"] in types]


def test_e38_requests_and_answers_are_there_to_the_byte() -> None:
    """Every body as it was sent, every piece of every answer, in order, without a key."""
    os.environ["MY_KEY"] = "very-secret"
    with ScriptServer([HI, "One.", "Two."]) as server:
        spec = AgentSpec({**SPEC, "endpoint": server.url, "key_env": "MY_KEY"})
        with create_client(spec) as client, opened(spec) as session:
            for _ in range(2):
                assert run_turn(client, "m", session, "Go \u00e9 on.").error is None
        sent = [request.body for request in server.requests]

    attempts = captured("model_request_attempt")
    assert sent == [record["data"]["body"].encode() for record in attempts]
    types = [record["type"] for record in captured() if record["type"] != "event"]
    assert [
        "capture_start",
        "model_request",
        "model_request_attempt",
        "model_response_head",
        "model_response_frame",
    ] == types[:5]
    assert 3 == types.count("model_request") == types.count("model_response") == types.count("model_response_head")
    assert "One." == captured("model_response")[1]["data"]["content"]
    frames = "".join(record["data"]["data"] for record in captured("model_response_frame"))
    assert 3 == frames.count("data: [DONE]")
    assert b"very-secret" not in (FOLDER / "events.jsonl").read_bytes()
    assert {"events.jsonl", "journal.jsonl", "messages.json"} <= set(os.listdir(FOLDER))
    assert session["messages"] == json.loads((FOLDER / "messages.json").read_text())["messages"]
    assert {0o600} == {path.stat().st_mode & 0o777 for path in FOLDER.iterdir() if path.is_file()}


def test_events_are_there_before_a_handler_hears_of_them() -> None:
    """Every event of the session is in the capture, as often as it is heard, with its data."""
    heard: list[str] = []
    with opened(on_event=lambda name, _: heard.append(name)) as session, ScriptedModel([HI, "One."]) as model:
        run_turn(model, "m", session, "Go on.")
    events = captured("event")

    assert heard == [record["data"]["event_type"] for record in events]
    assert ["hi \u00e9 \U0001f600"] == [
        record["data"]["data"]["args"]["text"] for record in events if record["data"]["event_type"] == "tool_call"
    ]


def test_a_request_is_safe_before_it_is_sent_and_an_answer_before_it_is_used() -> None:
    """When the endpoint sees a request, its record is on disk; when a tool runs, the answer that asked for it is."""
    seen: list[list[str]] = []

    def look(*_: object) -> str:
        seen.append([record["type"] for record in captured() if record["type"].startswith("model")])
        return "seen"

    tool = Tool("echo", "", lambda text: look(), parameters={"type": "object"}, idempotent=True)
    with ScriptServer(lambda asked: (look(), HI if len(asked.messages) == 2 else "One.")[1]) as server:
        spec = AgentSpec({**SPEC, "endpoint": server.url})
        with create_client(spec) as client, opened(spec, tools=[tool]) as session:
            assert "One." == run_turn(client, "m", session, "Go on.").final_reply

    assert ["model_request", "model_request_attempt"] == seen[0]
    assert "model_response" == seen[1][-1]
    assert [2, 2] == [seen[2].count(name) for name in ("model_request", "model_request_attempt")]


def test_the_price_of_a_step_does_not_grow_with_the_history() -> None:
    """A hundred steps take a hundred times what one takes, although each sends all of those before it."""
    sizes: list[int] = []

    def note(name: str, _: NamedEvent) -> None:
        if name == "tool_result":
            sizes.append((FOLDER / "events.jsonl").stat().st_size)

    with ScriptServer([*[Call("echo", {"text": f"{step:04}" * 50}) for step in range(60)], "One."]) as server:
        spec = AgentSpec({**SPEC, "endpoint": server.url})
        with create_client(spec) as client, opened(spec, on_event=note) as session:
            assert run_turn(client, "m", session, "Go on.").error is None
    steps = [later - earlier for earlier, later in itertools.pairwise(sizes)]

    assert sum(steps[-10:]) < 1.2 * sum(steps[5:15])
    assert 61 == len(captured("model_request_attempt"))


def test_a_failed_request_is_there_too() -> None:
    """What was refused, and with what; the next attempt follows."""
    with ScriptServer([Status(500), "One."]) as server:
        spec = AgentSpec({**SPEC, "endpoint": server.url})

        with create_client(spec) as client, opened(spec, retry=Retry(base_s=0.001)) as session:
            assert "One." == run_turn(client, "m", session, "Go on.").final_reply

    assert [500, 200] == [record["data"]["status"] for record in captured("model_response_head")]
    assert 1 == len(captured("model_failure"))


def test_a_client_of_ones_own_is_captured_too() -> None:
    """Its requests without callbacks, its answers as documents."""
    with opened() as session:
        run_turn(OwnClient(HI, "One."), "m", session, "Go on.")
    bodies = [json.loads(record["data"]["body"]) for record in captured("model_request_attempt")]

    assert [2, 4] == [len(body["messages"]) for body in bodies]
    assert "One." == captured("model_response_frame")[1]["data"]["data"]["choices"][0]["message"]["content"]


def test_a_session_goes_on_in_its_capture() -> None:
    """A second process begins with a whole body; an unfinished line of the first is cut off."""
    for text in ("One.", "Two."):
        with ScriptServer([text]) as server:
            spec = AgentSpec({**SPEC, "endpoint": server.url})
            with create_client(spec) as client, opened(spec) as session:
                assert text == run_turn(client, "m", session, "Go on.").final_reply
        with (FOLDER / "events.jsonl").open("ab") as file:
            file.write(b'{"n":99,"at":1,"type":"ev')

    assert [2, 4] == [
        len(json.loads(record["data"]["body"])["messages"]) for record in captured("model_request_attempt")
    ]
    assert 2 == len(captured("capture_start"))


def test_a_fork_writes_nothing(tmp_path: Path) -> None:
    """A child that ends with the file open leaves what was added before the fork to its parent."""
    file = CaptureFile(tmp_path, lambda: 1)
    file.add("event", {"n": 1})
    file.commit()
    file.add("event", {"n": 2})
    pid = os.fork()
    if pid == 0:
        file.close()
        os._exit(0)
    os.waitpid(pid, 0)
    file.close()

    assert [1, 2] == [record["data"]["n"] for record in read_capture(file.path) if record["type"] == "event"]


def test_an_unused_session_captures_nothing() -> None:
    """Neither a folder nor a file is made."""
    with opened():
        pass

    assert not FOLDER.exists()


@pytest.mark.parametrize(
    "one, other, keeps",
    [
        (b"", b"", 0),
        (b"abc", b"abd", 2),
        (b"abc", b"abcdef", 3),
        ("\u00e9".encode(), "\u00e8".encode(), 0),
        ("x\U0001f600".encode(), "x\U0001f601".encode(), 1),
        (b"x" * 1_000_000, b"x" * 999_999 + b"y", 999_999),
    ],
    ids=["empty", "last", "all", "half", "part", "long"],
)
def test_what_two_bodies_begin_with(one: bytes, other: bytes, keeps: int) -> None:
    """As many bytes as are alike, and no half character."""
    assert keeps == common_bytes(one, other)


def test_every_byte_can_be_had_back(tmp_path: Path) -> None:
    """Bodies that are no UTF-8, extend each other, shrink, or are empty, come back as they were."""
    bodies = [b"", b"\xff\xfe", b"\xff\xfe\xc3", "\xe9\ud7ff".encode(), b"{}", b'{"a":1}', b"{"]
    file = CaptureFile(tmp_path, lambda: 1)
    for body in bodies:
        file.add("model_request_attempt", {"body": file.body((body[:1], body[1:]))})
        file.commit()
    file.close()
    found = [record["data"]["body"] for record in read_capture(file.path) if "body" in record["data"]]

    assert bodies == [body.encode("utf-8", "surrogateescape") for body in found]


def test_a_damaged_capture_is_said(tmp_path: Path) -> None:
    """A line that is none is named with its offset."""
    (tmp_path / "events.jsonl").write_bytes(b'{"n":1,"at":1,"type":"x","data":{}}\nnothing\n')

    with pytest.raises(JournalCorrupt, match="at byte 36"):
        list(read_capture(tmp_path / "events.jsonl"))
