"""The scripted server, over real connections."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from plait.testing import (
    Call,
    Raw,
    Request,
    Say,
    ScriptError,
    ScriptServer,
    UnexpectedRequest,
    UnusedStep,
    When,
    faults,
    unused_url,
)


class Client:
    """One kept connection to a server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.base = parts.path
        self.connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=5)

    def post(self, path: str = "/chat/completions", **body: Any) -> http.client.HTTPResponse:
        """Send a chat request; what is not given is a minimal one."""
        whole = {"model": "any", "messages": [{"role": "user", "content": "hi"}], **body}
        self.connection.request("POST", self.base + path, json.dumps(whole), {"Content-Type": "application/json"})
        return self.connection.getresponse()

    def ask(self, **body: Any) -> dict[str, Any]:
        """Send a chat request and return the parsed document."""
        parsed = json.loads(self.post(**body).read())
        assert isinstance(parsed, dict)
        return parsed


@contextmanager
def client(server: ScriptServer) -> Iterator[Client]:
    """Connect to a server, and let go at the end."""
    opened = Client(server.url)
    try:
        yield opened
    finally:
        opened.connection.close()


def text(document: dict[str, Any]) -> str:
    """Return the words of a document."""
    return str(document["choices"][0]["message"]["content"])


def test_a_conversation_over_one_connection() -> None:
    """Steps answer in order, the connection is kept, and every request is recorded as it was sent."""
    with ScriptServer([Call("look", {"path": "a"}), "done"]) as server, client(server) as me:
        first = me.ask(model="m1")
        second = me.ask(tools=[{"name": "t"}])

        assert "look" == first["choices"][0]["message"]["tool_calls"][0]["function"]["name"]
        assert "done" == text(second)
        assert [(1, 1, "m1"), (2, 1, "any")] == [(r.number, r.connection, r.model) for r in server.requests]
        assert "application/json" == server.requests[0].headers["content-type"]
        assert [{"name": "t"}] == json.loads(server.requests[1].body)["tools"]
        assert (1, 1) == (server.connections, server.open_connections)


def test_a_stream_arrives_while_it_is_made() -> None:
    """Events are flushed one by one: the first is readable long before the last is due."""
    with ScriptServer([Say(["a", "b"], gap_s=0.08)]) as server, client(server) as me:
        response = me.post(stream=True)
        started = time.monotonic()
        response.readline()
        first_after_s = time.monotonic() - started
        rest = response.read()

    assert first_after_s < 0.2 < time.monotonic() - started
    assert "text/event-stream; charset=utf-8" == response.getheader("Content-Type")
    assert rest.endswith(b"data: [DONE]\n\n")


def test_call_ids_are_unique_in_the_script() -> None:
    """Calls without an id never share one, whatever the request."""
    with ScriptServer([[Call("a"), Call("a")], Call("a")]) as server, client(server) as me:
        calls = [call for _ in range(2) for call in me.ask()["choices"][0]["message"]["tool_calls"]]

    assert 3 == len({call["id"] for call in calls})


