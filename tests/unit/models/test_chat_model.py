"""A model behind a real server, in both colours."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Mapping

import pytest

from plait.core.cancel import Cancel
from plait.core.events import Piece
from plait.core.exchange import ProviderFailed, Reply, ToolSchema, View
from plait.core.messages import Message, ToolResult, user
from plait.kernel.effects import Interrupted, Think
from plait.kernel.ports import Options, Setup
from plait.models.chat_model import chat_model
from plait.models.errors import to_error
from plait.models.profiles import EndpointProfile
from plait.models.transport import Timeouts
from plait.testing import Call, Raw, Request, Say, ScriptServer, faults, unused_url
from tests.unit.models.talking import TALKS, Talk, ask_of, joined, text_of

TOOL = ToolSchema("look", "Look at something.", {"type": "object", "properties": {"at": {"type": "string"}}})


@pytest.fixture(params=["sync", "async"])
def talk(request: pytest.FixtureRequest) -> Talk:
    """A conversation in either colour."""
    return TALKS[request.param]


def test_an_answer_comes_back_whole_and_its_fragments_as_they_come(talk: Talk) -> None:
    """The fragments that were shown, joined, are the answer."""
    pieces: list[Piece] = []
    say = Say("Let me look.", reasoning="Hm.", calls=[Call("look", {"at": "sky"}, id="c1")])
    with ScriptServer([say]) as server:
        (reply,) = talk(chat_model("any", server.url), 1, Setup(tools=(TOOL,)), pieces.extend)
    assert "Let me look." == text_of(reply) == joined(pieces)
    assert isinstance(reply, Reply)
    assert "Hm." == reply.message.reasoning == joined(pieces, "reasoning")
    assert [("c1", "look", '{"at":"sky"}')] == [(call.id, call.name, call.raw) for call in reply.message.tool_calls]
    assert "tool_calls" == reply.stop
    assert reply.usage.input is not None
    assert "any" == (reply.details or {})["model"]


def test_a_connection_that_breaks_after_the_answer_costs_nothing(talk: Talk) -> None:
    """An answer that said why it ended is taken, paid for as it is, and not asked for again."""
    data = (
        b'data: {"choices":[{"index":0,"delta":{"content":"Hello."}}]}\n\n'
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    )
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 5000\r\n\r\n"
    with ScriptServer([Raw(head + data, framed=False)]) as server:
        (reply,) = talk(chat_model("any", server.url), 1)
    assert "Hello." == text_of(reply)
    assert 1 == len(server.requests)


def test_a_request_only_ever_grows_at_its_end(talk: Talk) -> None:
    """Head and messages of a request are the beginning of the next one, byte for byte."""
    with ScriptServer(["one", "two", "three"]) as server:
        talk(chat_model("any", server.url), 3, Setup(system="Be brief.", tools=(TOOL,)))
        assert 1 == server.connections
    bodies = [request.body for request in server.requests]
    for shorter, longer in itertools.pairwise(bodies):
        assert longer.startswith(shorter[: shorter.rindex(b"],")])


def test_an_answer_names_its_request(talk: Talk) -> None:
    """Equal requests have equal digests, in any process; another message, parameter or tool makes another."""

    def digests(setup: Setup) -> list[str]:
        with ScriptServer(["one", "two"]) as server:
            return [outcome.sent for outcome in talk(chat_model("any", server.url), 2, setup) if outcome is not None]

    told = digests(Setup("Be brief."))

    assert told == digests(Setup("Be brief."))
    others = [digests(Setup("Be long.")), digests(Setup("Be brief.", (TOOL,)))]
    others.append(digests(Setup("Be brief.", options=Options(temperature=0.5))))
    assert 8 == len({*told, *itertools.chain(*others)})
    assert {16} == {len(digest) for digest in told}


def test_the_setup_is_in_the_request(talk: Talk) -> None:
    """System prompt, tools and parameters arrive as the endpoint takes them; what it does not take is left out."""
    options = Options(max_output_tokens=50, temperature=0.5, reasoning="low", cache_key="k", extra={"top_p": 0.9})
    with ScriptServer(["ok"]) as server:
        talk(chat_model("any", server.url), 1, Setup("Be brief.", (TOOL,), options))
    (request,) = server.requests
    sent = request.json
    assert ("any", 50, 0.5, 0.9) == (sent["model"], sent["max_tokens"], sent["temperature"], sent["top_p"])
    assert {"role": "system", "content": "Be brief."} == sent["messages"][0]
    assert "look" == sent["tools"][0]["function"]["name"]
    assert "reasoning_effort" not in sent
    assert "prompt_cache_key" not in sent


def test_messages_of_one_request_leave_no_trace(talk: Talk) -> None:
    """What a request says in addition is gone from the next one."""
    channel_texts: list[str] = []

    def script(request: Request) -> str:
        channel_texts.append(str(request.json["messages"][-1]["content"]))
        return "fine"

    with ScriptServer(script) as server:
        channel = chat_model("any", server.url).open(Setup())
        history = [user("hi")]
        channel.think(ask_of(history, extra=(user("summarise"),), purpose="compaction"), None, Cancel())
        channel.think(ask_of(history), None, Cancel())
    assert ["summarise", "hi"] == channel_texts


def test_a_history_that_was_shortened_is_sent_as_it_is() -> None:
    """After a compaction, and for a summary of an older part, only what the view shows is sent."""
    with ScriptServer(["a", "b", "c", "d"]) as server:
        channel = chat_model("any", server.url).open(Setup())
        history = [user("one"), user("two"), user("three")]
        channel.think(ask_of(history), None, Cancel())
        channel.think(Think(View(0, history, 1, (user("summarise"),)), "compaction"), None, Cancel())
        channel.think(ask_of(history), None, Cancel())
        channel.think(ask_of([Message("summary", user("so far").parts), user("three")], epoch=1), None, Cancel())
    shown = [[item["content"] for item in request.json["messages"]] for request in server.requests]
    assert ["one", "two", "three"] == shown[0] == shown[2]
    assert ["one", "summarise"] == shown[1]
    assert 2 == len(shown[3])
    assert "three" == shown[3][1]


def test_call_ids_that_repeat_are_made_unique(talk: Talk) -> None:
    """A server that counts its calls from zero in every answer does not confuse their results."""
    call = Call("look", {}, id="0")
    with ScriptServer([call, call]) as server:
        first, second = talk(chat_model("any", server.url), 2, Setup(tools=(TOOL,)))
    assert isinstance(first, Reply)
    assert isinstance(second, Reply)
    assert first.message.tool_calls[0].id != second.message.tool_calls[0].id


def test_an_answer_that_is_not_streamed_is_read_too(talk: Talk) -> None:
    """A server that answers with a JSON document, asked for it or not, is understood."""
    document = b'{"choices":[{"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}]}'
    profile = EndpointProfile("still", needs_key=False, streams=False)
    with ScriptServer([Raw(document, {"Content-Type": "application/json"}), "not streamed"]) as server:
        assert "whole" == text_of(talk(chat_model("any", server.url), 1)[0])
        assert "not streamed" == text_of(talk(chat_model("any", server.url, profile=profile), 1)[0])
    assert "stream" not in server.requests[1].json


def test_a_web_page_asks_about_the_address(talk: Talk) -> None:
    """HTML with status 200 is no answer, and the advice is about the endpoint's address."""
    with ScriptServer([faults.Html()]) as server:
        (failed,) = talk(chat_model("any", server.url), 1)
    assert isinstance(failed, ProviderFailed)
    assert ("protocol", "not_event_stream", False) == (failed.kind, failed.detail, failed.retryable)
    assert "is no model API" in failed.hint


