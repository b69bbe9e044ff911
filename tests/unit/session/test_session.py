"""A session is a dict that can be read, stored and opened again."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import weakref
from pathlib import Path

import pytest

from plait.core.errors import ConfigError
from plait.engine.spec import default_specification
from plait.events.named import NamedEvent
from plait.kernel.tools import Tool
from plait.session.opening import init_session
from plait.session.session import REQUIRED, Session
from plait.session.turns import run_turn
from plait.testing import Call, Say, ScriptedModel
from tests.unit.session.clients import OwnClient

SPEC = default_specification("m", "http://127.0.0.1:1/v1")


def talked(**options: object) -> Session:
    """Return a session after one turn with a tool call."""
    session = init_session(SPEC, tools=[Tool("now", "Say when.", lambda: "noon")], **options)
    asks = Say(calls=[Call("now")], usage={"input": 5, "output": 1, "cache_read": 0})
    with ScriptedModel([asks, "It is noon."]) as model:
        run_turn(model, "m", session, "When?")
    return session


def test_keys_are_attributes() -> None:
    """Every public key is an attribute too, whichever of them is changed; another name is an AttributeError."""
    session = init_session(SPEC)

    assert (session["session_id"], session["messages"]) == (session.session_id, session.messages)
    session.max_output_tokens = 7
    assert 7 == session["max_output_tokens"]
    session["cache_key"] = "k"
    assert "k" == session.cache_key
    assert not hasattr(session, "nothing")
    del session["cache_key"]
    assert not hasattr(session, "cache_key")
    assert Session.messages is not None


def test_the_handler_for_everything_can_be_exchanged() -> None:
    """`on_event` is an attribute and no key; what is put under that key is heard all the same."""
    heard: list[str] = []
    session = init_session(SPEC)
    session["on_event"] = lambda name, _: heard.append(name)
    with ScriptedModel(["one", "two"]) as model:
        run_turn(model, "m", session, "a")
        before = len(heard)
        session.on_event = None
        run_turn(model, "m", session, "b")

    assert ("turn_end", before) == (heard[-1], len(heard))
    assert "on_event" not in session


def test_a_session_is_a_dict() -> None:
    """`in`, `.get`, `len` and iteration work as in every dict, and every value is JSON."""
    session = talked()

    assert "messages" in session
    assert session.get("nothing", 3) == 3
    assert dict(session) == json.loads(json.dumps(session))
    assert {"m", "http://127.0.0.1:1/v1"} == {session["model"], session["endpoint"]}
    assert ["read_file", "write_file", "str_replace", "exec_shell", "now"] == list(session["tool_dispatch"])
    assert {"python_function": "t_update", "param_map": {"old_str": "old", "new_str": "new"}} == (
        session["tool_dispatch"]["str_replace"]
    )
    assert ["read_file", "write_file", "str_replace", "exec_shell", "now"] == [
        entry["function"]["name"] for entry in session["tools"]
    ]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda session: pickle.loads(pickle.dumps(session))])
def test_a_copy_is_the_plain_dict(copied: object) -> None:
    """A copied or pickled session is the dict of its keys: it holds nothing that is alive."""
    session = talked()
    plain = copied(session)  # type: ignore[operator]

    assert (dict, dict(session)) == (type(plain), plain)


def test_a_stored_session_goes_on() -> None:
    """From the JSON of a session the conversation goes on: id, messages, system prompt and usage are the same."""
    stored = json.loads(json.dumps(talked(system_prompt_supplement="Be old.")))
    heard: list[NamedEvent] = []
    session = init_session(SPEC, session=stored, on_event=lambda _, event: heard.append(event))

    assert stored["messages"] == session["messages"]
    assert ("session_restored", 5) == (heard[-1].type, heard[-1]["messages_loaded"])
    with ScriptedModel([Say("Still noon.", usage={"input": 7, "output": 2, "cache_read": 0})]) as model:
        result = run_turn(model, "m", session, "And now?")

    assert stored["session_id"] == result.session_id
    assert ["When?", "", "", "It is noon.", "And now?"] == [message.content for message in model.requests[0].messages]
    assert model.requests[0].setup.system.endswith("Be old.")
    before = stored["usage_totals"]
    assert (before["prompt"] + 7, before["completion"] + 2) == (result.usage["prompt"], result.usage["completion"])
    assert 3 == session["llm_call_count"]
    totals = [event for event in heard if event.type == "session_usage"]
    assert result.usage == dict(totals[-1])


def test_a_live_session_goes_on_in_another() -> None:
    """An open session can be handed on as it is; the old one is left as it was."""
    old = talked()
    new = init_session(SPEC, session=old)
    with ScriptedModel(["ok"]) as model:
        run_turn(model, "m", new, "more")

    assert (5, 7) == (len(old["messages"]), len(new["messages"]))


def test_a_dict_without_its_keys_cannot_be_restored() -> None:
    """What is missing is listed."""
    with pytest.raises(ValueError, match="lacks session_id, model, endpoint, usage_totals") as caught:
        init_session(SPEC, session={"messages": []})

    assert all(name in str(caught.value) for name in REQUIRED if name != "messages")


def test_a_stored_list_that_holds_no_messages_is_refused() -> None:
    """A restored list with something else in it is an error that shows it, and leaves nothing open."""
    stored = dict(talked()) | {"messages": [{"role": "wizard"}]}

    with pytest.raises(ConfigError, match="wizard"):
        init_session(SPEC, session=stored)


def test_the_system_prompt() -> None:
    """Plait's sentence and the supplement; the supplement alone when bare; no message when there is nothing to say."""
    usual = init_session(SPEC, system_prompt_supplement="Use tabs.")["messages"]
    bare = init_session(SPEC, system_prompt_supplement="Use tabs.", bare=True)["messages"]

    assert "coding agent" in usual[0]["content"]
    assert usual[0]["content"].endswith("Use tabs.")
    assert [{"role": "system", "content": "Use tabs."}] == bare
    assert [] == init_session(SPEC, bare=True)["messages"]