def test_the_count_of_cached_tokens_is_honest() -> None:
    """An extended conversation is cached but for its last block; one changed byte in front costs it all."""
    history = [{"role": "user", "content": "x" * 4_000}]
    changed = [{"role": "user", "content": "y" + "x" * 3_999}]
    with ScriptServer(["ok"], repeat=True) as server, client(server) as me:
        first = me.ask(messages=history)["usage"]
        extended = me.ask(messages=[*history, {"role": "user", "content": "more"}])["usage"]
        broken = me.ask(messages=changed)["usage"]

    size = len(json.dumps(history)) - 1
    assert (-(-size // 4), 0) == (first["prompt_tokens"], first["prompt_tokens_details"]["cached_tokens"])
    assert size // 512 * 128 == extended["prompt_tokens_details"]["cached_tokens"]
    assert 0 == broken["prompt_tokens_details"]["cached_tokens"]


def test_a_refused_request_warms_no_cache() -> None:
    """A prompt that was answered with an error was never read by a model."""
    messages = [{"role": "user", "content": "x" * 4_000}]
    with ScriptServer([faults.Status(429), "ok"]) as server, client(server) as me:
        me.ask(messages=messages)
        usage = me.ask(messages=messages)["usage"]

    assert 0 == usage["prompt_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize(
    "shape, read",
    [
        ("anthropic", lambda usage: usage["cache_read_input_tokens"]),
        ("read_write", lambda usage: usage["prompt_tokens_details"]["cache_read_tokens"]),
        ("deepseek", lambda usage: usage["prompt_cache_hit_tokens"]),
        ("kimi", lambda usage: usage["cached_tokens"]),
    ],
)
def test_every_usage_shape_says_the_same(shape: str, read: Any) -> None:
    """The same count is reported under every provider's names."""
    messages = [{"role": "user", "content": "x" * 4_000}]
    with ScriptServer(["ok"], usage=shape, repeat=True) as server, client(server) as me:
        counts = [read(me.ask(messages=messages)["usage"]) for _ in range(2)]

    assert [0, 896] == counts


def test_usage_can_be_given_or_left_out() -> None:
    """A step's own usage is sent as it is; an empty one, or the shape `none`, sends nothing."""
    with ScriptServer([Say("a", usage={"x": 1}), Say("b", usage={})]) as server, client(server) as me:
        assert {"x": 1} == me.ask()["usage"]
        assert "usage" not in me.ask()
    with ScriptServer(["a"], usage="none") as server, client(server) as me:
        assert "usage" not in me.ask()


def test_a_function_can_be_the_script() -> None:
    """A function sees the request and answers it."""

    def echo(request: Request) -> str:
        return f"{request.last_text} from {request.model}"

    with ScriptServer(echo) as server, client(server) as me:
        assert "hi from any" == text(me.ask())


def test_rules_answer_side_conversations() -> None:
    """A rule answers what matches it while the ordered steps go on."""
    rule = When[faults.Step]("a title", contains="name this")
    with ScriptServer(["one", rule, "two"]) as server, client(server) as me:
        answers = [text(me.ask()), text(me.ask(messages=[{"role": "user", "content": "name this"}])), text(me.ask())]

    assert ["one", "a title", "two"] == answers


def test_a_request_without_a_step_fails_the_test() -> None:
    """The client gets a clear 500, and the check raises what it says."""
    server = ScriptServer([]).start()
    with client(server) as me:
        response = me.post()
        body = json.loads(response.read())
    server.stop()

    assert 500 == response.status
    assert "answered by no step of the script; its last message is 'hi'" in body["error"]["message"]
    with pytest.raises(UnexpectedRequest, match="request 1"):
        server.check()


def test_a_step_without_a_request_fails_the_test() -> None:
    """A script that was not played to its end is an error, unless that is allowed."""
    with pytest.raises(UnusedStep), ScriptServer(["never asked for"]):
        pass
    with ScriptServer(["never asked for"], allow_unused=True):
        pass


def test_the_test_s_own_error_comes_first() -> None:
    """An exception inside the block is not replaced; what the server has to say is a note on it."""
    with pytest.raises(ZeroDivisionError) as caught, ScriptServer(["never"]):
        _ = 1 / 0

    assert "the script server says: 1 of the script's steps" in caught.value.__notes__[0]


def test_an_error_in_the_script_is_not_lost() -> None:
    """A function that raises answers 500, and its error is the cause at the end."""

    def broken(request: Request) -> str:
        raise KeyError("oops")

    with pytest.raises(ScriptError) as caught, ScriptServer(broken) as server, client(server) as me:
        assert 500 == me.post().status

    assert isinstance(caught.value.__cause__, KeyError)


def test_a_broken_plan_is_not_lost() -> None:
    """A fault of one's own that fails while it is sent fails the test too."""

    class Broken(faults.Fault):
        def plan(self, response: Any) -> Any:
            yield from ()
            raise KeyError("oops")

    server = ScriptServer([Broken()]).start()
    with client(server) as me, pytest.raises(http.client.HTTPException):
        me.post()
    server.stop()

    with pytest.raises(ScriptError, match="KeyError"):
        server.check()


@pytest.mark.parametrize("path", ["/chat/completions", "/v1/chat/completions", "/api/openai/v9/chat/completions"])
def test_any_base_path_is_served(path: str) -> None:
    """The end of the path decides, so every base URL works."""
    with ScriptServer(["ok"]) as server, client(server) as me:
        me.base = ""

        assert "ok" == text(json.loads(me.post(path).read()))


def test_models_are_listed() -> None:
    """`GET …/models` lists the given ids and is no completion request."""
    with ScriptServer([], models=["a", "b"]) as server, client(server) as me:
        me.connection.request("GET", me.base + "/models")
        listed = json.loads(me.connection.getresponse().read())

        assert ["a", "b"] == [model["id"] for model in listed["data"]]
        assert () == server.requests


def test_what_is_not_served_is_said() -> None:
    """Other paths are a 404 with an error object; a request that is not valid is a 400 and uses no step."""
    with ScriptServer(["ok"]) as server, client(server) as me:
        lost = me.post("/embeddings")
        lost_body = json.loads(lost.read())
        bad = me.post(messages="hi")
        bad_body = json.loads(bad.read())
        me.ask()

    assert (404, 400) == (lost.status, bad.status)
    assert "nothing is served at POST /v1/embeddings" == lost_body["error"]["message"]
    assert "no list of messages" in bad_body["error"]["message"]


def test_raw_bytes_are_sent_as_they_are() -> None:
    """A raw step decides status, headers and body."""
    step = Raw(b"\xff\x00", {"X-Mine": "1", "Content-Type": "a/b"}, 207)
    with ScriptServer([step, Raw(b"HTTP/1.1 200 OK\r\n\r\nbare", framed=False)]) as server, client(server) as me:
        response = me.post()
        assert (207, "1", "a/b", b"\xff\x00") == (
            response.status,
            response.getheader("X-Mine"),
            response.getheader("Content-Type"),
            response.read(),
        )
        assert b"bare" == me.post().read()


def test_a_chunked_request_is_read() -> None:
    """A client may send its body in chunks."""
    body = json.dumps({"messages": []}).encode()
    with ScriptServer(["ok"]) as server, client(server) as me:
        me.connection.request("POST", "/v1/chat/completions", iter([body[:5], body[5:]]), encode_chunked=True)

        assert "ok" == text(json.loads(me.connection.getresponse().read()))
        assert body == server.requests[0].body


def test_a_client_that_waits_for_permission_gets_it() -> None:
    """`Expect: 100-continue` is answered before the body comes."""
    body = json.dumps({"messages": []}).encode()
    with ScriptServer(["ok"]) as server, client(server) as me:
        me.connection.putrequest("POST", "/v1/chat/completions")
        me.connection.putheader("Content-Length", str(len(body)))
        me.connection.putheader("Expect", "100-continue")
        me.connection.endheaders()
        interim = me.connection.sock.recv(100)
        me.connection.send(body)

        assert b"HTTP/1.1 100 Continue\r\n\r\n" == interim
        assert 200 == me.connection.getresponse().status


@pytest.mark.parametrize(
    "junk", [b"hello\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"GET /" + b"x" * 70_000]
)
def test_junk_is_answered_and_survived(junk: bytes) -> None:
    """What is no HTTP request gets a 400; the next client is served."""
    with ScriptServer(["ok"]) as server:
        with client(server) as me:
            me.connection.connect()
            me.connection.sock.sendall(junk)
            assert re.match(rb"HTTP/1.1 400 Bad Request", me.connection.sock.recv(100))
        with client(server) as me:
            assert "ok" == text(me.ask())


def test_many_conversations_at_once() -> None:
    """Concurrent clients each get one step, and none is lost."""
    answers: list[str] = []

    def talk(url: str) -> None:
        me = Client(url)
        answers.extend(text(me.ask()) for _ in range(5))
        me.connection.close()

    with ScriptServer([str(i) for i in range(40)]) as server:
        threads = [threading.Thread(target=talk, args=(server.url,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert 8 == server.connections
    assert {str(i) for i in range(40)} == set(answers)


def test_waiting_for_a_request_and_for_a_client_to_let_go() -> None:
    """A test can wait for what happens in the server's thread instead of sleeping."""
    with ScriptServer([faults.Stall("after_headers")]) as server:
        me = Client(server.url)
        response = me.post(stream=True)
        server.wait_for_requests(1)
        with pytest.raises(TimeoutError, match=r"waited 0\.01 s for the last connection to close"):
            server.wait_for_idle(0.01)
        response.close()
        me.connection.close()
        server.wait_for_idle()

        assert 0 == server.open_connections


def test_leaving_ends_what_is_still_running() -> None:
    """A server that is left in the middle of a response closes its connections and does not wait."""
    started = time.monotonic()
    with ScriptServer([faults.Stall("after_headers")]) as server:
        me = Client(server.url)
        response = me.post(stream=True)

    with pytest.raises((http.client.HTTPException, ConnectionError)):
        response.read()
    me.connection.close()
    assert time.monotonic() - started < 2


def test_a_server_that_does_not_run_has_no_url() -> None:
    """Asking too early for the URL says what to do."""
    server = ScriptServer([])
    with pytest.raises(ScriptError, match="not running"):
        _ = server.url
    server.stop()


def test_a_port_that_is_taken_is_an_error() -> None:
    """A given port that somebody listens at is refused, not shared."""
    with ScriptServer([]) as server, pytest.raises(OSError, match="in use"):
        ScriptServer([], port=urlsplit(server.url).port or 0).start()


def test_nobody_listens_at_an_unused_url() -> None:
    """Connecting there is refused."""
    with pytest.raises(ConnectionRefusedError):
        Client(unused_url()).post()