def test_a_redirect_names_where_it_leads(talk: Talk) -> None:
    """A redirect is not followed with a key in hand; its target is told."""
    with ScriptServer([faults.Status(302, headers={"Location": "https://login.example/"})]) as server:
        (failed,) = talk(chat_model("any", server.url, api_key="k"), 1)
    assert isinstance(failed, ProviderFailed)
    assert ("redirect", 302) == (failed.detail, failed.status)
    assert "https://login.example/" in failed.message


def test_a_broken_answer_keeps_what_had_come(talk: Talk) -> None:
    """The failure carries the words that arrived before the connection broke."""
    pieces: list[Piece] = []
    with ScriptServer([faults.Reset("mid_event", answer="One two three four five six.")]) as server:
        (failed,) = talk(chat_model("any", server.url), 1, None, pieces.extend)
    assert isinstance(failed, ProviderFailed)
    assert failed.partial is not None
    assert "One two" in failed.partial.content
    assert joined(pieces) == failed.partial.content


def test_a_stream_that_is_never_closed_is_over_when_it_says_so(talk: Talk) -> None:
    """An answer is returned at its last event, even where the server then leaves the connection open."""
    began = time.monotonic()
    with ScriptServer([faults.Stall("before_end", answer="done")]) as server:
        (reply,) = talk(chat_model("any", server.url), 1)
    assert "done" == text_of(reply)
    assert time.monotonic() - began < 5


