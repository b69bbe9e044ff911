"""Tools that a model finds by a search: what each request declares, whatever happens in between."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from plait import StepReduction, Tool, create_client, execute_tool_call, init_session, replay_session, run_turn
from plait.cli.specs import built_in_spec
from plait.core.errors import ConfigError
from plait.session.session import Session
from plait.store.opening import load_journal
from plait.store.sessions import Sessions
from plait.testing import Call, Say, ScriptServer
from plait.tools.spec import schema_entry

SEARCH = "search_tools"
LOOK = Tool("look", "Look.", lambda: "seen", idempotent=True)


def make(name: str, about: str) -> Tool:
    """Return a tool that is not shown at once."""
    return Tool(name, about, lambda **given: f"{name} {given}", {"type": "object"}, deferred=True, idempotent=True)


MAIL = make("send_mail", "Send a letter to somebody.")
RAIN = make("weather_now", "Say what the sky does.")
SUMS = make("add_numbers", "Add numbers up.")
TOOLS = [LOOK, MAIL, RAIN, SUMS]
FIND_MAIL = Say(calls=[Call(SEARCH, {"query": "send a letter"}, id="find")])
USE_MAIL = Say(calls=[Call("send_mail", {"to": "Ann"}, id="use")])


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep sessions here."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def spec_for(server: ScriptServer) -> dict[str, Any]:
    """Return a spec that has one tool."""
    return {**built_in_spec("any", server.url), "tools": ["t_list_dir"], "tool_specs": [schema_entry(LOOK)]}


@contextmanager
def talk(server: ScriptServer, loading: str | None, **options: Any) -> Iterator[tuple[Session, Any]]:
    """Open the session `s` with some tools that are not shown at once."""
    spec = spec_for(server)
    given = {"session_id": "s", "strict_cache_proof": False, "tools": TOOLS, "tool_loading": loading, **options}
    with create_client(spec) as client, init_session(spec, **given) as session:
        yield session, client


def declared(server: ScriptServer) -> list[list[str]]:
    """Return the names of the tools in the list of each request; a mark says which are deferred."""
    return [
        [
            tool["function"]["name"] + ("*" if tool["function"].get("defer_loading") else "")
            for tool in request.json.get("tools", [])
        ]
        for request in server.requests
    ]


def parts(server: ScriptServer, index: int) -> list[Any]:
    """Return the messages of a request after the question."""
    return list(server.requests[index].json["messages"][2:])


def journal() -> Any:
    """Return the session's journal."""
    return load_journal(Sessions.of(os.environ).place_of("s").journal)


def extends(server: ScriptServer, index: int) -> bool:
    """Say whether a request begins with the head and all messages of the one before it, byte for byte."""
    one, other = server.requests[index - 1].body, server.requests[index].body
    return other.startswith(one[: one.rindex(b"],")])


SCHEMA = {"name": "send_mail", "description": "Send a letter to somebody.", "parameters": {"type": "object"}}


def test_eager_shows_every_tool_without_a_mark() -> None:
    """Unless something else is wanted all tools are declared, none deferred, and there is no search."""
    with ScriptServer(["Hello."]) as server, talk(server, None) as (session, client):
        run_turn(client, "any", session, "Hi")
    assert [["look", "send_mail", "weather_now", "add_numbers"]] == declared(server)


def test_kimi_declares_what_was_found_in_a_system_message() -> None:
    """The list of tools stays, what a search loads follows the results of its step, and the prefix only grows."""
    script = [
        Say(calls=[Call("look"), Call(SEARCH, {"query": "send a letter"}), Call("send_mail")]),
        USE_MAIL,
        "Sent.",
    ]
    with ScriptServer(script) as server, talk(server, "kimi") as (session, client):
        assert "completed" == run_turn(client, "any", session, "Write to Ann").status
        shown = [item for item in session["messages"] if "tools" in item]
    assert [[SEARCH, "look"]] * 3 == declared(server)
    assert ["assistant", "tool", "tool", "tool", "system"] == [item["role"] for item in parts(server, 1)]
    results, system = parts(server, 1)[1:4], parts(server, 1)[4]
    assert {"role": "system", "tools": [{"type": "function", "function": SCHEMA}]} == system
    assert [system] == shown
    assert "send_mail: Send a letter" in results[1]["content"]
    assert "parameters" not in results[1]["content"]
    assert "ERROR: The tool 'send_mail' is not loaded. Find it with search_tools" in results[2]["content"]
    assert "send_mail {'to': 'Ann'}" == parts(server, 2)[-1]["content"]
    assert extends(server, 1)
    assert extends(server, 2)


def test_glm_refers_to_what_was_declared_with_a_mark() -> None:
    """All tools are declared from the beginning, and the result of a search is a reference."""
    with (
        ScriptServer([FIND_MAIL, USE_MAIL, "Sent."]) as server,
        talk(server, "defer-loading-tool-reference") as (session, client),
    ):
        assert "completed" == run_turn(client, "any", session, "Write to Ann").status
    assert [[SEARCH, "look", "send_mail*", "weather_now*", "add_numbers*"]] * 3 == declared(server)
    assert [{"type": "tool_reference", "name": "send_mail"}] == parts(server, 1)[1]["content"]
    assert extends(server, 1)
    assert extends(server, 2)


