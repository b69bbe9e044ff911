"""Where a spec's requests go and with which key: programs, the user's own list of endpoints, keyrings, routers."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from plait.core.errors import AgentSpecInvalidError, AuthenticationError, ConfigError, ModelUnavailable
from plait.engine.agent import Agent
from plait.engine.agent_spec import AgentSpec
from plait.engine.spec import default_specification, load_specification
from plait.engine.spec_entry import APPLIED, apply_entry
from plait.models.chat_model import chat_model
from plait.models.key_sources import FromKeyring
from plait.models.known_profiles import profile_named
from plait.models.openai_client import OpenAI
from plait.models.subprocess_client import SubprocessOpenAI
from plait.models.transport import Network
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.tasks import run_task
from plait.session.turns import run_turn
from plait.testing import Raw, ScriptServer
from tests.unit.models.http.transports import raw_server

ANSWER = {"choices": [{"message": {"role": "assistant", "content": "done"}}], "usage": {"cached_tokens": 0}}
ROUTED = (
    b'data: {"provider":"P","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":1,"cached_tokens":0}}\n\n'
)


def program(path: Path, lines: str) -> Path:
    """Make an executable Python program; `request` is what it was given."""
    path.write_text(f"#!{sys.executable}\nimport json, os, sys\nrequest = json.load(sys.stdin)\n{lines}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def answering(path: Path) -> Path:
    """Make a program that keeps what it was given in `seen.json` and answers `done`."""
    seen = f"json.dump([request, dict(os.environ), sys.argv[1:]], open({str(path.parent / 'seen.json')!r}, 'w'))"
    return program(path, f"{seen}; print({json.dumps(json.dumps(ANSWER))})")


def listed(here: Path, url: str, more: str = "") -> None:
    """Make the user's list of endpoints, with one entry `kimi`, and point at it."""
    (here / "endpoints.toml").write_text(
        f"""[endpoints.kimi]
url = "{url}"
auth = "x-api-key"
headers = {{ X-Team = "blue", X-Own = "list" }}
query = {{ version = "2" }}
params = {{ temperature = 1, top_p = 0.5 }}
key = [{{ source = "file", path = "{here}/none" }}, {{ source = "env", var = "KIMI" }}]
{more}
[endpoints.kimi.model_params.k2]
thinking = {{ type = "enabled" }}
"""
    )
    os.environ["INFERENCE_DB"] = str(here / "endpoints.toml")


def test_e6_a_program_answers(here: Path) -> None:
    """E6: a `run://` endpoint is a program; it gets one JSON object without its own address, and no key is wanted."""
    path = answering(here / "grammar")
    spec = load_specification(f"run://{path}")

    assert (str(path), f"run://{path}") == (spec["model"], spec["endpoint"])
    result = run_task(spec, "x")

    assert ("completed", "done") == (result.status, result.final_reply)
    request, _, _ = json.loads((here / "seen.json").read_text())
    assert ["system", "user"] == [message["role"] for message in request["messages"]]
    assert not str(request.get("model", "")).startswith("run://")


def test_e6_a_short_name_and_a_client_of_ones_own(here: Path) -> None:
    """E6: `run://grammar` is the model `grammar`, and a subclass of the client is asked in place of the program."""
    path = answering(here / "completions.sh")

    class Grammar(SubprocessOpenAI):
        def __init__(self) -> None:
            super().__init__(str(path))

    spec = load_specification("run://grammar")
    assert ("grammar", "run://grammar") == (spec["model"], spec["endpoint"])
    assert "done" == run_task(spec, "x", client=Grammar()).final_reply
    assert "grammar" == json.loads((here / "seen.json").read_text())[0]["model"]


def test_e6_a_program_that_fails_is_told(here: Path) -> None:
    """E6: an exit code that is not 0 is the turn's error, with what the program said, and names the adapter."""
    path = program(here / "broken", "sys.exit('no weights for ' + os.environ['SECRET'])")
    heard: list[Any] = []
    spec = default_specification("m", f"run://{path}") | {"command_env": {"SECRET": "very-secret-value"}}
    result = run_task(spec, "x", on_event=lambda name, event: heard.append(event) if name == "error" else None)

    assert "error" == result.status
    assert isinstance(result.error, ModelUnavailable)
    assert "exit code 1: no weights for [REDACTED]" in str(result.error)
    assert ["subprocess"] == [event["adapter"] for event in heard]


