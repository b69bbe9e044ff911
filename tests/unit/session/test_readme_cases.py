"""What a program written for the session strand does, done with plait: the cases of its README, by their numbers."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import (
    CANONICAL_TOOLS,
    SUPERSEDED_TOOLS,
    AgentSpecInvalidError,
    AuthenticationError,
    NamedEvent,
    SessionResult,
    Tool,
    build_tool_spec,
    create_client,
    default_tool_spec,
    dispatch,
    extract_tool_specs_from_module,
    init_session,
    load_specification,
    on,
    register_tools_in_library,
    run_agent,
    run_task,
    run_turn,
    set_ask_user_handler,
    set_tool_output_stream,
    subscribe,
    tool_spec_to_schema,
    unsubscribe,
)
from plait.session import tasks
from plait.testing import Call, Say, ScriptedModel, ScriptServer
from tests.unit.session.clients import OwnClient

URL = "http://127.0.0.1:1/v1"


def test_e1_a_spec_file_and_a_task(here: Path) -> None:
    """E1: a spec in the working directory and a task give the answer, with one tool call on the way."""
    schemas, _ = default_tool_spec()
    (here / "qwen3-8b.json").write_text(json.dumps({"model": "qwen3-8b", "tool_specs": schemas}))

    with ScriptServer([Call("exec_shell", {"command": "ls"}, "call_ls"), "One file: qwen3-8b.json"]) as server:
        result = run_task(load_specification("qwen3-8b.json", server.url), "List the files")

    assert "One file: qwen3-8b.json" == result.final_reply
    assert ["qwen3-8b", "qwen3-8b"] == [request.model for request in server.requests]
    (answer,) = [message for message in server.requests[1].messages if message["role"] == "tool"]
    assert ("call_ls", "qwen3-8b.json") == (answer["tool_call_id"], answer["content"])


def test_e2_a_spec_by_its_path(here: Path) -> None:
    """E2: `spec_path` is the spec as it stands, for a `run://` program too; a missing file is named."""
    content = {"model": "m", "endpoint": "run:///usr/bin/completions.py", "tool_specs": []}
    (here / "spec.json").write_text(json.dumps(content))

    assert content == load_specification("m", "run:///usr/bin/completions.py", spec_path="spec.json")
    with pytest.raises(AgentSpecInvalidError, match="missing"):
        load_specification("m", spec_path="missing.json")


def test_e3_an_agent_of_one_function(here: Path) -> None:
    """E3: a function is a tool: its schema comes from its signature, and it runs."""
    (here / "a.txt").touch()

    def list_files(path: str) -> tuple[str, dict[str, object]]:
        return ", ".join(sorted(entry.name for entry in Path(path).iterdir())), {"result": "ok"}

    with ScriptServer([Call("list_files", {"path": "."}), "There is a.txt."]) as server:
        result = run_agent(
            task="List the files",
            model="m",
            endpoint=server.url,
            tools=[Tool("list_files", "List a directory", list_files)],
        )

    assert "There is a.txt." == result.final_reply
    parameters = server.requests[0].tools[0]["function"]["parameters"]
    assert ({"path": {"type": "string"}}, ["path"]) == (parameters["properties"], parameters["required"])
    assert "a.txt" == server.requests[1].last_text


def test_e3_the_token_of_another_program(home: Path) -> None:
    """E3: `auth="opencode-github-copilot"` sends the token that opencode keeps, in its own header."""
    place = home / ".local/share/opencode/auth.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"github-copilot": {"access": "tok-123"}}))

    with ScriptServer(["done"]) as server:
        run_agent(task="x", model="m", endpoint=server.url, auth="opencode-github-copilot", tools=[NOTHING])

    headers = server.requests[0].headers
    assert ("tok-123", None) == (headers.get("x-api-key"), headers.get("authorization"))


def test_e3_without_that_token_the_file_is_named(home: Path) -> None:
    """E3: without the token file the error on the result names it, and nothing is sent; a given client needs none."""
    with ScriptServer([]) as server:
        result = run_agent(task="x", model="m", endpoint=server.url, auth="opencode-github-copilot", tools=[NOTHING])

    assert isinstance(result.error, AuthenticationError)
    assert ".local/share/opencode/auth.json" in str(result.error)
    with ScriptedModel(["done"]) as model:
        given = run_agent(
            task="x", model="m", endpoint=URL, auth="opencode-github-copilot", tools=[NOTHING], client=model
        )
    assert "completed" == given.status


def test_e4_functions_of_one_name_in_two_threads(tmp_path: Path) -> None:
    """E4: agents that run at the same time each use their own function, whatever it is called."""
    folders = [tmp_path / name for name in ("left", "right")]
    for folder in folders:
        folder.mkdir()
        (folder / f"{folder.name}.txt").touch()

    def ask(folder: Path, results: dict[str, SessionResult]) -> None:
        def list_files() -> str:
            return ", ".join(entry.name for entry in folder.iterdir())

        with ScriptedModel([Call("list_files"), "done"]) as model:
            tools = [Tool("list_files", "List.", list_files)]
            results[folder.name] = run_agent(task="x", model="m", endpoint=URL, tools=tools, client=model)

    for _ in range(20):
        results: dict[str, SessionResult] = {}
        threads = [threading.Thread(target=ask, args=(folder, results)) for folder in folders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {"left": "left.txt", "right": "right.txt"} == {
            name: result.messages[-2]["content"] for name, result in results.items()
        }


def nothing() -> str:
    """Do nothing."""
    return ""


NOTHING = Tool("nothing", "Do nothing.", nothing)


def test_e5_a_client_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """E5: a given client gets every request, in every function that takes one; no other is made."""

    def refuse(*_: object) -> None:
        raise AssertionError("a client was made")

    monkeypatch.setattr(tasks, "create_client", refuse)
    client = OwnClient("one", "two", "three", "four")
    spec = load_specification("m", URL)
    replies = [
        run_task(spec, "a", client=client).final_reply,
        run_agent(task="b", model="m", endpoint=URL, tools=[NOTHING], client=client).final_reply,
        plait.run(spec, "c", client=client).final_reply,
        plait.run(task="d", model="m", endpoint=URL, client=client).final_reply,
    ]

    assert ["one", "two", "three", "four"] == replies
    assert ["a", "b", "c", "d"] == [client.messages(index)[-1]["content"] for index in range(4)]


def test_e5_one_client_for_many_turns() -> None:
    """E5: the same client serves `init_session` and `run_turn`, turn after turn, and sees tool results."""
    client = OwnClient(Call("nothing"), "one", "two")

    with init_session(load_specification("m", URL), tools=[NOTHING]) as session:
        first = run_turn(client, "m", session, "a")
        second = run_turn(client, "m", session, "b")

    assert ("one", "two") == (first.final_reply, second.final_reply)
    assert ["system", "user", "assistant", "tool", "assistant", "user"] == [
        message["role"] for message in client.messages(2)
    ]
    assert "m" == client.requests[0]["model"]


def greet(name: str, times: int = 1) -> tuple[str, dict[str, object]]:
    """Greet somebody."""
    return f"hello {name}" * times, {}


def test_e10_a_tool_as_schema_and_table() -> None:
    """E10: what `build_tool_spec` returns can be put into a spec, once the function is registered."""
    schemas, table = build_tool_spec([Tool("greet", "Say hello.", greet)])
    register_tools_in_library([Tool("greet", "Say hello.", greet)])

    assert {"greet": {"python_function": "greet", "param_map": {"name": "name", "times": "times"}}} == table
    spec = {"model": "m", "endpoint": URL, "tool_specs": schemas, "tool_dispatch": table}
    with ScriptedModel([Call("greet", {"name": "Ada"}), "done"]) as model:
        result = run_task(spec, "x", client=model)
    assert "hello Ada" == result.messages[-2]["content"]
    assert "hello Ada" == dispatch("greet", {"name": "Ada"}, table)[0]


def test_e11_a_tool_that_takes_free_text() -> None:
    """E11: a grammar goes to the endpoint as given, the model's text comes back raw, and history keeps its shape."""
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    got: list[str] = []

    def apply_patch(input: str) -> str:
        got.append(input)
        return "applied"

    tool = Tool("apply_patch", "Apply a patch.", apply_patch, custom_format=grammar)
    assert {"type": "custom", "name": "apply_patch", "description": "Apply a patch.", "format": grammar} == (
        build_tool_spec([tool])[0][0]
    )
    with ScriptedModel([Call("apply_patch", "*** raw { text"), "done"]) as model:
        result = run_agent(task="x", model="m", endpoint=URL, tools=[tool], client=model)
    assert ["*** raw { text"] == got
    (call,) = result.messages[2]["tool_calls"]
    assert ("custom", {"name": "apply_patch", "input": "*** raw { text"}) == (call["type"], call["custom"])


