"""What goes over the wires for an answer that is a value, and for pictures: real sockets, whole requests."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from plait import Agent, Image, Tool, chat_model
from plait.core.errors import RequestTooLarge, UnsupportedFeature
from plait.core.messages import ToolResult
from plait.engine.structured import ANSWER_TOOL
from plait.models.chat_model import ChatModel
from plait.models.endpoint import endpoint_of
from plait.models.known_profiles import profile_of
from plait.models.profiles import EndpointProfile, with_wire
from plait.testing import Call, Say, ScriptServer
from plait.wire.profile import WireName, WireProfile
from tests.unit.engine.runs import Colour, both, run

WIRES: tuple[WireName, ...] = ("chat", "responses", "anthropic")
wires = pytest.mark.parametrize("wire", WIRES)
BEGINNINGS = {"chat": b'"messages":[', "responses": b'"input":[', "anthropic": b'"messages":['}
PNG = b"\x89PNG\r\n\x1a\n"
DATA = "iVBORw0KGgo="


@dataclass
class City:
    name: str
    people: int


GOOD = '{"name":"Paris","people":2}'
BAD = '{"name":"Paris"}'
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
    "additionalProperties": False,
}


def look(at: str) -> str:
    """Look at something."""
    return "blue"


LOOK = Tool("look", "Look.", look)
LOOKS = Call("look", {"at": "sky"}, id="c1")


def answers(text: str) -> Call:
    """Return a model's answer by call."""
    return Call(ANSWER_TOOL, text)


def model_at(server: ScriptServer, wire: WireName, **profile: Any) -> ChatModel:
    """Return a model at this server, of which nothing is known but its wire and these fields of its profile."""
    known = EndpointProfile("", needs_key=False, wire=WireProfile(wire=wire, **profile))
    return chat_model("any", endpoint_of(server.url).with_profile(known))


def bodies(server: ScriptServer) -> list[bytes]:
    """Return what was asked, byte for byte."""
    return [request.body for request in server.requests]


def said_in(server: ScriptServer, number: int) -> list[Any]:
    """Return the messages of a request, whatever its wire calls them."""
    body = server.requests[number].json
    said: list[Any] = body["messages"] if "messages" in body else body["input"]
    return said


def said_before_the_end(body: bytes) -> bytes:
    """Return a request's head and messages: all before the bracket that closes its messages, cache markers left out."""
    body = body.replace(b',"cache_control":{"type":"ephemeral"}', b"")
    depth, inside, escaped = 0, False, False
    start = next(body.index(begin) + len(begin) for begin in BEGINNINGS.values() if begin in body)
    for place in range(start, len(body)):
        char = body[place : place + 1]
        if inside:
            inside = escaped or char != b'"'
            escaped = not escaped and char == b"\\"
        elif char == b'"':
            inside = True
        elif char in b"[{":
            depth += 1
        elif char in b"]}":
            depth -= 1
            if depth < 0:
                return body[:place]
    raise AssertionError("the messages never end")


def extends(bodies: list[bytes]) -> list[bool]:
    """Say of each request whether it begins with all that the one before it said."""
    said = list(map(said_before_the_end, bodies))
    return [later.startswith(earlier) for earlier, later in itertools.pairwise(said)]


@both
@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_a_schema_stands_after_the_messages(wire: WireName, colour: Colour) -> None:
    """Where the endpoint takes a schema, every request has it in its tail, strict, and begins with the one before."""
    with ScriptServer([LOOKS, BAD, GOOD]) as server:
        result = run(Agent(model_at(server, wire, structured_output="always"), [LOOK], output_type=City), colour)

    assert (City("Paris", 2), 3) == (result.output, result.steps)
    form = {"name": "answer", "schema": SCHEMA, "strict": True}
    for number in range(3):
        body = server.requests[number].json
        if wire == "chat":
            assert {"type": "json_schema", "json_schema": form} == body["response_format"]
        else:
            assert {"format": {"type": "json_schema", **form}} == body["text"]
        assert "tool_choice" not in body
    assert [True, True] == extends(bodies(server))