def test_a_command_with_arguments_and_variables(here: Path) -> None:
    """`command` is an argument vector, `command_env` is added to its variables, and no endpoint is needed."""
    path = answering(here / "model")
    spec = default_specification("m", "") | {"command": [str(path), "--fast"], "command_env": {"SEED": "7"}}
    client = create_client(spec)

    assert isinstance(client, SubprocessOpenAI)
    assert "done" == run_task(spec, "x").final_reply
    _, environment, arguments = json.loads((here / "seen.json").read_text())
    assert (["--fast"], "7") == (arguments, environment["SEED"])


def test_a_program_that_takes_too_long(here: Path) -> None:
    """`command_timeout` ends the program, and the turn with a timeout."""
    path = program(here / "slow", "import time; time.sleep(60)")
    result = run_task(default_specification("m", f"run://{path}") | {"command_timeout": 0.2}, "x")

    assert "ModelTimeout" == type(result.error).__name__
    assert "command_timeout" in result.error.hint  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "fields, problem",
    [
        ({"command": ["./run"], "endpoint": "http://127.0.0.1:1/v1"}, "has a 'command' and an 'endpoint'"),
        ({"keyring_service": "s"}, "names half of a keyring entry"),
        ({"keyring_username": "u"}, "names half of a keyring entry"),
        ({"auth": "sk-ant-abcdefghijklmnopqrstuvwx"}, "has an unknown 'auth'"),
        ({"key_env": "sk-ant-abcdefghijklmnopqrstuvwx"}, "an unfit value in the field 'key_env'"),
        ({"key_env": "AIzaSyABCDEFGHIJKLMNOPQRSTUVWXYZ0123456"}, "an unfit value in the field 'key_env'"),
        ({"extra_headers": {"X-Key": "sk-secret\n"}}, "an unfit value in the field 'extra_headers'"),
        ({"command_env": {"A=B": "sk-secret"}}, "an unfit value in the field 'command_env'"),
        ({"command": []}, "an unfit value in the field 'command'"),
    ],
)
def test_a_connection_that_contradicts_itself(fields: dict[str, object], problem: str) -> None:
    """Fields that say half of a thing, or two things, are named with their file; what may be a key is not shown."""
    spec = AgentSpec({**default_specification("m", ""), **fields}, source="mine.json")

    with pytest.raises(AgentSpecInvalidError, match=problem) as caught:
        create_client(spec)

    assert "'mine.json'" in str(caught.value)
    assert caught.value.hint
    assert "sk-" not in f"{caught.value}{caught.value.hint}"
    assert "AIza" not in f"{caught.value}{caught.value.hint}"


def test_e43_an_entry_of_the_users_list(here: Path) -> None:
    """E43: the entry decides the endpoint and the key; headers and parameters of any name are sent."""
    with ScriptServer(["done"]) as server:
        server_url = server.url
        listed(here, server_url + "/{model}")
        os.environ["KIMI"] = "k-entry"
        spec = load_specification("k2", "http://elsewhere.invalid/v1", inference_db="kimi")
        result = run_task(spec, "x")
        (request,) = server.requests

    assert "completed" == result.status
    assert ("/v1/k2/chat/completions", f"{server_url}/k2?version=2") == (request.path, spec["endpoint"])
    assert ("k-entry", "blue") == (request.headers["x-api-key"], request.headers["x-team"])
    assert "authorization" not in request.headers
    wanted = {"temperature": 1, "top_p": 0.5, "thinking": {"type": "enabled"}}
    assert wanted == {name: request.json[name] for name in wanted}