def test_e12_argument_names_of_the_models() -> None:
    """E12: an argument reaches the function under the function's own name for it."""
    tool = Tool("read", "Read.", lambda path: f"read {path}", param_map={"file_path": "path"}, parameters=FILE_PATH)

    with ScriptedModel([Call("read", {"file_path": "x.py"}), "done"]) as model:
        result = run_agent(task="x", model="m", endpoint=URL, tools=[tool], client=model)

    assert "read x.py" == result.messages[-2]["content"]


FILE_PATH = {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}


def test_e13_the_older_name_of_the_shell() -> None:
    """E13: `execute_shell_command` runs what `exec_shell` runs, is not advertised, and is guarded by the same rules."""
    asked: list[str] = []

    class NoShell:
        def approve(self, call: plait.ToolCall, tool: Tool) -> bool:
            asked.append(tool.name)
            return False

    old = Call("execute_shell_command", {"command": "echo hi"})
    with ScriptedModel([old, "done"]) as model:
        allowed = run_task(load_specification("m", URL), "x", client=model)
    with ScriptedModel([old, "done"]) as guarded:
        denied = run_task(load_specification("m", URL), "x", client=guarded, approver=NoShell())

    assert "hi" == allowed.messages[-2]["content"]
    assert "execute_shell_command" not in [tool.name for tool in model.requests[0].setup.tools]
    assert (["execute_shell_command"], "ERROR: Denied by user.") == (asked, denied.messages[-2]["content"])