def test_grow_declares_what_was_found_from_the_next_request_on() -> None:
    """A tool that was found stands at the end of the list, and nothing else moves."""
    script = [FIND_MAIL, Say(calls=[Call("tool_search", {"query": "weather numbers"})]), USE_MAIL, "Sent."]
    with ScriptServer(script) as server, talk(server, "grow") as (session, client):
        assert "completed" == run_turn(client, "any", session, "Write to Ann").status
    first = [SEARCH, "look"]
    loaded = [*first, "send_mail", "weather_now", "add_numbers"]
    assert [first, loaded[:3], loaded, loaded] == declared(server)
    assert extends(server, 3)


def test_a_call_to_a_tool_that_is_not_loaded_says_what_to_do() -> None:
    """It is refused with a code and advice, an unknown name is unknown, and the turn goes on."""
    script = [Say(calls=[Call("send_mail"), Call("nothing_such")]), "I cannot."]
    with ScriptServer(script) as server, talk(server, "kimi") as (session, client):
        run_turn(client, "any", session, "Write")
    results = [fact.result for fact in journal().facts if hasattr(fact, "result")]
    assert ("SEARCH_REQUIRED", 409) == (results[0].data["code"], results[0].data["status"])
    assert json.loads(json.dumps(results[0].data))["hint"].startswith("find it with search_tools")
    assert "Unknown tool 'nothing_such'" in results[1].content
    assert results[1].data is None


def by_what_was_said(request: Any) -> Say:
    """Answer as the messages say that it is time to: search, use what was found, say so."""
    called = [call["function"]["name"] for item in request.json["messages"] for call in item.get("tool_calls") or ()]
    return FIND_MAIL if not called else USE_MAIL if called == [SEARCH] else Say("Sent.")


@pytest.mark.parametrize("loading", ["kimi", "glm", "grow"])
def test_p_def_4_whatever_record_is_the_last_the_same_requests_follow(loading: str, state: Path) -> None:
    """From every place in the journal another process goes on with the same tools; a replay finds the same bytes."""
    with ScriptServer(by_what_was_said) as server:
        with talk(server, loading) as (session, client):
            run_turn(client, "any", session, "Write to Ann")
            history = list(session._live.conversation.state.history)
        replayed = replay_session("s", spec_for(server))
        whole = Sessions.of(os.environ).place_of("s").journal.read_bytes().splitlines(keepends=True)
        bodies = [request.body for request in server.requests]
        assert (3, None) == (len(bodies), replayed.told.difference)
        begun = next(index for index, line in enumerate(whole) if b"Write to Ann" in line)
        for count in range(begun + 1, len(whole)):
            folder = Sessions.of(os.environ).place_of("s").path
            shutil.rmtree(folder)
            folder.mkdir()
            (folder / "journal.jsonl").write_bytes(b"".join(whole[:count]))
            before = len(server.requests)
            with talk(server, loading) as (session, client):
                assert run_turn(client, "any", session, None).error is None
                assert history == list(session._live.conversation.state.history)[: len(history)]
            again = [request.body for request in server.requests[before:]]
            assert set(again) <= set(bodies) or b'"Sent."' in whole[count - 2], count


@pytest.mark.parametrize("loading", ["kimi", "glm", "grow"])
def test_what_was_loaded_outlives_a_compaction(loading: str) -> None:
    """After the results of a search are gone its tools can still be called: each way tells the model in its own."""
    long = "It is a long story. " * 100
    script = [FIND_MAIL, Say(long), Say("Notes."), Say(long), USE_MAIL, "Sent."]
    with ScriptServer(script) as server, talk(server, loading) as (session, client):
        run_turn(client, "any", session, f"Write to Ann. {long}")
        live: Any = session._live
        assert "completed" == live.conversation.compact(0).reason
        run_turn(client, "any", session, "Go on")
        run_turn(client, "any", session, "Send it")
    after = server.requests[3].json["messages"]
    assert "send_mail {'to': 'Ann'}" == parts(server, 5)[-1]["content"]
    names = declared(server)[3]
    if loading == "kimi":
        assert ["system", "user", "system", "user"] == [item["role"] for item in after]
        assert "send_mail" == after[2]["tools"][0]["function"]["name"]
    elif loading == "glm":
        assert [SEARCH, "look", "send_mail", "weather_now*", "add_numbers*"] == names
    else:
        assert [SEARCH, "look", "send_mail"] == names
    assert names == declared(server)[5]