CHOICES: dict[WireName, tuple[Any, Any]] = {
    "chat": ({"type": "function", "function": {"name": ANSWER_TOOL}}, "required"),
    "responses": ({"type": "function", "name": ANSWER_TOOL}, "required"),
    "anthropic": ({"type": "tool", "name": ANSWER_TOOL}, {"type": "any"}),
}


@both
@wires
def test_a_tool_stands_before_the_messages(wire: WireName, colour: Colour) -> None:
    """Where it takes none, the answering tool is declared from the first request on, and a call is demanded."""
    with ScriptServer([LOOKS, answers(BAD), answers(GOOD), answers(GOOD)]) as server:
        result = run(Agent(model_at(server, wire), [LOOK], output_type=City), colour)
        run(Agent(model_at(server, wire), output_type=City), colour)

    assert (City("Paris", 2), 3) == (result.output, result.steps)
    named, demanded = CHOICES[wire]
    assert [demanded] * 3 + [named] == [server.requests[number].json["tool_choice"] for number in range(4)]
    tools = server.requests[0].json["tools"]
    names = [tool.get("name") or tool["function"]["name"] for tool in tools]
    last = tools[-1].get("function", tools[-1])
    assert ["look", ANSWER_TOOL] == names
    assert SCHEMA == (last.get("parameters") or last["input_schema"])
    assert [True, True] == extends(bodies(server)[:3])
    assert not {"response_format", "text", "output_config"} & server.requests[0].json.keys()


def test_a_schema_that_is_not_closed_is_not_called_strict() -> None:
    """A caller's own schema is sent as it is, and said to be strict only where it is."""
    own = {"type": "object", "properties": {"n": {"type": "integer"}}}
    with ScriptServer(['{"n":1}']) as server:
        Agent(model_at(server, "chat", structured_output="always")).run("go", output_type=own)

    assert {"name": "answer", "schema": own, "strict": False} == server.requests[0].json["response_format"][
        "json_schema"
    ]


def test_keywords_that_an_endpoint_refuses_are_not_sent_in_a_schema() -> None:
    """The schema of answers is rewritten as those of tools are, and the answer is held to the whole one."""
    own = {"type": "object", "properties": {"n": {"const": 1}}, "required": ["n"], "additionalProperties": False}
    profile: dict[str, Any] = {"structured_output": "always", "schema_keywords_refused": frozenset({"const"})}
    with ScriptServer(['{"n":2}', '{"n":1}']) as server:
        result = Agent(model_at(server, "chat", **profile)).run("go", output_type=own)

    assert {"enum": [1]} == server.requests[0].json["response_format"]["json_schema"]["schema"]["properties"]["n"]
    assert ({"n": 1}, 2) == (result.output, result.steps)


def test_a_model_without_calls_is_told_in_words() -> None:
    """Where calls are text, the question holds the schema, and an object with a name in it is not taken for a call."""
    with ScriptServer([f'{{"value":{GOOD}}}']) as server:
        result = Agent(model_at(server, "chat", calls="inline"), [LOOK], output_type=City).run("Where?")

    asked = server.requests[0].json["messages"][0]["content"]
    assert City("Paris", 2) == result.output
    assert asked.startswith("Where?\n\n")
    assert '"value"' in asked
    assert not {"tools", "tool_choice", "response_format"} & server.requests[0].json.keys()


def test_a_local_server_is_asked_as_it_can_be() -> None:
    """A server on this machine gets a schema where there are no tools, and a tool where there are some."""
    with ScriptServer([GOOD, GOOD]) as server:
        model = chat_model("any", server.url)
        alone = Agent(model, output_type=City).run("go")
        beside = Agent(model, [LOOK], output_type=City).run("go")

    assert alone.output == beside.output == City("Paris", 2)
    assert ["response_format" in request.json for request in server.requests] == [True, False]
    assert ANSWER_TOOL == server.requests[1].tools[-1]["function"]["name"]


def test_another_wire_of_an_endpoint() -> None:
    """What is known of schemas is known of one wire: on another a tool is safer, but for OpenAI's own two."""
    local, openai = profile_of("127.0.0.1"), profile_of("api.openai.com")

    assert ["without_tools", "never", "never"] == [with_wire(local, wire).wire.structured_output for wire in WIRES]
    assert ["always", "always", "never"] == [with_wire(openai, wire).wire.structured_output for wire in WIRES]