def test_e13_the_first_or_every_occurrence(here: Path) -> None:
    """E13: `str_replace` changes the first occurrence and says how many are left; `replace_all` changes every one."""
    (here / "a.txt").write_text("one one one")
    change = {"path": "a.txt", "old_str": "one", "new_str": "two"}

    with ScriptedModel(
        [Call("str_replace", change), Call("str_replace", {**change, "replace_all": True}), "x"]
    ) as model:
        result = run_task(load_specification("m", URL), "x", client=model)

    assert "2 remaining" in result.messages[3]["content"]
    assert "two two two" == (here / "a.txt").read_text()


def test_e14_the_tables_of_names() -> None:
    """E14: each tool's function and each old function's successor are listed."""
    assert ("t_search", "t_glob") == (CANONICAL_TOOLS["search_files"], SUPERSEDED_TOOLS["t_find_files"])


def test_e15_the_tools_without_a_model(here: Path) -> None:
    """E15: another host gets schemas and calls tools; a failure is told in the text and in the data."""
    (here / "README.md").write_text("# hi\n")
    schemas, table = default_tool_spec()
    schemas[0]["function"] = None

    text, _ = dispatch("read_file", {"path": "README.md"}, table)
    failed, meta = dispatch("read_file", {"path": "missing.md"}, table)

    assert "# hi" in text
    assert failed.startswith("ERROR: ")
    assert meta["ok"] is False
    assert meta["error"]
    assert default_tool_spec()[0][0]["function"] is not None


