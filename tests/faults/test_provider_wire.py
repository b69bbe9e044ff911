"""What providers are known to get wrong on the wire, one test a known trouble, by the number it has in the corpus."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

import pytest

from plait.core.codec import decode_fact, encode_fact
from plait.core.exchange import ProviderFailed, Reply, ToolSchema
from plait.core.facts import MessageAdded
from plait.core.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult, assistant
from plait.engine.agent import Agent
from plait.engine.recovery import nobody_knows
from plait.kernel.ports import Options, Setup
from plait.kernel.tools import Tool, ToolTable
from plait.models.chat_model import chat_model
from plait.models.known_profiles import profile_named
from plait.testing import Request, ScriptServer, VirtualClock, faults
from plait.testing.faults import Step
from plait.wire.chat.encode import encode_message, head
from plait.wire.decode import decode_body, decoder_for, describe_answer
from plait.wire.errors.classify import classify
from plait.wire.names import original_names, wire_name
from plait.wire.profile import DecodeOptions, WireName, WireProfile
from plait.wire.sse import SseParser
from tests.unit.models.talking import TALKS, text_of
from tests.unit.wire.cases import CASES, printed_without_replay, stream_cases, wanted

CORPUS: Final = [json.loads(line) for line in (CASES / "faults.jsonl").read_text("utf-8").splitlines()]
KNOWN: Final = {case["id"]: case for case in CORPUS if case["group"] == "provider-wire"}
WIRES: Final[tuple[WireName, ...]] = ("chat", "responses", "anthropic")
STREAMS: Final = {case.name: case for wire in WIRES for case in stream_cases(wire)}
HERE: Final = WireProfile(origin="here")
DONE: Final = b"data: [DONE]\n\n"


def chunk(finish: str | None = None, **delta: object) -> bytes:
    """Make one event of the chat wire."""
    return b"data: %s\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode()


def call_chunk(**call: object) -> bytes:
    """Make an event that holds a fragment of a call."""
    return chunk(tool_calls=[{"index": 0, **call}])


def answer(*chunks: bytes, taken: Mapping[str, object] | None = None) -> Reply:
    """Decode a stream, byte by byte."""
    body = b"".join(chunks) + DONE
    decoder = decoder_for(HERE, DecodeOptions(taken_ids=taken or {}))
    for at in range(len(body)):
        decoder.feed(body[at : at + 1])
    return decoder.finish()


def calls_in(reply: Reply) -> list[tuple[str, str]]:
    """Return names and arguments of an answer's calls."""
    return [(call.name, call.raw) for call in reply.message.tool_calls]


def sent(message: Message, profile: WireProfile = HERE) -> list[dict[str, Any]]:
    """Return a message as an endpoint gets it."""
    return list(json.loads(b"[" + encode_message(message, profile).data + b"]"))


def ids_that_repeat() -> None:
    """03: an empty id changes nothing, and an id that the session has is given out anew."""
    one = answer(
        call_chunk(id="c1", function={"name": "f", "arguments": "{"}), call_chunk(id="", function={"arguments": "}"})
    )
    assert ["c1"] == [call.id for call in one.message.tool_calls]
    two = answer(call_chunk(id="0", function={"name": "f", "arguments": "{}"}), taken={"0": None})
    assert "0" != two.message.tool_calls[0].id


def a_summary_at_the_end() -> None:
    """04: an id on every delta and a summary with its arguments packed twice are one call."""
    raw = '{"a":1}'
    pieces = [call_chunk(id="c", function={"name": "f", "arguments": text}) for text in ("", '{"a"', ":1}")]
    summary = call_chunk(id="c", function={"name": "f", "arguments": json.dumps(raw)})
    assert [("f", raw)] == calls_in(answer(*pieces, summary, chunk("tool_calls")))


def arguments_twice() -> None:
    """05: an exact repeat after the object was closed is dropped."""
    repeat = call_chunk(function={"arguments": '{"a":1}'})
    assert [("f", '{"a":1}')] == calls_in(answer(call_chunk(id="c", function={"name": "f"}), repeat, repeat))