def test_e43_the_spec_s_own_fields_win_over_the_entry(here: Path) -> None:
    """E43: a header, a parameter and a `key_env` of the spec count; what the entry alone says is kept."""
    with ScriptServer(["done"]) as server:
        listed(here, server.url)
        os.environ |= {"KIMI": "k-entry", "MINE": "k-mine"}
        own = {"key_env": "MINE", "extra_headers": {"X-Own": "spec"}, "request_params": {"top_p": 0.9}}
        result = run_task(default_specification("k2", "") | own | {"inference_db": "kimi"}, "x")
        (request,) = server.requests

    assert "completed" == result.status
    assert ("k-mine", "spec", "blue") == tuple(request.headers[name] for name in ("x-api-key", "x-own", "x-team"))
    assert (0.9, 1) == (request.json["top_p"], request.json["temperature"])


def test_e43_a_session_knows_the_entry_and_the_place_of_the_key(here: Path) -> None:
    """E43: the session holds the entry's endpoint and id, so that a resume finds both; never a key."""
    listed(here, "http://127.0.0.1:1/v1", 'tool_loading = "system-message-tools"')
    os.environ["KIMI"] = "k-entry"
    with init_session(default_specification("k2", "") | {"inference_db": "kimi"}) as session:
        assert "http://127.0.0.1:1/v1?version=2" == session["endpoint"]
        assert {"inference_db": "kimi"} == session["auth"]
        assert "k-entry" not in json.dumps(session)


def test_a_spec_cannot_claim_an_entry_for_an_address_of_its_own(here: Path) -> None:
    """A file that says it was filled in already gets the entry's endpoint all the same: the key goes there only."""
    with ScriptServer(["done"]) as mine, ScriptServer([]) as other:
        listed(here, mine.url)
        os.environ["KIMI"] = "k-entry"
        spec = default_specification("k2", other.url) | {"inference_db": "kimi", APPLIED: True}

        assert "completed" == run_task(spec, "x").status
        assert (1, 0) == (len(mine.requests), len(other.requests))


def test_an_entry_that_names_no_key_leaves_it_to_the_host(here: Path) -> None:
    """Without a place for a key in the entry, the variables of the endpoint's own host are read, as without a list."""
    with ScriptServer(["done"]) as server:
        listed(here, server.url)
        path = here / "endpoints.toml"
        path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith("key")))
        os.environ["LOCAL_API_KEY"] = "k-local"

        run_task(load_specification("k2", inference_db="kimi"), "x")
        assert "k-local" == server.requests[0].headers["x-api-key"]


def test_a_key_that_no_source_of_an_entry_has(here: Path) -> None:
    """The turn's error names the places that were tried; nothing is sent."""
    with ScriptServer([]) as server:
        listed(here, server.url)
        result = run_task(load_specification("k2", inference_db="kimi"), "x")

    assert isinstance(result.error, AuthenticationError)
    assert "KIMI" in str(result.error)


@pytest.mark.parametrize("entry, words", [("kim", "no endpoint called 'kim'"), ("kimi", "'auth'")])
def test_an_entry_that_cannot_be_used(here: Path, entry: str, words: str) -> None:
    """An unknown id, or a wrong field of an entry, is an error that names the list."""
    listed(here, "http://127.0.0.1:1/v1")
    (here / "endpoints.toml").write_text((here / "endpoints.toml").read_text().replace("x-api-key", "magic"))

    with pytest.raises(AgentSpecInvalidError, match=words) as caught:
        load_specification("k2", inference_db=entry)
    assert "endpoints.toml" in str(caught.value)


def test_a_program_has_no_entry(here: Path) -> None:
    """A program in place of a model, and an endpoint of the list, contradict each other."""
    listed(here, "http://127.0.0.1:1/v1")

    with pytest.raises(AgentSpecInvalidError, match="asks a program"):
        apply_entry({"model": "run://x"}, "kimi")


def test_wrong_fields_beside_an_entry_are_named(here: Path) -> None:
    """What the entry adds hides no mistake of the spec."""
    listed(here, "http://127.0.0.1:1/v1")
    spec = default_specification("k2", "") | {"request_params": [1]}

    with pytest.raises(AgentSpecInvalidError, match="'request_params'"):
        create_client(apply_entry(spec, "kimi"))


