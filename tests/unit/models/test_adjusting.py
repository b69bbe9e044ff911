"""Requests that are made again without what an endpoint refused: once, within the attempt, and remembered."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.exchange import ProviderFailed, ToolSchema
from plait.core.messages import Image, ToolResult, user
from plait.engine.agent import Agent
from plait.engine.result import RunResult
from plait.kernel.media import LEFT_OUT
from plait.kernel.ports import Options, Setup
from plait.kernel.tools import Tool
from plait.models.adjusting import OUTPUT_TOKENS_MIN
from plait.models.chat_model import chat_model
from plait.testing import Call, Raw, Request, Say, ScriptServer, VirtualClock, faults
from plait.testing.faults import Step
from plait.wire.errors.classify import classify
from plait.wire.errors.overflow import output_limit_in
from tests.unit.models.talking import TALKS, ask_of, text_of
from tests.unit.wire.cases import CASES

RECORDED = [json.loads(line) for line in (CASES / "http_errors.jsonl").read_text("utf-8").splitlines()]
COLOURS = pytest.mark.parametrize("colour", ["sync", "async"])
PARALLEL = Setup(options=Options(parallel_tool_calls=False))
LOOK = Tool("look", "Look.", lambda: "seen", parameters={"type": "object"})


def run(agent: Agent, colour: str, **options: Any) -> RunResult:
    """Run a task in this thread, or in an event loop."""
    return agent.run("x", **options) if colour == "sync" else asyncio.run(agent.arun("x", **options))


def unsupported(name: str) -> faults.Status:
    """Refuse a member of the request."""
    message = f"Unsupported parameter: '{name}' is not supported with this model"
    return faults.Status(400, {"error": {"message": message, "code": "unsupported_parameter", "param": name}})


def passed(prompt: int, output: int, window: int) -> faults.Status:
    """Refuse a request whose answer would not fit beside its prompt."""
    message = (
        f"You passed {prompt} input tokens and requested {output} output tokens. "
        f"However, the model's context length is only {window} tokens."
    )
    return faults.Status(400, {"error": {"message": message, "code": "context_length_exceeded"}})


@COLOURS
def test_a_member_that_is_refused_is_left_out_from_then_on(colour: str) -> None:
    """One refusal costs one request: this conversation and every other of the endpoint do without the member."""
    setup = Setup(tools=(LOOK.schema,), options=PARALLEL.options)

    def script(request: Request) -> Step:
        return unsupported("parallel_tool_calls") if "parallel_tool_calls" in request.json else "fine"

    with ScriptServer(script) as server:
        model = chat_model("any", server.url)
        assert ["fine", "fine"] == [text_of(outcome) for outcome in TALKS[colour](model, 2, setup)]
        assert "fine" == text_of(TALKS[colour](model.with_model("other"), 1, setup)[0])
        assert [True, False, False, False] == ["parallel_tool_calls" in request.json for request in server.requests]


def test_conversations_that_began_before_the_refusal_learn_it_too() -> None:
    """Each that still sends the member is refused once, and goes on without it."""

    def script(request: Request) -> Step:
        return unsupported("stream_options") if "stream_options" in request.json else "fine"

    with ScriptServer(script) as server:
        model = chat_model("any", server.url)
        channels = [model.open(Setup()) for _ in range(2)]
        said = [channel.think(ask_of([user("hi")]), None, Cancel()).message.content for channel in channels * 2]
        assert ["fine"] * 4 == said
        assert 6 == len(server.requests)


@COLOURS
def test_a_refusal_that_does_not_go_away_is_told(colour: str) -> None:
    """A server that goes on refusing is asked twice and no more."""
    with ScriptServer([unsupported("stream_options"), unsupported("stream_options")]) as server:
        (failed,) = TALKS[colour](chat_model("any", server.url), 1)
        assert ["stream_options" in request.json for request in server.requests] == [True, False]
    assert isinstance(failed, ProviderFailed)
    assert "unsupported_feature" == failed.kind


@COLOURS
def test_reasoning_that_is_wanted_back_is_sent_back(colour: str) -> None:
    """An endpoint that misses its own reasoning gets it, from then on and in every conversation."""

    def script(request: Request) -> Step:
        answers = [message for message in request.messages if message["role"] == "assistant"]
        if any("reasoning_content" not in message for message in answers):
            text = "The `reasoning_content` in the thinking mode must be passed back to the API."
            return faults.Status(400, {"error": {"message": text, "type": "invalid_request_error"}})
        return Say(f"answer {len(answers)}", reasoning="hm")

    with ScriptServer(script) as server:
        model = chat_model("any", server.url)
        assert ["answer 0", "answer 1", "answer 2"] == [text_of(o) for o in TALKS[colour](model, 3)]
        assert ["answer 0", "answer 1"] == [text_of(o) for o in TALKS[colour](model, 2)]
        assert 6 == len(server.requests)
        assert "hm" == server.requests[-1].messages[1]["reasoning_content"]


@COLOURS
def test_an_answer_asks_for_the_room_there_is(colour: str) -> None:
    """Where the prompt fits and the answer does not, less is asked for, now and in the requests after it."""
    setup = Setup(options=Options(max_output_tokens=32_000))
    with ScriptServer([passed(170_000, 32_000, 200_000), "fine", "again"]) as server:
        outcomes = TALKS[colour](chat_model("any", server.url), 2, setup)
        assert [32_000, 30_000, 30_000] == [request.json["max_tokens"] for request in server.requests]
    assert ["fine", "again"] == [text_of(outcome) for outcome in outcomes]


@COLOURS
def test_a_conversation_at_its_window_is_not_refused_at_every_step(colour: str) -> None:
    """What is lowered a second time leaves room for what comes next: one refusal is enough for several steps."""
    setup = Setup(options=Options(max_output_tokens=32_000))
    script = [passed(170_000, 32_000, 200_000), "1", passed(180_000, 30_000, 200_000), "2", "3", "4"]
    with ScriptServer(script) as server:
        TALKS[colour](chat_model("any", server.url), 4, setup)
        asked = [request.json["max_tokens"] for request in server.requests]
    assert [32_000, 30_000, 30_000, 10_000, 10_000, 10_000] == asked


def test_a_limit_that_the_wire_wants_leaves_room_for_the_prompt() -> None:
    """Where nobody sets one, an Anthropic request asks for less than a quarter of a small window, else as ever."""
    asked = []
    for window in (None, 16_000, 200_000):
        with ScriptServer(["fine"]) as server:
            TALKS["sync"](chat_model("any", server.url, wire="anthropic", context_window=window), 1, Setup())
            asked.append(server.requests[0].json["max_tokens"])
    assert [8_192, 3_750, 8_192] == asked


@COLOURS
def test_without_room_for_an_answer_the_history_has_to_shrink(colour: str) -> None:
    """Less than a thousand tokens are no answer: then the overflow is the loop's business."""
    setup = Setup(options=Options(max_output_tokens=32_000))
    with ScriptServer([passed(200_000 - OUTPUT_TOKENS_MIN + 1, 32_000, 200_000)]) as server:
        (failed,) = TALKS[colour](chat_model("any", server.url), 1, setup)
    assert isinstance(failed, ProviderFailed)
    assert "context_overflow" == failed.kind