def test_e16_every_tool_from_its_docstring(here: Path) -> None:
    """E16: the library's docstrings make schemas and a table with which every tool can be called."""
    from plait import tool_library

    (here / "a.txt").write_text("needle\n")
    specs = extract_tool_specs_from_module(tool_library)
    schemas = [tool_spec_to_schema(spec) for spec in specs.values()]
    table: dict[str, Any] = {
        str(spec["name"]): {"python_function": name, "param_map": spec["param_map"]} for name, spec in specs.items()
    }

    assert len(schemas) >= 7
    assert "a.txt:1:needle" in dispatch("search_files", {"pattern": "needle", "path": "."}, table)[0]
    replaced, _ = dispatch("str_replace", {"path": "a.txt", "old_str": "needle", "new_str": "pin"}, table)
    assert ("pin\n", True) == ((here / "a.txt").read_text(), replaced.startswith("OK"))


def test_e17_where_commands_are_heard(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """E17: what a command prints goes to the stream that was set, and to nobody without one."""

    def ask() -> None:
        with ScriptedModel([Call("exec_shell", {"command": "echo loud"}), "done"]) as model:
            run_task(load_specification("m", URL), "x", client=model)

    ask()
    assert ("", "") == capfd.readouterr()
    set_tool_output_stream(sys.stderr)
    ask()
    assert ("", "loud\n") == capfd.readouterr()
    set_tool_output_stream(None)
    ask()
    assert ("", "") == capfd.readouterr()


def asking(question: dict[str, Any], name: str = "ask_user_question", **options: Any) -> SessionResult:
    """Have the model ask the user something, and return the result."""
    properties = {key: {"type": "array" if key == "options" else "string"} for key in question}
    entry = {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}
    spec = {"model": "m", "endpoint": URL, "tool_specs": [entry], "tools": [f"t_{name}"]}
    with ScriptedModel([Call(name, question), "done"]) as model:
        return run_task(spec, "x", client=model, **options)


def test_e18_who_answers_the_model() -> None:
    """E18: the handler's answer is returned, a number means that option, and a free question has no options."""
    heard: list[tuple[str, list[str]]] = []

    def answer(question: str, options: list[str]) -> str:
        heard.append((question, options))
        return "2"

    set_ask_user_handler(answer)
    chosen = asking({"question": "Which?", "options": ["red", "blue"]})
    free = asking({"question": "Why?"}, "ask_user")

    assert '{"answer":"blue"}' == chosen.messages[-2]["content"]
    assert '{"answer":"2"}' == free.messages[-2]["content"]
    assert [("Which?", ["red", "blue"]), ("Why?", [])] == heard


def test_e18_an_answer_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """E18: an exception of the handler is a failed call; without a handler standard input answers."""

    def fail(question: str, options: list[str]) -> str:
        raise RuntimeError("nobody home")

    set_ask_user_handler(fail)
    assert "nobody home" in asking({"question": "Why?"}, "ask_user").messages[-2]["content"]
    set_ask_user_handler(None)
    monkeypatch.setattr(sys, "stdin", io.StringIO("because\n"))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert '{"answer":"because"}' == asking({"question": "Why?"}, "ask_user").messages[-2]["content"]


def test_nobody_is_asked_in_a_session_without_a_user() -> None:
    """With `non_interactive` a tool that asks is not shown, and says so when it is called."""
    set_ask_user_handler(lambda question, options: "never")
    result = asking({"question": "Why?"}, "ask_user", non_interactive=True)

    assert "ERROR: user interaction is disabled (--non-interactive)" == result.messages[-2]["content"]


def events_of() -> tuple[list[tuple[str, NamedEvent]], Callable[[str, NamedEvent], None]]:
    """Return a list, and a handler that appends to it."""
    heard: list[tuple[str, NamedEvent]] = []
    return heard, lambda name, event: heard.append((name, event))


CALLED = (":nothing", ":tool_call")


def test_e26_handlers_and_their_order() -> None:
    """E26: handlers of a name come in the order of subscription, then the one for everything; each event has `fmt`."""
    order: list[str] = []
    session = init_session(
        load_specification("m", URL), tools=[NOTHING], on_event=lambda name, _: order.append(f"any:{name}")
    )
    subscribe(session, "tool_call", lambda _, event: order.append(f"1:{event['name']}"))
    on(session, "tool_call", lambda _, event: order.append(f"2:{event['name']}"))
    heard, hear = events_of()
    for name in ("content_delta", "usage", "error"):
        subscribe(session, name, hear)

    with ScriptedModel([Call("nothing"), "all done"]) as model:
        run_turn(model, "m", session, "x")

    assert ["1:nothing", "2:nothing", "any:tool_call"] == [entry for entry in order if entry.endswith(CALLED)]
    assert ["all", " done"] == [event["text"] for name, event in heard if name == "content_delta"]
    assert ["usage", "content_delta", "content_delta", "usage"] == [name for name, _ in heard]
    assert all("fmt" in event and "fmt" not in dict(event) for _, event in heard)


def test_e26_a_handler_is_taken_back() -> None:
    """E26: a handler that was unsubscribed is called no more; taking back a stranger is no error."""
    session = init_session(load_specification("m", URL))
    heard, hear = events_of()
    subscribe(session, "usage", hear)
    unsubscribe(session, "usage", hear)
    unsubscribe(session, "usage", hear)

    with ScriptedModel(["done"]) as model:
        run_turn(model, "m", session, "x")

    assert [] == heard


def test_e26_a_failed_turn_is_an_event() -> None:
    """E26: an error is an event with its class, status and words; nothing is raised."""
    session = init_session(load_specification("m", URL))
    heard, hear = events_of()
    subscribe(session, "error", hear)

    result = run_turn(OwnClient(RuntimeError("HTTP 401 no such key")), "m", session, "x")

    assert ("error", None) == (result.status, result.final_reply)
    ((_, event),) = heard
    assert ("AuthenticationError", 401, "http") == (event["error_class"], event["http_status"], event["adapter"])
    assert "no such key" in str(event["text"])


def test_e27_what_a_tool_changed(here: Path) -> None:
    """E27: a tool that writes says which files and how many lines; one that reads says nothing of the kind."""
    (here / "old.txt").write_text("a\nb\n")
    heard, hear = events_of()
    session = init_session(load_specification("m", URL))
    subscribe(session, "tool_result", hear)
    steps = [
        Say(calls=[Call("write_file", {"path": "new.txt", "content": "x\ny\n"})]),
        Say(calls=[Call("str_replace", {"path": "old.txt", "old_str": "b", "new_str": "c"})]),
        Say(calls=[Call("read_file", {"path": "old.txt"})]),
        "done",
    ]
    with ScriptedModel(steps) as model:
        run_turn(model, "m", session, "x")

    told = [(event["files"], event["diff_summary"]) for _, event in heard]
    assert [
        (["new.txt"], {"path": "new.txt", "added": 2, "removed": 0}),
        (["old.txt"], {"path": "old.txt", "added": 1, "removed": 1}),
        (None, None),
    ] == told


def test_e52_a_host_that_only_wants_the_tools(here: Path) -> None:
    """E52: importing and calling the tool functions prints nothing, starts nothing and leaves Ctrl-C alone."""
    code = (
        "import signal, threading, sys\n"
        "before = signal.getsignal(signal.SIGINT)\n"
        "from plait import default_tool_spec, dispatch\n"
        "schemas, table = default_tool_spec()\n"
        "text, meta = dispatch('list_dir', {}, {'list_dir': {'python_function': 't_list_dir', 'param_map': {}}})\n"
        "assert before is signal.getsignal(signal.SIGINT)\n"
        "assert threading.active_count() == 1\n"
        "sys.stderr.write(text)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=here, env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert (0, "", "(empty)") == (ran.returncode, ran.stdout, ran.stderr)


def test_create_client_is_for_one_endpoint() -> None:
    """A client that is made from a spec serves turn after turn on one connection."""
    with ScriptServer(["one", "two"]) as server:
        spec = load_specification("m", server.url)
        client, session = create_client(spec), init_session(spec)
        replies = [run_turn(client, "m", session, text).final_reply for text in ("a", "b")]
        client.close()

    assert ["one", "two"] == replies
    assert 1 == server.connections
