"""What a probe finds out about endpoints of several kinds, each a real server on loopback that plays one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import (
    AuthenticationError,
    ConfigError,
    ModelNotFound,
    ModelProtocolError,
    ModelTimeout,
    ModelUnavailable,
    QuotaExceeded,
)
from plait.kernel.effects import Interrupted
from plait.models.credentials import credentials_for
from plait.models.endpoint import endpoint_of
from plait.models.known_profiles import profile_of
from plait.models.probes import probing
from plait.models.probes.asking import OUTPUT_TOKENS, AskingOptions
from plait.models.probes.findings import MEANINGS, Dossier, Finding
from plait.models.probes.questions import COLOUR, THINKING_TOKENS
from plait.models.support import support_of, with_support
from plait.testing import Call, Raw, Request, Say, ScriptServer, unused_url
from plait.testing.faults import Html, Stall, Status
from plait.wire.profile import WireName

QUICK = AskingOptions(base_s=0.001, timeout_s=20)
Answers = Callable[[Request], Any]


@dataclass(frozen=True)
class Server:
    """What a scripted endpoint does with each kind of question; None as a step is an honest answer."""

    stream: Any = None
    tools: Any = None
    forced: Any = None
    results: Any = None
    effort: Any = None
    grammar: Any = None
    plain: Any = None

    def __call__(self, request: Request) -> Any:
        """Answer as the question wants."""
        kind = kind_of(request)
        step = getattr(self, kind)
        if callable(step):
            return step(request)
        return HONEST[kind] if step is None else step


def kind_of(request: Request) -> str:
    """Say which question of a probe a request is."""
    body = request.json
    if any(name in body for name in ("response_format", "output_config", "text")):
        return "grammar"
    if any(name in body for name in ("reasoning_effort", "reasoning", "thinking")):
        return "effort"
    if body.get("tools"):
        if b"12 degrees" in request.body:
            return "results"
        return "forced" if "tool_choice" in body else "tools"
    return "stream" if b"Count from" in request.body else "plain"


CALLS = Say(calls=[Call("get_temperature", {"city": "Oslo"}), Call("get_temperature", {"city": "Lima"})])
HONEST: dict[str, Any] = {
    "plain": "ready",
    "stream": "one two three four",
    "tools": CALLS,
    "forced": CALLS,
    "results": "It is 12 degrees in both.",
    "effort": Say("9.8", reasoning="9.11 is 9.110"),
    "grammar": json.dumps({"colour": COLOUR}),
}


def refusal(message: str, status: int = 400, **more: Any) -> Raw:
    """Return an endpoint's refusal in the words of chat completions."""
    error = {"message": message, "type": "invalid_request_error", "code": None, **more}
    return Raw(json.dumps({"error": error}).encode(), {"Content-Type": "application/json"}, status)


def probed(
    url: str,
    *,
    wire: WireName | None = None,
    asking: AskingOptions = QUICK,
    api_key: str = "",
    **more: Any,
) -> Dossier:
    """Probe the model `m` at a server."""
    at = endpoint_of(url)
    options = probing.ProbeOptions(wire=wire, asking=asking)
    return probing.probe(at, "m", credentials_for(at, api_key=api_key), options, **more)


def verdicts(dossier: Dossier) -> dict[str, str]:
    """Return the findings that are not yes."""
    return {found.capability: found.verdict for found in dossier.findings if found.verdict != "yes"}


def evidence(dossier: Dossier, capability: str) -> str:
    """Return what a finding rests on."""
    return next(found.evidence for found in dossier.findings if found.capability == capability)


@pytest.mark.parametrize("wire", ["chat", "responses", "anthropic"])
def test_an_endpoint_that_can_do_everything_is_found_to(wire: WireName) -> None:
    """On every wire each capability is seen at work, in six requests within the promised limits."""
    with ScriptServer(Server()) as server:
        dossier = probed(server.url, wire=wire)

    assert {} == verdicts(dossier)
    assert [*MEANINGS] == sorted((found.capability for found in dossier.findings), key=[*MEANINGS].index)
    assert (wire, 6, 6) == (dossier.wire, dossier.requests, len(server.requests))
    limits = [
        request.json.get("max_tokens", request.json.get("max_output_tokens", request.json.get("max_completion_tokens")))
        for request in server.requests
    ]
    assert all(limit in (OUTPUT_TOKENS, THINKING_TOKENS) for limit in limits)
    assert probing.OUTPUT_TOKENS_MAX >= sum(limits)
    assert probing.INPUT_TOKENS_ABOUT >= sum(len(request.body) for request in server.requests) // 4