def test_a_missing_key_is_told_at_the_first_request(talk: Talk) -> None:
    """Making a model needs no key; asking does, and the advice names the variable."""
    model = chat_model("gpt", "https://api.openai.com/v1")
    (failed,) = talk(model, 1)
    assert isinstance(failed, ProviderFailed)
    error = to_error(failed, model="gpt", endpoint=model.endpoint)
    assert "model_auth" == error.code
    assert "OPENAI_API_KEY" in error.hint


def test_a_key_never_appears_in_a_failure(talk: Talk) -> None:
    """A server that repeats the key it was sent does not bring it into our messages."""

    def script(request: Request) -> faults.Status:
        return faults.Status(401, {"error": {"message": f"no such key: {request.headers['authorization']}"}})

    with ScriptServer(script) as server:
        model = chat_model("any", server.url, api_key="very-secret-key")
        (failed,) = talk(model, 1)
    assert isinstance(failed, ProviderFailed)
    error = to_error(failed, model="any", endpoint=model.endpoint)
    for text in (str(failed), repr(failed), failed.hint, str(error), repr(error.to_dict()), repr(model)):
        assert "very-secret-key" not in text


def test_a_key_that_no_header_can_carry_is_told_without_it(talk: Talk) -> None:
    """A key with a line break in it is refused by name before anything is sent."""
    with ScriptServer([], allow_unused=True) as server:
        (failed,) = talk(chat_model("any", server.url, api_key="sec\nret"), 1)
        assert () == server.requests
    assert isinstance(failed, ProviderFailed)
    assert "auth" == failed.kind
    assert "sec" not in failed.message