@pytest.mark.parametrize("in_keyring, expected", [("k-ring", "Bearer k-ring"), (None, "Bearer k-variable")])
def test_a_key_of_the_keyring(monkeypatch: pytest.MonkeyPatch, in_keyring: str | None, expected: str) -> None:
    """The keyring's entry is sent, else the variable called like its user; it wins over `key_env`."""
    keyring = types.ModuleType("keyring")
    keyring.get_password = lambda service, user: in_keyring  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    os.environ |= {"MY_KEY": "k-variable", "OTHER": "k-other"}
    named = {"keyring_service": "work", "keyring_username": "my-key", "key_env": "OTHER"}
    with ScriptServer(["done"]) as server:
        run_task(default_specification("m", server.url) | named, "x")

        assert expected == server.requests[0].headers["authorization"]


def test_the_token_of_copilot(home: Path) -> None:
    """`auth` names opencode's login; its token travels in a header of its own, and without it the file is named."""
    path = home / ".local/share/opencode/auth.json"
    auth = {"auth": "opencode-github-copilot"}
    with ScriptServer(["done"]) as server:
        missing = run_task(default_specification("m", server.url) | auth, "x")
        path.parent.mkdir(parents=True)
        path.write_text('{"github-copilot": {"access": "t-1"}}')
        run_task(default_specification("m", server.url) | auth, "x")
        (request,) = server.requests

    assert isinstance(missing.error, AuthenticationError)
    assert "opencode/auth.json" in str(missing.error)
    assert "t-1" == request.headers["x-api-key"]


def routed(url: str) -> OpenAI:
    """Return a client of a router at an address of this machine."""
    return OpenAI(base_url=url, profile=profile_named("openrouter"))


@pytest.mark.parametrize("streams", [True, False])
def test_e49_a_session_stays_with_the_provider_that_answered(streams: bool) -> None:
    """E49: streamed or not, the second request asks for it; the session holds it, and one event tells of it."""
    whole = json.dumps({"provider": "P", **ANSWER}).encode()
    answer = Raw(ROUTED, {"Content-Type": "text/event-stream"}) if streams else Raw(whole)
    heard: list[Any] = []
    pin = {"order": ["P"], "allow_fallbacks": False}
    with ScriptServer([answer] * 5) as server:
        spec, client = default_specification("m", "openrouter"), routed(server.url)
        with init_session(spec, on_event=lambda name, event: heard.append((name, dict(event)))) as session:
            run_turn(client, "m", session, "one")
            run_turn(client, "m", session, "two")
            assert pin == session["provider"]
            kept = json.loads(json.dumps(session))
        with init_session(spec, session=kept) as again:
            run_turn(client, "m", again, "three")
            assert pin == again["provider"]
        with init_session(spec, session_id=kept["session_id"]) as resumed:
            run_turn(client, "m", resumed, "four")
        with init_session(spec, session={**kept, "session_id": "s_other"}, durable=False) as other:
            run_turn(client, "m", other, "five")
        first, *others = server.requests

    assert "provider" not in first.json
    assert [pin] * 4 == [request.json["provider"] for request in others]
    assert [{"provider": "P"}] == [event for name, event in heard if name == "provider_pinned"]


def test_e49_a_provider_of_the_spec_is_left_alone() -> None:
    """E49: what the spec says of providers is sent, and nothing is pinned."""
    chosen = {"order": ["mine"]}
    with ScriptServer([Raw(ROUTED, {"Content-Type": "text/event-stream"})] * 2) as server:
        spec = default_specification("m", "openrouter") | {"provider": chosen, "request_params": {"provider": chosen}}
        with init_session(spec) as session, routed(server.url) as client:
            run_turn(client, "m", session, "one")
            run_turn(client, "m", session, "two")
            assert chosen == session["provider"]
        assert [chosen, chosen] == [request.json["provider"] for request in server.requests]