def a_name_before_its_arguments() -> None:
    """06: an id and a name first, arguments later and an empty one with the end are one call."""
    pieces = [
        call_chunk(id="c", type="function", function={"name": "f"}),
        call_chunk(function={"arguments": '{"a":1}'}),
        chunk("tool_calls", tool_calls=[{"index": 0, "function": {"arguments": ""}}]),
    ]
    assert [("f", '{"a":1}')] == calls_in(answer(*pieces))


def no_arguments() -> None:
    """07: arguments that are null, empty or absent are an empty object."""
    for function in ({"name": "f"}, {"name": "f", "arguments": None}, {"name": "f", "arguments": ""}):
        (call,) = answer(call_chunk(id="c", function=function), chunk("tool_calls")).message.tool_calls
        assert {} == call.arguments


def arguments_as_an_object() -> None:
    """08: an object is made text once, and long numbers keep every digit there and back."""
    (call,) = answer(call_chunk(id="c", function={"name": "f", "arguments": {"at": "Oslo"}})).message.tool_calls
    assert {"at": "Oslo"} == call.arguments
    raw = '{"chat_id":9223372036854775807}'
    (call,) = answer(call_chunk(id="c", function={"name": "f", "arguments": raw})).message.tool_calls
    assert raw == sent(assistant("", [call]))[0]["tool_calls"][0]["function"]["arguments"]


def stop_beside_calls() -> None:
    """09: calls decide, whatever the reason to stop is called."""
    reply = answer(call_chunk(id="c", function={"name": "f", "arguments": "{}"}), chunk("stop"))
    assert ("tool_calls", "stop") == (reply.stop, reply.raw_stop)


def a_reason_without_calls() -> None:
    """10: where there is no call, the answer is over."""
    assert "end_turn" == answer(chunk(content="hi"), chunk("tool_calls", tool_calls=[])).stop


def done_without_a_reason() -> None:
    """11: whole calls count, half of one does not."""
    whole = call_chunk(id="c", function={"name": "f", "arguments": "{}"})
    assert "tool_calls" == answer(whole).stop
    with pytest.raises(ProviderFailed) as cut:
        answer(call_chunk(id="c", function={"name": "f", "arguments": '{"a'}))
    assert "incomplete_stream" == cut.value.detail


def chunks_without_choices() -> None:
    """15: a chunk that holds no choice, or no delta, is passed over."""
    odd = b'data: {"choices":[],"prompt_filter_results":[]}\n\ndata: {"choices":[{"index":0,"delta":null}]}\n\n'
    assert "hi" == answer(odd, b'data: {"choices":[{"index":0}]}\n\n', chunk("stop", content="hi")).message.content


def empty_events() -> None:
    """18: events without data, pings and comments are nothing."""
    parser = SseParser()
    assert [] == parser.feed(b"data:\n\nevent: ping\n\n: hi\n\ndata: \n\n") + parser.finish()


def a_character_in_two_reads() -> None:
    """20: a character whose bytes come in several reads is that character (every read here is a byte)."""
    assert (
        "né🎉"
        == answer(
            chunk(content="né"), 'data: {"choices":[{"index":0,"delta":{"content":"🎉"}}]}\n\n'.encode(), chunk("stop")
        ).message.content
    )


def escapes_in_two_deltas() -> None:
    """21: arguments are read when they are whole, and half a character can be stored and sent."""
    pieces = [
        call_chunk(id="c", function={"name": "f", "arguments": part}) for part in ('{"a":"\\ud8', "3d\\ude", '00"}')
    ]
    (call,) = answer(*pieces, chunk("tool_calls")).message.tool_calls
    assert {"a": "\U0001f600"} == call.arguments
    half = MessageAdded(answer(chunk("stop", content="x\ud83d")).message)
    assert half == decode_fact(*encode_fact(half))
    assert sent(half.message)