def test_tools_in_words() -> None:
    """For a model without structured calls the prompt describes the tools, and its answers are read for calls."""
    spec = {**SPEC, "behaviour": {"call_delivery_mode": "text"}}
    client = OwnClient('{"name": "list_files", "arguments": {}}', "It is empty.")

    with init_session(spec, tools=[Tool("list_files", "List.", lambda: "nothing")]) as session:
        result = run_turn(client, "m", session, "x")

    assert "list_files" in session["messages"][0]["content"]
    assert "It is empty." == result.final_reply
    assert "tools" not in client.requests[0]
    assert "Tool results:\n[list_files] nothing" == client.messages(1)[-1]["content"]


def test_a_session_that_is_dropped_is_closed() -> None:
    """What a session holds open goes with its last reference, handlers or not."""
    session = talked(on_event=lambda *_: None)
    gone, close = weakref.ref(session), session._close_tools
    assert close.alive
    del session
    gc.collect()

    assert (None, False) == (gone(), close.alive)


def test_what_commands_leave_running_ends_with_the_session() -> None:
    """A background process that a command left behind is ended when the session is closed."""
    model = ScriptedModel([Call("exec_shell", {"command": "sleep 60 & echo $!"}), "done"])
    with init_session(SPEC) as session:
        run_turn(model, "m", session, "x")
        pid = int(session["messages"][-2]["content"].split()[0])
        assert _lives(pid)

    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_tools_work_where_they_are_told(tmp_path: Path) -> None:
    """`workspace` is where relative paths begin and commands run, whatever the process's directory is."""
    place = tmp_path / "elsewhere"
    place.mkdir()

    with init_session(SPEC, workspace=place) as session:
        run_turn(ScriptedModel([Call("exec_shell", {"command": "pwd"}), "done"]), "m", session, "x")

    assert str(place.resolve()) == session["messages"][-2]["content"]


def test_what_lies_outside_the_workspace(tmp_path: Path) -> None:
    """File tools reach beyond the workspace as `outside` says; an approver can ask where a call leads."""
    place, secret = tmp_path / "in", tmp_path / "out.txt"
    place.mkdir()
    secret.write_text("outside")
    read = Call("read_file", {"path": str(secret)})
    contents = []
    for outside in ("read_outside", "inside_only"):
        with init_session(SPEC, workspace=place, outside=outside) as session:
            run_turn(ScriptedModel([read, "done"]), "m", session, "x")
            call = session._live.conversation.state.history[1].tool_calls[0]
            assert "outside" == session.leads(call)
            contents.append(session["messages"][-2]["content"])

    assert "outside" == contents[0].strip()
    assert contents[1].startswith("ERROR: ")


def test_one_tool_in_the_place_of_another() -> None:
    """A tool of the caller's with a name of the spec's takes its place, in the same order."""
    session = init_session(SPEC, tools=[Tool("exec_shell", "Mine.", lambda command: f"mine:{command}")])

    with ScriptedModel([Call("exec_shell", {"command": "x"}), "done"]) as model:
        run_turn(model, "m", session, "x")

    assert "mine:x" == session["messages"][-2]["content"]
    assert ["read_file", "write_file", "str_replace", "exec_shell"] == [t.name for t in model.requests[0].setup.tools]