@pytest.mark.parametrize("name, limit", [("anthropic_in_out", 10_000), ("openrouter", 240_005), ("vllm_other", 31_999)])
def test_the_room_is_read_from_what_endpoints_say(name: str, limit: int) -> None:
    """Of recorded refusals those that name the output as the cause say how much there is room for."""
    (case,) = [case for case in RECORDED if case["name"] == name]
    failure = classify(case["status"], case["headers"], case["body"])
    assert limit == output_limit_in(failure.advice)


@pytest.mark.parametrize(
    "message, name",
    [
        ("tools.1.custom.name: String should have at most 64 characters", "b"),
        ("Invalid JSON at 'tools[0].function_declarations[1].parameters': Cannot find field.", "b"),
        ("tools[0].function.name is invalid", "a"),
        ("tools[7].function.name is invalid", ""),
        ("the tools are invalid", ""),
    ],
)
def test_a_tool_that_is_refused_is_named(message: str, name: str) -> None:
    """An error that gives a tool's number is told with its name."""
    tools = tuple(ToolSchema(each, "", {"type": "object"}) for each in "ab")
    with ScriptServer([faults.Status(400, {"error": {"message": message, "param": "tools"}})]) as server:
        (failed,) = TALKS["sync"](chat_model("any", server.url), 1, Setup(tools=tools))
    assert isinstance(failed, ProviderFailed)
    assert ("invalid_tools", bool(name)) == (failed.kind, f"(the tool '{name}')" in failed.message)