def an_error_in_a_good_stream() -> None:
    """22: an error inside a 200 is a failure with its code, to be tried again if it passes."""
    with pytest.raises(ProviderFailed) as failed:
        answer(
            call_chunk(id="c", function={"name": "f"}),
            b'data: {"error":{"code":429,"message":"slow"},"choices":[]}\n\n',
        )
    assert ("rate_limit", "429", True) == (failed.value.kind, failed.value.code, failed.value.retryable)


def an_overflow_in_a_good_stream() -> None:
    """23: every dialect of a full window is an overflow, which makes the loop shorten the history."""
    message = "the request exceeds the available context size, try increasing it"
    for line in (
        f"error: {message}",
        f'error: {{"code":400,"message":"{message}"}}',
        f'data: {{"error":{{"message":"{message}"}}}}',
    ):
        with pytest.raises(ProviderFailed) as failed:
            answer(f"{line}\n\n".encode())
        assert "context_overflow" == failed.value.kind, line


def a_window_with_the_answer_in_it() -> None:
    """26: where the prompt fits, the answer gets what is left; below a floor the history is shortened instead."""
    text = "input length and `max_tokens` exceed context limit: 170000 + 32000 > 200000"
    setup = Setup(options=Options(max_output_tokens=32_000))
    with ScriptServer([faults.Status(400, {"error": {"message": text}}), "fine"]) as server:
        assert "fine" == text_of(TALKS["sync"](chat_model("any", server.url), 1, setup)[0])
        assert 30_000 == server.requests[1].json["max_tokens"]


def a_signature_beside_a_call() -> None:
    """30: what comes beside a call goes back to its endpoint; Gemini gets its stand-in beside foreign calls."""
    extra = {"google": {"thought_signature": "sig"}}
    reply = answer(call_chunk(id="c", function={"name": "f", "arguments": "{}"}, extra_content=extra))
    message = replace(reply.message, origin="here")
    assert extra == sent(message)[0]["tool_calls"][0]["extra_content"]
    gemini = profile_named("gemini")
    assert gemini is not None
    foreign = sent(message, gemini.wire)[0]["tool_calls"][0]
    assert foreign["extra_content"] == gemini.wire.call_extra


def a_signature_in_a_later_delta() -> None:
    """31: pieces of one thought are joined by their index and go back as they came."""
    details = [
        {"type": "reasoning.text", "index": 0, "text": "hm"},
        {"type": "reasoning.text", "index": 0, "signature": "s"},
    ]
    reply = answer(*(chunk(reasoning_details=[detail]) for detail in details), chunk("stop", content="hi"))
    (echoed,) = sent(replace(reply.message, origin="here"), replace(HERE, reasoning_echo="always"))[0][
        "reasoning_details"
    ]
    assert ("hm", "s") == (echoed["text"], echoed["signature"])


def content_in_parts() -> None:
    """32: parts that think are thoughts, parts that talk are the answer."""
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "hi"}]
    message = answer(chunk("stop", content=parts)).message
    assert ("hm", "hi") == (message.reasoning, message.content)