def test_the_wire_that_answers_is_found() -> None:
    """Where chat completions are not served the other wires are tried, and the first that answers is the one."""

    def only_anthropic(request: Request) -> Any:
        return Server()(request) if request.path.endswith("/messages") else Status(404)

    with ScriptServer(only_anthropic) as server:
        dossier = probed(server.url)

    assert ("anthropic", {}) == (dossier.wire, verdicts(dossier))
    paths = [request.path.removeprefix("/v1") for request in server.requests]
    assert ["/chat/completions", "/responses", "/messages"] == paths[:3]
    assert "2023-06-01" == server.requests[-1].headers["anthropic-version"]


def test_an_endpoint_without_streams() -> None:
    """A document where a stream was asked for is no stream, and later questions do not ask for one."""

    def whole(request: Request) -> Any:
        return Raw(
            json.dumps(
                {"choices": [{"message": {"role": "assistant", "content": "one"}, "finish_reason": "stop"}]}
            ).encode(),
            {"Content-Type": "application/json"},
        )

    with ScriptServer(Server(stream=whole)) as server:
        dossier = probed(server.url)

    assert {"streaming": "no", "stream_usage": "unknown"} == verdicts(dossier)
    assert not dossier.profile.streams
    assert [False] * 4 == [request.stream for request in server.requests[2:]]


def test_streams_without_the_option_for_usage() -> None:
    """A server that refuses stream_options is asked again without them, and the spec says so."""

    def fussy(request: Request) -> Any:
        return refusal("unknown field stream_options") if "stream_options" in request.json else None

    def answer(request: Request) -> Any:
        return fussy(request) or Server()(request)

    with ScriptServer(answer) as server:
        dossier = probed(server.url)

    assert {"stream_usage": "no"} == verdicts(dossier)
    assert (True, False) == (dossier.profile.streams, dossier.profile.wire.stream_usage)


def test_an_endpoint_that_refuses_streams() -> None:
    """A refusal of streams in any form is a no, and the option for usage is not blamed."""

    def refuse(request: Request) -> Any:
        return refusal("streaming is not supported") if request.stream else Server()(request)

    with ScriptServer(refuse) as server:
        dossier = probed(server.url)

    assert {"streaming": "no", "stream_usage": "unknown"} == verdicts(dossier)
    assert "streaming is not supported" in evidence(dossier, "streaming")
    assert (False, True) == (dossier.profile.streams, dossier.profile.wire.stream_usage)


def test_an_endpoint_without_tools() -> None:
    """Tools that are refused with and without a forced call are a no, with the endpoint's words."""
    no = refusal("tools is not supported by this model")
    with ScriptServer(Server(tools=no, forced=no)) as server:
        dossier = probed(server.url)

    assert {"tools": "no", "tool_choice": "no", "parallel_calls": "unknown", "tool_results": "unknown"} == (
        verdicts(dossier)
    )
    assert "tools is not supported by this model" in evidence(dossier, "tools")


def test_an_endpoint_that_takes_no_order_to_call() -> None:
    """Only the choice is refused: calls are made without it."""
    with ScriptServer(Server(forced=refusal('tool_choice "required" is not supported'))) as server:
        dossier = probed(server.url)

    assert {"tool_choice": "no"} == verdicts(dossier)


def test_a_model_that_will_not_call_proves_nothing_about_its_server() -> None:
    """Words where a call was ordered mean that the order was ignored; whether tools work stays open."""
    with ScriptServer(Server(forced="It is warm.")) as server:
        dossier = probed(server.url)

    assert {"tool_choice": "no", "tools": "unknown", "parallel_calls": "unknown"} == verdicts(dossier)
    assert "It is warm." in evidence(dossier, "tools")


def test_calls_in_the_text_are_no_calls() -> None:
    """A model that writes its call into its text is asked by text from then on."""
    written = Say('<tool_call>{"name": "get_temperature", "arguments": {"city": "Oslo"}}</tool_call>')
    with ScriptServer(Server(forced=written)) as server:
        dossier = probed(server.url)

    assert ("no", True) == (dossier.verdict("tools"), dossier.writes_calls_as_text)


def test_broken_arguments_are_no_calls() -> None:
    """A call whose arguments are no JSON object cannot be run."""
    with ScriptServer(Server(forced=Call("get_temperature", '{"city": "Os'))) as server:
        dossier = probed(server.url)

    assert "no" == dossier.verdict("tools")
    assert "no JSON object" in evidence(dossier, "tools")