@COLOURS
def test_a_call_that_the_server_could_not_read_is_asked_for_again(colour: str) -> None:
    """The next request shows the model what it had said, and that it was no call; the history has none of it."""
    said = '<function=look>{"at": }'
    error = {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": said}
    with ScriptServer([faults.Status(400, {"error": error}), "fine"]) as server:
        result = run(Agent(chat_model("any", server.url), [LOOK], clock=VirtualClock()), colour)
        last = server.requests[1].messages
    assert ["user", "assistant", "user"] == [message["role"] for message in last]
    assert said == last[1]["content"]
    assert "could not be read" in last[2]["content"]
    assert ("fine", ["user", "assistant"]) == (result.text, [message.role for message in result.messages])


@COLOURS
def test_an_unreadable_call_in_a_stream_is_the_same(colour: str) -> None:
    """An error event that repeats the words is met like the error of a status."""
    event = b'data: {"error":{"message":"Failed","code":"tool_use_failed","failed_generation":"look("}}\n\n'
    with ScriptServer([Raw(event, {"Content-Type": "text/event-stream"}), "fine"]) as server:
        run(Agent(chat_model("any", server.url), [LOOK], clock=VirtualClock()), colour)
        assert "look(" == server.requests[1].messages[1]["content"]


@COLOURS
def test_pictures_go_before_words(colour: str) -> None:
    """A body that is too large loses the older pictures, then the last; no word of the history is lost."""
    pictures = iter([Image("b2xk"), Image("bmV3")])

    def snap() -> ToolResult:
        return ToolResult("", "a picture", images=(next(pictures),))

    camera = Tool("snap", "Take a picture.", snap, parameters={"type": "object"})
    too_large = faults.Status(413)
    with ScriptServer([Call("snap", {}), Call("snap", {}), too_large, too_large, "fine"]) as server:
        model = chat_model("any", server.url, supports_images=True)
        result = run(Agent(model, [camera], clock=VirtualClock()), colour)
        sent = [[name for name in ("b2xk", "bmV3") if name in request.body.decode()] for request in server.requests]
    assert [[], ["b2xk"], ["b2xk", "bmV3"], ["bmV3"], []] == sent
    assert "fine" == result.text
    assert 2 == str([message.tool_results for message in result.messages]).count(LEFT_OUT)


@COLOURS
def test_a_request_without_pictures_that_is_too_large_is_an_error(colour: str) -> None:
    """There is nothing to leave out, so the failure is told after one request."""
    with ScriptServer([faults.Status(413)]) as server:
        result = run(Agent(chat_model("any", server.url), clock=VirtualClock()), colour)
    assert ("error", "request_too_large") == (result.status, getattr(result.error, "kind", ""))


@COLOURS
def test_a_picture_in_the_question_can_go_too(colour: str) -> None:
    """The question's words stay, and say that a picture is missing."""
    with ScriptServer([faults.Status(413), "fine"]) as server:
        model = chat_model("any", server.url, supports_images=True)
        result = run(Agent(model, clock=VirtualClock()), colour, images=[Image("b2xk")])
    assert f"x{LEFT_OUT}" == result.messages[0].content
    assert () == result.messages[0].images