def test_the_next_key_takes_over_when_one_is_spent(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate limit of one key is answered with the next key, within the same attempt; another error is not."""
    monkeypatch.setenv("SOME_KEYS", "k1, k2")
    used: list[str] = []

    def script(request: Request) -> faults.Status | str:
        used.append(request.headers["authorization"])
        return faults.Status(429) if used[-1] == "Bearer k1" else "from k2"

    with ScriptServer(script) as server:
        model = chat_model("any", server.url, key_env="SOME_KEYS")
        assert ["from k2", "from k2"] == [text_of(outcome) for outcome in talk(model, 2)]
    assert ["Bearer k1", "Bearer k2", "Bearer k2"] == used


def test_all_keys_spent_is_the_rate_limit_that_it_is(talk: Talk) -> None:
    """When no key is left the last answer is told; a bad request is told after the first."""
    with ScriptServer([faults.Status(429), faults.Status(429), faults.Status(400)]) as server:
        model = chat_model("any", server.url, api_key="k1,k2")
        outcomes = talk(model, 2)
        assert ["rate_limit", "bad_request"] == [getattr(outcome, "kind", "") for outcome in outcomes]
        assert 3 == len(server.requests)


def _cancelling(cancel: Cancel, step: faults.Stall) -> Callable[[Request], faults.Stall]:
    """Return a script that cancels from a thread of its own, some moments after the request has come."""

    def answer(_request: Request) -> faults.Stall:
        threading.Timer(0.2, cancel.cancel, ["shutdown"]).start()
        return step

    return answer


def test_a_cancel_from_another_thread_interrupts(talk: Talk) -> None:
    """Whatever the request waits for, its cancel ends it with the cancel's reason."""
    cancel = Cancel()
    script = _cancelling(cancel, faults.Stall("mid_event"))
    with ScriptServer(script) as server, pytest.raises(Interrupted) as interrupted:
        talk(chat_model("any", server.url), 1, None, None, cancel)
    assert "shutdown" == interrupted.value.reason


def test_an_interrupted_answer_says_what_it_had_used(talk: Talk) -> None:
    """Where the endpoint tells at the beginning what it read, that is known however the answer ends."""
    cancel = Cancel()
    script = _cancelling(cancel, faults.Stall("mid_event", answer="One two three."))
    with ScriptServer(script) as server, pytest.raises(Interrupted) as interrupted:
        talk(chat_model("any", server.url, wire="anthropic"), 1, None, None, cancel)
    assert interrupted.value.usage is not None
    assert interrupted.value.usage.input


def test_a_limit_of_our_own_can_be_interrupted(talk: Talk) -> None:
    """Waiting for the next place in the minute is a wait like any other."""
    with ScriptServer(["one"]) as server:
        model = chat_model("any", server.url, max_rpm=1)
        assert "one" == text_of(talk(model, 1)[0])
        cancel = Cancel()
        timer = threading.Timer(0.05, cancel.cancel, ["enough"])
        timer.start()
        with pytest.raises(Interrupted):
            talk(model, 1, None, None, cancel)
        timer.join()


def test_a_routed_conversation_stays_with_its_provider(talk: Talk) -> None:
    """Where an endpoint routes, the provider that answered first is asked for from then on, streamed or not."""
    event = b'data: {"provider":"P","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    profile = EndpointProfile("router", needs_key=False, pins_provider=True)
    stream = Raw(event + b"data: [DONE]\n\n", {"Content-Type": "text/event-stream"})
    with ScriptServer([stream, stream]) as server:
        talk(chat_model("any", server.url, profile=profile), 2)
    first, second = (request.json for request in server.requests)
    assert "provider" not in first
    assert {"order": ["P"], "allow_fallbacks": False} == second["provider"]


def test_a_chosen_provider_is_left_alone(talk: Talk) -> None:
    """A provider in the parameters is not replaced by the one that answered."""
    event = b'data: {"provider":"P","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    profile = EndpointProfile("router", needs_key=False, pins_provider=True)
    options = Options(extra={"provider": {"order": ["mine"]}})
    with ScriptServer([Raw(event + b"data: [DONE]\n\n"), "again"]) as server:
        talk(chat_model("any", server.url, profile=profile), 2, Setup(options=options))
    assert [{"order": ["mine"]}] * 2 == [request.json["provider"] for request in server.requests]


def test_headers_and_parameters_of_the_endpoint_are_sent(talk: Talk) -> None:
    """Extra headers win over ours whatever their case, extra members are part of every body."""
    with ScriptServer(["ok"]) as server:
        model = chat_model("any", server.url, headers={"user-agent": "mine", "X-Team": "blue"}, body={"seed": 7})
        talk(model, 1)
    (request,) = server.requests
    assert ("mine", "blue") == (request.headers["user-agent"], request.headers["x-team"])
    assert 7 == request.json["seed"]


def test_many_conversations_share_a_model() -> None:
    """A hundred conversations at once in one loop each get their own answer."""

    def script(request: Request) -> str:
        return f"for {request.json['messages'][0]['content']}"

    async def run(url: str) -> list[str]:
        model = chat_model("any", url)

        async def one(number: int) -> str:
            channel = model.aopen(Setup())
            reply = await channel.think(ask_of([user(str(number))]), None, Cancel())
            await channel.aclose()
            return reply.message.content

        answers = await asyncio.gather(*(one(number) for number in range(100)))
        await model.aclose()
        return answers

    with ScriptServer(script) as server:
        assert [f"for {number}" for number in range(100)] == asyncio.run(run(server.url))
        server.wait_for_idle()


def test_another_model_of_the_endpoint_shares_its_connections(talk: Talk) -> None:
    """`with_model` changes the name and nothing else."""
    with ScriptServer(["one", "two"]) as server:
        model = chat_model("big", server.url)
        channel, other = model.open(Setup()), model.with_model("small").open(Setup())
        for line in (channel, other):
            line.think(ask_of([user("hi")]), None, Cancel())
        assert 1 == server.connections
    assert ["big", "small"] == [request.json["model"] for request in server.requests]


def test_a_refused_connection_reads_as_advice() -> None:
    """The sentence for a server that is not running says so, and what to do."""
    (failed,) = TALKS["sync"](chat_model("any", unused_url()), 1)
    assert isinstance(failed, ProviderFailed)
    error = to_error(failed, model="any", endpoint="http://127.0.0.1/v1")
    assert str(error).startswith("nothing listens at 127.0.0.1:")
    assert "start the server" in error.hint


def test_a_tool_round_goes_over_the_wire(talk: Talk) -> None:
    """A call and its result are sent back as the wire has them."""
    seen: list[Mapping[str, object]] = []

    def script(request: Request) -> Say | str:
        seen.extend(request.json["messages"])
        return "done" if len(request.json["messages"]) > 1 else Say(calls=[Call("look", {"at": "sea"}, id="c9")])

    with ScriptServer(script) as server:
        channel = chat_model("any", server.url).open(Setup(tools=(TOOL,)))
        history = [user("hi")]
        reply = channel.think(ask_of(history), None, Cancel())
        history += [reply.message, Message("tool", (ToolResult("c9", "blue"),))]
        assert "done" == channel.think(ask_of(history), None, Cancel()).message.content
    assert {"role": "tool", "tool_call_id": "c9", "content": "blue"} == seen[-1]


def test_the_timeouts_are_the_models_own(talk: Talk) -> None:
    """A model gives up on a silent endpoint after its own limits."""
    with ScriptServer([faults.Stall("before_headers")]) as server:
        (failed,) = talk(chat_model("any", server.url, timeouts=Timeouts(first_byte_s=0.1)), 1)
    assert isinstance(failed, ProviderFailed)
    assert ("timeout", "first_byte") == (failed.kind, failed.detail)


@pytest.mark.parametrize(
    "models, words",
    [
        (["big-model-2", "other"], "did you mean big-model-2?"),
        ([f"m{number}" for number in range(9)], "the endpoint has m0, m1, m2, m3, m4 and 4 more"),
    ],
)
def test_an_unknown_model_is_answered_with_those_there_are(talk: Talk, models: list[str], words: str) -> None:
    """The endpoint is asked for its list, and the advice names what may have been meant."""
    with ScriptServer([faults.Status(404)], models=models) as server:
        (failed,) = talk(chat_model("big-model", server.url), 1)
    assert isinstance(failed, ProviderFailed)
    assert ("model_not_found", words) == (failed.kind, failed.hint)


def test_a_request_that_is_no_step_wants_words_within_its_own_limits() -> None:
    """A summary is asked for with the same head and messages; calls are forbidden, its length is its own, no schema."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    options = Options(max_output_tokens=500, tool_choice="required", response_schema=schema)
    refusal = faults.Status(
        400, {"error": {"message": "tool_choice is not supported", "type": "invalid_request_error"}}
    )
    with ScriptServer(["step", "notes", refusal, "more notes", "step"]) as server:
        setup = Setup("system", (ToolSchema("t", "T", {"type": "object"}),), options)
        channel = chat_model("any", server.url).open(setup)
        history = [user("hi")]
        aside = Think(View(0, history, 1, (user("summarise"),)), "compaction", output_max=100)
        channel.think(ask_of(history), None, Cancel())
        for _ in range(2):
            channel.think(aside, None, Cancel())
        channel.think(ask_of(history), None, Cancel())
    step, first, refused, again, last = (request.json for request in server.requests)
    assert ("required", 500, True) == (step["tool_choice"], step["max_tokens"], "response_format" in step)
    assert ("none", 100, False) == (first["tool_choice"], first["max_tokens"], "response_format" in first)
    assert first == refused
    assert ("tool_choice" in again, "required") == (False, last["tool_choice"])
    assert step["messages"] == first["messages"][:-1]