def test_a_session_that_is_restored_from_its_dict_keeps_what_kimi_was_told() -> None:
    """System messages that declare tools are part of the list, and load them again."""
    with ScriptServer([FIND_MAIL, "Found."]) as server, talk(server, "kimi", durable=False) as (session, client):
        run_turn(client, "any", session, "Find")
        kept = json.loads(json.dumps(session))
    with ScriptServer([USE_MAIL, "Sent."]) as server:
        with talk(server, "kimi", session=kept, session_id=None, durable=False) as (session, client):
            run_turn(client, "any", session, "Write to Ann")
        assert "send_mail {'to': 'Ann'}" == parts(server, 1)[-1]["content"]


def test_a_reduced_step_takes_its_search_with_it() -> None:
    """A host that replaces the step of a search has loaded nothing."""

    def reduce(_session: object, step: list[Any], **_: object) -> StepReduction | None:
        names = [call["function"]["name"] for call in step[0]["tool_calls"]]
        return StepReduction([{"role": "assistant", "content": "I searched."}]) if SEARCH in names else None

    script = [FIND_MAIL, USE_MAIL, "I cannot."]
    with ScriptServer(script) as server, talk(server, "kimi", step_reducer=reduce) as (session, client):
        run_turn(client, "any", session, "Write")
    assert not any("tools" in item for item in parts(server, 1))
    assert "is not loaded" in parts(server, 2)[-1]["content"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_search_of_the_hosts_own(is_async: bool) -> None:
    """It gets the query and copies of the schemas; names that it makes up are left out, repeats count once."""
    seen: list[Any] = []

    def search(query: str, catalog: list[dict[str, Any]]) -> list[str]:
        seen.append((query, [entry["function"]["name"] for entry in catalog]))
        catalog.clear()
        return ["add_numbers", "made_up", "add_numbers"]

    async def search_later(query: str, catalog: list[dict[str, Any]]) -> list[str]:
        return search(query, catalog)

    script = [Say(calls=[Call(SEARCH, {"query": "x"})]), "Found."]
    own = search_later if is_async else search
    with ScriptServer(script) as server, talk(server, "grow", tool_search=own) as (session, client):
        run_turn(client, "any", session, "Find")
    assert [("x", ["send_mail", "weather_now", "add_numbers"])] == seen
    assert [SEARCH, "look", "add_numbers"] == declared(server)[1]


def test_a_way_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    """A word that is no way is a value error, from the keyword as from the spec, and so is a search that is none."""
    with ScriptServer([]) as server:
        spec = built_in_spec("any", server.url)
        for options, more in (({"tool_loading": "lazy"}, {}), ({}, {"tool_loading": "lazy"})):
            with pytest.raises(ValueError, match="no way 'lazy' to load tools"):
                init_session({**spec, **more}, **options)
        with pytest.raises(ConfigError, match="tool_search='x' cannot be called"):
            init_session(spec, tool_search="x")  # type: ignore[arg-type]


def test_the_users_list_of_endpoints_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keyword comes before the spec, the spec before the list."""
    with ScriptServer(["a", "b", "c"]) as server:
        path = tmp_path / "endpoints.toml"
        path.write_text(
            f'[endpoints.here]\nurl = "{server.url}"\nkey = {{source = "none"}}\n'
            'tool_loading = "system-message-tools"\n'
        )
        monkeypatch.setenv("INFERENCE_DB", str(path))
        listed = {**spec_for(server), "inference_db": "here"}
        listed.pop("endpoint", None)
        for spec, options in (
            (listed, {}),
            ({**listed, "tool_loading": "glm"}, {}),
            (listed, {"tool_loading": "eager"}),
        ):
            given = {"tools": TOOLS, "strict_cache_proof": False, "durable": False, **options}
            with create_client(spec) as client, init_session(spec, **given) as session:
                run_turn(client, "any", session, "Hi")
    assert [2, 5, 4] == [len(names) for names in declared(server)]


def test_a_resume_goes_on_in_the_way_in_which_it_began() -> None:
    """Where nobody says anything else, another process loads tools as the session did; a keyword still wins."""
    with ScriptServer([FIND_MAIL, "Found.", USE_MAIL, "Sent.", "Bye."]) as server:
        with talk(server, "kimi") as (session, client):
            run_turn(client, "any", session, "Find")
        with talk(server, None) as (session, client):
            assert "kimi" == session["tool_loading"]
            run_turn(client, "any", session, "Write to Ann")
        with talk(server, "eager") as (session, client):
            assert "eager" == session["tool_loading"]
            run_turn(client, "any", session, "Bye")
    assert [2, 2, 2, 2, 4] == [len(names) for names in declared(server)]
    assert extends(server, 2)


def test_a_program_calls_a_tool_without_a_search() -> None:
    """What a host runs by itself need not be loaded; the model still has to search for it."""
    with ScriptServer([USE_MAIL, "I cannot."]) as server, talk(server, "grow") as (session, client):
        said = execute_tool_call(session, "send_mail", {"to": "Bob"})
        assert "send_mail {'to': 'Bob'}" == said
        run_turn(client, "any", session, "Write")
    assert "is not loaded" in parts(server, 1)[-1]["content"]