def test_results_that_are_refused() -> None:
    """An endpoint that calls and does not take the results is found out."""
    with ScriptServer(Server(results=refusal("unexpected role 'tool'"))) as server:
        dossier = probed(server.url)

    assert {"tool_results": "no"} == verdicts(dossier)


@pytest.mark.parametrize(
    "shape, missing",
    [
        ("none", {"usage": "no", "stream_usage": "no", "cache": "no"}),
        ("plain", {"cache": "no"}),
        ("deepseek", {}),
        ("kimi", {}),
        ("read_write", {}),
        ("anthropic", {}),
    ],
)
def test_what_usage_says(shape: str, missing: dict[str, str]) -> None:
    """Counts and cached tokens are found in every server's own form, and missed where they are missing."""
    with ScriptServer(Server(), usage=shape) as server:
        dossier = probed(server.url)

    assert missing == verdicts(dossier)
    assert ("cache" not in missing) is dossier.profile.reports_cache
    assert (shape == "none") is (dossier.usage.input is None)


def test_thoughts_of_every_kind() -> None:
    """Thoughts are found in their field, in the text and in the counts; an effort without any is left open."""
    counted = Say(
        "9.8", usage={"prompt_tokens": 9, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}}
    )
    found: dict[str, tuple[str, str, str]] = {}
    cases = {
        "field": None,
        "inline": Say("<think>well</think>9.8"),
        "counted": counted,
        "none": "9.8",
        "refused": refusal("reasoning_effort is not supported"),
    }
    for name, effort in cases.items():
        with ScriptServer(Server(effort=effort)) as server:
            dossier = probed(server.url)
        found[name] = (dossier.verdict("reasoning"), dossier.verdict("effort"), evidence(dossier, "reasoning"))

    assert {
        "field": ("yes", "yes", "thoughts came as 'reasoning_content'"),
        "inline": ("yes", "yes", "thoughts came in the text, as a think block"),
        "counted": ("yes", "yes", "thoughts are not shown, and 7 tokens of them are counted"),
        "none": ("no", "unknown", "no answer shows thoughts or counts them"),
        "refused": ("no", "no", "no answer shows thoughts or counts them"),
    } == found


def test_a_schema_is_held_to_or_not() -> None:
    """Accepted and followed, accepted and ignored, refused, and cut before it could be told."""
    steps: dict[str, Any] = {
        "yes": None,
        "no": '{"colour": "blue"}',
        "unknown": Say('{"colour": ', finish_reason="length"),
        "refused": refusal("response_format json_schema is not supported"),
    }
    found = {}
    for name, grammar in steps.items():
        with ScriptServer(Server(grammar=grammar)) as server:
            found[name] = probed(server.url).verdict("grammar")

    assert {"yes": "yes", "no": "no", "unknown": "unknown", "refused": "no"} == found