def test_prompt_tokens_that_mean_nothing_are_not_counted() -> None:
    """With `reports_prompt_tokens: false` the numbers of the prompt are unknown, those of the answer are not."""
    heard: list[str] = []
    with ScriptServer(["done"]) as server:
        spec = default_specification("m", server.url) | {"reports_prompt_tokens": False}
        result = run_task(spec, "x", on_event=lambda name, event: heard.append(f"{name} {event['fmt']}"))

    assert (None, None) == (result.turn_usage.input, result.turn_usage.cache_read)
    assert result.turn_usage.output
    assert ["? in" in line for line in heard if line.startswith("usage")] == [True]


def test_a_proxy_and_the_environment_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that the program names is asked for every public host, else the one of the environment."""
    body = json.dumps(ANSWER).encode()
    asked: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        asked.append(connection.recv(65_536).splitlines()[0])
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)

    os.environ["MY_KEY"] = "k"
    spec = default_specification("m", "http://model.example/v1") | {"key_env": "MY_KEY"}
    with raw_server(serve) as url:
        proxy = url.removesuffix("/v1")
        with create_client(spec, network=Network(proxy=proxy)) as client:
            assert "done" == run_task(spec, "x", client=client).final_reply
        monkeypatch.setenv("http_proxy", proxy)
        assert "done" == run_task(spec, "x").final_reply

    assert [b"POST http://model.example/v1/chat/completions HTTP/1.1"] * 2 == asked


def test_a_slow_key_holds_no_event_loop_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A keyring that waits for its user is asked in a thread: other tasks of the loop go on meanwhile."""
    asked, unlocked = threading.Event(), threading.Event()

    def get_password(service: str, user: str) -> str:
        asked.set()
        unlocked.wait(10)
        return "k-ring"

    keyring = types.ModuleType("keyring")
    keyring.get_password = get_password  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", keyring)

    async def use(url: str) -> str:
        agent = Agent(chat_model("m", url, keys=[FromKeyring("s", "my-key")]))
        running = asyncio.create_task(agent.arun("x"))
        await asyncio.to_thread(asked.wait, 10)
        unlocked.set()  # the loop is here while the keyring waits
        return str(await running)

    with ScriptServer(["done"]) as server:
        assert "done" == asyncio.run(use(server.url))
        assert "Bearer k-ring" == server.requests[0].headers["authorization"]


def test_the_requests_of_a_minute_are_limited_only_when_it_is_asked_for() -> None:
    """Without `max_rpm` there is no limit of plait's own."""
    bare, limited = (
        create_client(default_specification("m", "http://127.0.0.1:1/v1") | more) for more in ({}, {"max_rpm": 3})
    )

    assert isinstance(bare, OpenAI)
    assert isinstance(limited, OpenAI)
    assert bare.backend.limiter is None
    assert limited.backend.limiter is not None


@pytest.mark.parametrize(
    "endpoint, base",
    [
        ("https://res.openai.azure.com", "https://res.openai.azure.com/openai/v1"),
        (
            "https://res.openai.azure.com/openai/deployments/d/chat/completions?api-version=2026-01-01",
            "https://res.openai.azure.com/openai/deployments/d",
        ),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1"),
        ("http://127.0.0.1:8080/api", "http://127.0.0.1:8080/api"),
        ("openrouter", "https://openrouter.ai/api/v1"),
        ("", "https://openrouter.ai/api/v1"),
    ],
)
def test_where_requests_go(endpoint: str, base: str) -> None:
    """An address with or without its path, with a query, a provider's name, or none at all."""
    client = create_client(default_specification("m", endpoint))

    assert base == client.base_url
    assert isinstance(client, OpenAI)
    assert ("api-version=2026-01-01" if "?" in endpoint else "") == client.backend.endpoint.query


@pytest.mark.parametrize("endpoint", ["opnrouter", "https://u:very-secret@host.example/v1", "http://host:99999/v1"])
def test_an_address_that_is_a_mistake(endpoint: str) -> None:
    """A mistyped provider, a password in the address and an impossible port are told before anything is sent."""
    with pytest.raises(ConfigError) as caught:
        create_client(default_specification("m", endpoint))

    assert "very-secret" not in f"{caught.value}{caught.value.hint}"
    assert ("did you mean 'openrouter'?" in caught.value.hint) == (endpoint == "opnrouter")