def usage_inside_a_choice() -> None:
    """35: usage counts where Moonshot puts it."""
    choice = {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop", "usage": {"prompt_tokens": 7}}
    body = b"data: %s\n\n" % json.dumps({"choices": [choice]}).encode()
    assert 7 == answer(body).usage.input_tokens


def usage_on_every_chunk() -> None:
    """37: of reports that count on, the last is the whole."""
    report = '{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":7,"completion_tokens":%d}}'
    reply = answer(*(f"data: {report % count}\n\n".encode() for count in (1, 2, 3)), chunk("stop"))
    assert (7, 3) == (reply.usage.input_tokens, reply.usage.output_tokens)


def nine_letters() -> None:
    """38: where ids are nine letters and digits, a call and its result get the same such id."""
    mistral = profile_named("mistral")
    assert mistral is not None
    id_ = "call_1740241912345"
    call = sent(assistant("", [ToolCall(id_, "f")]), mistral.wire)[0]["tool_calls"][0]["id"]
    result = sent(Message("tool", (ToolResult(id_, "x"),)), mistral.wire)[0]["tool_call_id"]
    assert call == result
    assert (9, True) == (len(call), call.isalnum())


def blank_texts() -> None:
    """40: what is blank is not sent, and a tool that said nothing is said to have said nothing."""
    blank = (assistant(""), Message("assistant", (Reasoning("hm"),)), Message("summary", (Text("   "),)))
    assert [[], [], []] == [sent(message) for message in blank]
    assert "(no output)" == sent(Message("tool", (ToolResult("c", ""),)))[0]["content"]


def keywords_that_are_refused() -> None:
    """41: refused keywords are taken out at every depth for that endpoint; the whole schema still checks the call."""
    schema = {"type": "object", "properties": {"n": {"items": {"anyOf": [{"const": 1, "multipleOf": 2}]}}}}
    profile = replace(HERE, schema_keywords_refused=frozenset({"const", "multipleOf"}))
    tool = ToolSchema("t", "", schema)
    document = head("m", (tool,), "", profile)
    assert b"multipleOf" not in document
    assert b'"enum":[1]' in document.replace(b" ", b"")
    assert "multipleOf" in repr(schema)


def names_that_do_not_fit() -> None:
    """42: a name is made to fit, stays different, and leads back."""
    names = ["x" * 69 + "a", "x" * 69 + "b", "a.b/c"]
    fitting = [wire_name(name) for name in names]
    assert 3 == len(set(fitting))
    assert all(len(name) <= 64 for name in fitting)
    assert names == [original_names(names)[name] for name in fitting]


def two_tools_of_one_long_name() -> None:
    """43: two tools of one name are refused, and nothing goes on for ever."""
    tools = [Tool("x" * 64, "A tool.", lambda: "", parameters={"type": "object"}) for _ in range(2)]
    with pytest.raises(ValueError, match="x" * 64):
        ToolTable(tools)
    assert "x" * 64 == wire_name("x" * 64)


def a_call_that_the_server_cannot_read() -> None:
    """45: the model is asked once more, with what it had said."""
    error = {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "<f>"}
    with ScriptServer([faults.StreamError(error, after=1), "fine"]) as server:
        assert "fine" == Agent(chat_model("any", server.url), clock=VirtualClock()).run("x").text
        assert "<f>" == server.requests[1].messages[1]["content"]


def a_page_in_place_of_a_stream() -> None:
    """46: a web page is told with its address, its type and its beginning; one JSON document is an answer."""
    with ScriptServer(
        [faults.Html(), faults.Status(200, {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]})]
    ) as server:
        failed, fine = TALKS["sync"](chat_model("any", server.url), 2)
        assert isinstance(failed, ProviderFailed)
        assert "<!doctype html>" in failed.message
        assert "text/html" in failed.message
        assert server.url in failed.hint
        assert "hi" == text_of(fine)


def one_answer_said_twice() -> None:
    """47: the whole message at the end does not double the text, and a second choice is part of the one answer."""
    last = b'data: {"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}\n\n'
    assert "hi" == answer(chunk(content="h"), chunk(content="i"), last).message.content
    other = {
        "index": 1,
        "delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]},
    }
    reply = answer(chunk(content="hi"), b"data: %s\n\n" % json.dumps({"choices": [other]}).encode())
    assert ("hi", [("f", "{}")]) == (reply.message.content, calls_in(reply))


def names_and_ids_of_all_kinds() -> None:
    """48: a name in pieces is joined, a repeated one is not, and gaps in the numbering mean nothing."""
    pieces = [call_chunk(id="c", function={"name": "read_"}), call_chunk(function={"name": "file", "arguments": "{}"})]
    assert [("read_file", "{}")] == calls_in(answer(*pieces))
    again = [call_chunk(id="c", function={"name": "f", "arguments": part}) for part in ("{", "}")]
    assert [("f", "{}")] == calls_in(answer(*again))