def test_another_name_of_the_limit() -> None:
    """An endpoint that refuses max_tokens is asked with max_completion_tokens from then on."""

    def modern(request: Request) -> Any:
        if "max_tokens" in request.json:
            return refusal("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return Server()(request)

    with ScriptServer(modern) as server:
        dossier = probed(server.url)

    assert {} == verdicts(dossier)
    assert "max_completion_tokens" == dossier.profile.wire.max_tokens_field


def test_an_endpoint_that_only_streams() -> None:
    """Where plain requests are refused because they do not stream, the first question streams too."""

    def streamer(request: Request) -> Any:
        return Server()(request) if request.stream else refusal("Stream must be set to true")

    with ScriptServer(streamer) as server:
        dossier = probed(server.url)

    assert ("yes", "yes") == (dossier.verdict("answers"), dossier.verdict("streaming"))


def test_the_key_is_offered_in_the_other_header() -> None:
    """On the anthropic wire a host that knows only x-api-key is asked with that, and the spec says so."""

    def older(request: Request) -> Any:
        return Server()(request) if request.headers.get("x-api-key") == "k" else refusal("no key", 401)

    with ScriptServer(older) as server:
        dossier = probed(server.url, wire="anthropic", api_key="k")

    assert ("x-api-key", {}) == (dossier.profile.auth_header, verdicts(dossier))
    assert "Bearer k" == server.requests[0].headers["authorization"]


@pytest.mark.parametrize(
    "step, error, said",
    [
        (Status(401), AuthenticationError, "refused the request's key"),
        (refusal("no credit", 402), QuotaExceeded, "nothing left"),
        (refusal("The model `m` does not exist", 404, code="model_not_found"), ModelNotFound, "no model called 'm'"),
        (Html(), ModelProtocolError, "sent a web page"),
        (Status(503), ModelUnavailable, "cannot answer"),
    ],
    ids=["key", "credit", "model", "page", "down"],
)
def test_without_any_answer_there_is_an_error(step: Any, error: type[Exception], said: str) -> None:
    """A wrong key, no such model, a web page, a server that is down: the usual errors, and nothing found."""
    found: list[Finding] = []
    with ScriptServer(lambda _: step) as server, pytest.raises(error, match=said):
        probed(server.url, on_finding=found.append)

    assert [] == found


def test_nothing_listens() -> None:
    """A closed port is told as what it is."""
    with pytest.raises(ModelUnavailable, match="nothing listens"):
        probed(unused_url())


def test_a_failure_in_passing_is_asked_again() -> None:
    """A 503 and a 429 are retried, within the number of attempts, and leave no trace in the findings."""
    seen: list[int] = []

    def shaky(request: Request) -> Any:
        seen.append(request.number)
        if len(seen) == 1:
            return Status(503)
        return refusal("slow down", 429) if len(seen) == 4 else Server()(request)

    with ScriptServer(shaky) as server:
        dossier = probed(server.url)

    assert ({}, 8) == (verdicts(dossier), dossier.requests)


def test_a_question_that_fails_for_good_leaves_its_capability_open() -> None:
    """One slow or broken corner does not end the probe: what it was asked stays unknown."""
    hangs = Stall()
    patience = replace(QUICK, timeout_s=1.0, attempts_max=1)
    with ScriptServer(Server(grammar=hangs)) as server:
        dossier = probed(server.url, asking=patience)

    assert {"grammar": "unknown"} == verdicts(dossier)
    assert "within 1 s" in evidence(dossier, "grammar")


def test_a_server_that_never_answers_is_an_error() -> None:
    """The first question decides whether there is anything to find out."""
    patience = replace(QUICK, timeout_s=0.2, attempts_max=1)
    with ScriptServer([Stall()]) as server, pytest.raises(ModelTimeout):
        probed(server.url, asking=patience)


def test_a_key_that_is_refused_on_the_way_ends_the_probe() -> None:
    """Nothing more can be found out, and half of a dossier is none."""
    with ScriptServer(Server(effort=refusal("expired", 401))) as server, pytest.raises(AuthenticationError):
        probed(server.url)


def test_a_probe_can_be_stopped() -> None:
    """A stop signal ends the request that is under way."""
    cancel = Cancel()

    def stop(_: Finding) -> None:
        cancel.cancel("interrupted")

    with ScriptServer(Server(), allow_unused=True) as server, pytest.raises(Interrupted):
        probed(server.url, on_finding=stop, cancel=cancel)


def test_a_key_never_stands_in_the_evidence() -> None:
    """What an endpoint says is quoted without anything that looks like a secret."""
    secret = "sk-proj-" + "a1B2" * 12
    with ScriptServer(Server(grammar=f"your key is {secret}", forced=refusal(f"bad key {secret}"))) as server:
        dossier = probed(server.url, api_key=secret)

    assert secret not in json.dumps(support_of(dossier))


def test_what_was_found_is_read_back() -> None:
    """A profile with the support of a dossier makes requests as the probe did."""
    with ScriptServer(Server(effort=None), usage="kimi") as server:
        dossier = probed(server.url, wire="responses")
    support = json.loads(json.dumps(support_of(dossier)))

    profile = with_support(profile_of("llm.example"), support)

    assert ("responses", True, True, True) == (
        profile.wire.wire,
        profile.streams,
        profile.takes_effort,
        profile.wire.stream_usage,
    )
    assert "without_tools" == profile.wire.structured_output


def test_what_is_left_open_changes_nothing() -> None:
    """Null and absent members, and an object that is none, leave a profile as it is."""
    known = profile_of("api.openai.com")

    assert known == with_support(known, {"streaming": {"supported": None}, "tools": 3, "request": None})
    assert known == with_support(known, None)


@pytest.mark.parametrize("support", [{"wire": "smoke"}, {"request": {"max_tokens_field": "tokens"}}])
def test_a_term_that_there_is_none_of_is_refused(support: dict[str, Any]) -> None:
    """A spec that names no wire of ours is told which there are."""
    with pytest.raises(ConfigError, match="provider_api_support"):
        with_support(profile_of("llm.example"), support)