def test_a_stream_of_an_answer_is_heard() -> None:
    """Fragments of an answer that is a value come as those of any other do."""
    heard: list[str] = []
    with ScriptServer([Say(['{"name":"Pa', 'ris","people":2}'])]) as server:
        result = Agent(chat_model("any", server.url), output_type=City).run("go", on_text=heard.append)

    assert ['{"name":"Pa', 'ris","people":2}'] == heard
    assert City("Paris", 2) == result.output


SHOWN: dict[WireName, list[Any]] = {
    "chat": [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/b.png"}},
    ],
    "responses": [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{DATA}"},
        {"type": "input_image", "detail": "auto", "image_url": "https://example.com/b.png"},
    ],
    "anthropic": [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
        {
            "type": "image",
            "source": {"type": "url", "url": "https://example.com/b.png"},
            "cache_control": {"type": "ephemeral"},
        },
    ],
}


@both
@wires
def test_pictures_of_a_question(wire: WireName, colour: Colour) -> None:
    """Bytes and addresses go where this wire has pictures, after the words."""
    with ScriptServer(["A dot."]) as server:
        run(Agent(model_at(server, wire)), colour, "What is it?", images=[PNG, "https://example.com/b.png"])

    assert SHOWN[wire] == said_in(server, 0)[0]["content"]


RETURNED: dict[WireName, list[Any]] = {
    "chat": [
        {"role": "tool", "tool_call_id": "c1", "content": "a dot"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "[images that the tools above returned]"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
            ],
        },
    ],
    "responses": [
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [
                {"type": "input_text", "text": "a dot"},
                {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{DATA}"},
            ],
        }
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [
                        {"type": "text", "text": "a dot"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
                    ],
                    "cache_control": {"type": "ephemeral"},
                }
            ],
        }
    ],
}


@wires
def test_pictures_of_a_result(wire: WireName) -> None:
    """A tool may return pictures: in its result, or after all results, where a result holds only words."""

    def show(at: str) -> ToolResult:
        return ToolResult("", "a dot", images=(Image.from_bytes(PNG),))

    with ScriptServer([LOOKS, "A dot."]) as server:
        Agent(model_at(server, wire), [Tool("look", "Look.", show)]).run("What is it?")

    assert RETURNED[wire] == said_in(server, 1)[2:]
    assert [True] == extends(bodies(server))


def test_a_tool_may_return_just_a_picture() -> None:
    """An `Image` is a result of its own, without words."""
    picture = Image.from_bytes(PNG)
    with ScriptServer([LOOKS, "A dot."]) as server:
        result = Agent(model_at(server, "responses"), [Tool("look", "Look.", lambda at: picture)]).run("What is it?")

    assert (picture,) == result.messages[2].tool_results[0].images


@wires
def test_pictures_that_a_model_does_not_take(wire: WireName) -> None:
    """A model without vision, and a picture beyond what the endpoint takes, are refused before anything is sent."""
    with ScriptServer([]) as server:
        with pytest.raises(UnsupportedFeature, match="takes no images"):
            Agent(model_at(server, wire, images=False)).run("What is it?", images=[PNG])
        with pytest.raises(RequestTooLarge, match="picture 2 has 8 bytes"):
            Agent(model_at(server, wire, image_bytes_max=7)).run("x", images=["https://example.com/b.png", PNG])

    assert [] == bodies(server)


@wires
def test_a_result_with_a_picture_for_a_model_without_vision(wire: WireName) -> None:
    """A picture that a tool returned is named in its place, so that the model knows what it cannot see."""
    picture = Image.from_bytes(PNG)
    with ScriptServer([LOOKS, "I see none."]) as server:
        Agent(model_at(server, wire, images=False), [Tool("look", "Look.", lambda at: picture)]).run("What is it?")

    assert b"this model takes none" in bodies(server)[1]
    assert DATA.encode() not in bodies(server)[1]