def a_result_that_nobody_saw() -> None:
    """50: a call whose end was lost says that, and not that somebody stopped it."""
    outcome = nobody_knows(ToolCall("c", "f"))
    assert outcome.result is not None
    assert "unknown" == outcome.status
    assert "Check before repeating it" in outcome.result.content
    assert "user" not in outcome.result.content


def calls_side_by_side() -> None:
    """51: fragments of two calls that take turns stay apart."""
    fragments = [(0, "a", '{"n"'), (1, "b", '{"m"'), (0, None, ":1}"), (1, None, ":2}")]
    pieces = [
        chunk(
            tool_calls=[
                {"index": at, **({"id": name} if name else {}), "function": {"name": name or "", "arguments": raw}}
            ]
        )
        for at, name, raw in fragments
    ]
    assert [("a", '{"n":1}'), ("b", '{"m":2}')] == calls_in(answer(*pieces))


def a_reason_before_the_end() -> None:
    """52: a stream is read to its end, whatever came after the first reason to stop."""
    late = call_chunk(id="c", function={"name": "f", "arguments": "{}"})
    assert [("f", "{}")] == calls_in(answer(chunk("stop", content="hi"), late, chunk("tool_calls")))


def a_refusal() -> None:
    """53: a refusal is an answer that is shown and not asked for again; nothing empty is kept of it."""
    reply = answer(chunk(refusal="I will not."), chunk("stop"))
    assert "I will not." == reply.message.content
    with ScriptServer(
        [faults.Status(200, {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]})]
    ) as server:
        result = Agent(chat_model("any", server.url), clock=VirtualClock()).run("x")
        assert 1 == len(server.requests)
    assert "completed" != result.status
    assert not any(message.role == "assistant" and sent(message) for message in result.messages)


def parallel_calls_that_are_refused() -> None:
    """55: the member is left out once it was refused, and stays out for that server."""
    setup = Setup(tools=(ToolSchema("f", "", {"type": "object"}),), options=Options(parallel_tool_calls=True))

    def script(request: Request) -> Step:
        refused = {"error": {"message": "unknown field `parallel_tool_calls`"}}
        return faults.Status(400, refused) if "parallel_tool_calls" in request.json else "fine"

    with ScriptServer(script) as server:
        assert ["fine", "fine"] == [text_of(reply) for reply in TALKS["sync"](chat_model("any", server.url), 2, setup)]
        assert 3 == len(server.requests)


def too_large_and_too_busy() -> None:
    """56: a body that is too large loses its pictures and no words; a 529 is waited out."""
    busy = faults.Status(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    with ScriptServer([faults.Status(413), busy, "fine"]) as server:
        clock = VirtualClock()
        model = chat_model("any", server.url, supports_images=True)
        assert "fine" == Agent(model, clock=clock).run("x", images=[Image("b2xk")]).text
        assert ["b2xk" in request.body.decode() for request in server.requests] == [True, False, False]
    assert 1 == len(clock.sleeps)
    assert "overloaded" == classify(529, {}, b"").kind


CHECKS: Final[Mapping[str, Callable[[], None]]] = {
    f"provider-wire-{(check.__doc__ or '')[:2]}": cast("Callable[[], None]", check)
    for check in list(globals().values())
    if callable(check) and (getattr(check, "__doc__", None) or "")[2:3] == ":"
}


@pytest.mark.parametrize("number", KNOWN)
def test_a_known_trouble(number: str) -> None:
    """What the corpus tells of is handled as it says; its recordings come out as they should."""
    CHECKS[number]()
    for name in KNOWN[number].get("fixtures", ()):
        case = STREAMS[name]
        for cuts in ((), range(1, len(case.body))):
            got = describe_answer(decode_body(case.body, case.profile, cuts=cuts), with_replay=True)
            assert wanted(case, got) == printed_without_replay(case, got), name


def test_no_known_trouble_is_left_out() -> None:
    """Every entry of the corpus about the wire has its test, and every test its entry."""
    assert set(KNOWN) == set(CHECKS)
    assert 36 == len(KNOWN)
