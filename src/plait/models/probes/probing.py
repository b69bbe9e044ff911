"""Finds out what an unknown endpoint can do, by a few small requests.

Floor: 2. Owns: the questions, their order and what an answer proves; never: a file, a word on a screen.

A capability is `yes` only when it was seen at work, `no` when the endpoint refused it or did something else, and
`unknown` when nothing follows from what came: a weak model that makes no call proves nothing about its server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Final

from plait.core.cancel import Cancel
from plait.core.errors import ModelError
from plait.core.exchange import ProviderFailed
from plait.core.redact import redact_secrets
from plait.core.values import dataclass
from plait.models.credentials import Credentials
from plait.models.endpoint import Endpoint
from plait.models.errors import to_error
from plait.models.listing import listed_window
from plait.models.probes.asking import OUTPUT_TOKENS, Asker, AskingOptions, Heard, Question
from plait.models.probes.findings import Capability, Dossier, Finding, Verdict
from plait.models.probes.questions import (
    THINKING_TOKENS,
    TOOL,
    answer_question,
    call_question,
    effort_question,
    follows_schema,
    grammar_question,
    results_question,
    stream_question,
    writes_call_as_text,
)
from plait.models.profiles import ANTHROPIC_KEY_HEADER, with_wire
from plait.wire.profile import WireName

QUESTIONS_USUAL: Final = 6
QUESTIONS_MAX: Final = 13
"""Three wires, another header for the key, another name of the token limit, two ways each of streaming and of
forcing a call, one question each about results, effort and a schema; and room for one."""
INPUT_TOKENS_ABOUT: Final = 1_200
"""What the usual questions come to, roughly: tokenizers differ, and thoughts that are sent back count."""
OUTPUT_TOKENS_MAX: Final = (QUESTIONS_USUAL - 1) * OUTPUT_TOKENS + THINKING_TOKENS
"""What the usual answers come to at most."""

_WIRES: Final[tuple[WireName, ...]] = ("chat", "responses", "anthropic")
_FATAL: Final = frozenset({"auth", "quota"})
"""Failures after which no other question can be answered either."""
_REFUSED: Final = frozenset(
    {"unsupported_feature", "invalid_tools", "invalid_history", "bad_request", "request_too_large", "model_not_found"}
)
"""Failures that are an answer: the endpoint does not take what it was sent."""
_THOUGHT_FIELDS: Final = (b"reasoning_content", b"reasoning_details", b"thinking_blocks", b"reasoning", b"thinking")

_SHOWN_CHARS: Final = 80
_ONLY_STREAMS: Final = "stream must be"
"""How endpoints begin to say that they answer in no other way."""

OnFinding = Callable[[Finding], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """How an endpoint is probed."""

    wire: WireName | None = None
    """The wire to ask on; None tries the likely one first and the others after it."""
    asking: AskingOptions = field(default_factory=AskingOptions)


def probe(
    endpoint: Endpoint,
    model: str,
    credentials: Credentials,
    options: ProbeOptions | None = None,
    *,
    on_finding: OnFinding | None = None,
    cancel: Cancel | None = None,
) -> Dossier:
    """Ask an endpoint what it can do; at most `QUESTIONS_MAX` questions.

    Args:
        endpoint: where it is; its profile is where the probe begins.
        credentials: where the key is found.
        on_finding: told each finding as it is made.
        cancel: stops the request that is under way.

    Raises:
        ModelError: there is no answer at all, or the key or the account is refused on the way.
        Interrupted: `cancel` was given.
    """
    options = options or ProbeOptions()
    asker = Asker(endpoint, model, credentials, options.asking, cancel or Cancel())
    try:
        return _Interview(asker, on_finding or _unheard).run(options.wire)
    finally:
        asker.close()


def _unheard(_finding: Finding) -> None:
    """Tell nobody."""


class _Interview:
    """The questions in their order; each step notes its findings."""

    def __init__(self, asker: Asker, on_finding: OnFinding) -> None:
        self._asker = asker
        self._on_finding = on_finding
        self._findings: list[Finding] = []
        self._heard: list[Heard] = []
        self._calls_as_text = False
        self._streams = False

    def run(self, wire: WireName | None) -> Dossier:
        """Ask everything and return what was found."""
        asker = self._asker
        self._answer(wire)
        self._stream()
        self._tools()
        self._effort()
        self._grammar()
        self._thoughts_and_cache()
        return Dossier(
            endpoint=asker.endpoint.url(""),
            model=asker.model,
            profile=asker.profile,
            findings=tuple(self._findings),
            context_window=self._window(),
            writes_calls_as_text=self._calls_as_text,
            requests=asker.requests,
            usage=asker.usage,
        )

    def _answer(self, wire: WireName | None) -> None:
        heard = self._first_answer(wire)
        reply = heard.reply
        assert reply is not None
        self._heard.append(heard)
        self._note("answers", "yes", f"on the {self._asker.profile.wire.wire} wire")
        if reply.usage.input is not None and reply.usage.output is not None:
            self._note("usage", "yes", f"{reply.usage.input:,} tokens in, {reply.usage.output:,} out")
        else:
            self._note("usage", "no", "the answer names no token counts")

    def _first_answer(self, wire: WireName | None) -> Heard:
        """Return the first answer on any wire; what the likeliest wire said counts where there is none."""
        asker = self._asker
        known = asker.profile.for_model(asker.model)
        likely = known.wire.wire
        wires: Sequence[WireName] = [wire] if wire else [likely, *(other for other in _WIRES if other != likely)]
        failures: list[ProviderFailed] = []
        for name in wires:
            asker.learn(with_wire(known, name))
            heard = self._plain_answer()
            if heard.reply is not None:
                return heard
            assert heard.failure is not None
            failures.append(heard.failure)
            if not _may_be_another_wire(heard.failure, asker.model):
                break
        asker.learn(known)
        told = next((failure for failure in failures if not _is_absent(failure, asker.model)), failures[0])
        raise self._error(told) from told

    def _plain_answer(self) -> Heard:
        """Ask the plain question; once more under another name of its limit, or with the key in the other header."""
        asker = self._asker
        heard = asker.ask(answer_question())
        failure = heard.failure
        if failure is None:
            return heard
        profile = asker.profile
        if _is_refused(heard) and _ONLY_STREAMS in failure.message.lower():
            return asker.ask(replace(answer_question(), streams=True))
        if "max_completion_tokens" in failure.message and profile.wire.max_tokens_field == "max_tokens":
            asker.learn(replace(profile, wire=replace(profile.wire, max_tokens_field="max_completion_tokens")))
            return asker.ask(answer_question())
        if failure.kind == "auth" and failure.status and not profile.hosts and profile.wire.wire == "anthropic":
            asker.learn(replace(profile, auth_header=ANTHROPIC_KEY_HEADER))
            second = asker.ask(answer_question())
            return second if second.failure is None else heard
        return heard

    def _stream(self) -> None:
        heard = self._ask_streamed()
        if heard.failure is not None:
            self._note_failure("streaming", heard)
            self._note("stream_usage", "unknown", "no answer was streamed")
            self._asker.learn(replace(self._asker.profile, streams=self._verdict("streaming") != "no"))
            return
        assert heard.reply is not None
        self._streams = heard.is_event_stream
        self._asker.learn(replace(self._asker.profile, streams=self._streams))
        if not self._streams:
            self._note("streaming", "no", "a stream was asked for, and one document came")
            self._note("stream_usage", "unknown", "no answer was streamed")
            return
        self._note("streaming", "yes", "a stream was asked for, and events came")
        usage = heard.reply.usage
        if usage.input is not None and usage.output is not None:
            self._note("stream_usage", "yes", f"{usage.input:,} tokens in, {usage.output:,} out")
        else:
            self._note("stream_usage", "no", "the stream names no token counts")

    def _ask_streamed(self) -> Heard:
        """Ask for a stream; once more without the option that asks for its usage, which some servers refuse."""
        known = self._asker.profile
        heard = self._ask(stream_question())
        wants_usage = known.wire.wire == "chat" and known.wire.stream_usage
        if not wants_usage:
            return heard
        without = replace(known, wire=replace(known.wire, stream_usage=False))
        if heard.failure is None:
            if b'"stream_options"' not in heard.sent:
                self._asker.learn(without)
            return heard
        if not _is_refused(heard):
            return heard
        self._asker.learn(without)
        heard = self._ask(stream_question())
        if heard.failure is not None:
            self._asker.learn(known)
        return heard

    def _tools(self) -> None:
        forced = self._ask(replace(call_question(is_forced=True), streams=self._streams))
        heard = forced
        if _is_refused(forced):
            self._note("tool_choice", "no", self._why(forced))
            heard = self._ask(replace(call_question(is_forced=False), streams=self._streams))
        elif forced.failure is not None:
            self._note_failure("tool_choice", forced)
        elif forced.reply is not None and not forced.reply.message.tool_calls:
            self._note("tool_choice", *_unforced(forced))
        else:
            self._note("tool_choice", "yes", "asked for a call, and got one")
        self._note_calls(heard)
        if self._verdict("tools") == "no":
            self._note("tool_results", "unknown", "there are no calls to answer")
        else:
            self._results(heard)

    def _note_calls(self, heard: Heard) -> None:
        if heard.reply is None:
            self._note_failure("tools", heard)
            self._note("parallel_calls", "unknown", "no calls were made")
            return
        message = heard.reply.message
        calls = message.tool_calls
        if not calls and writes_call_as_text(message.content):
            self._calls_as_text = True
            self._note("tools", "no", f"the call of {TOOL.name!r} came as text: {_start(message.content)!r}")
        elif not calls:
            self._note("tools", "unknown", _wordy(heard))
        elif not all(call.is_valid for call in calls):
            self._note("tools", "no", f"the arguments of the call are no JSON object: {_start(calls[0].raw)!r}")
        else:
            how = "streamed" if heard.is_event_stream else "whole"
            self._note("tools", "yes", f"called {TOOL.name!r} with {_start(calls[0].raw)}, {how}")
        if len(calls) > 1:
            self._note("parallel_calls", "yes", f"{len(calls)} calls in one answer")
        else:
            made = "one call was made" if calls else "no call was made"
            self._note("parallel_calls", "unknown", f"{made} where two were asked for")

    def _results(self, heard: Heard) -> None:
        asked = heard.reply.message if heard.reply is not None and heard.reply.message.tool_calls else None
        answered = self._ask(replace(results_question(asked), streams=self._streams))
        if answered.failure is not None:
            self._note_failure("tool_results", answered)
        else:
            whose = "its own calls" if asked is not None else "a call that it had not made"
            self._note("tool_results", "yes", f"took the results of {whose} and went on")

    def _effort(self) -> None:
        known = self._asker.profile
        self._asker.learn(replace(known, takes_effort=True))
        heard = self._ask(replace(effort_question(known.wire), streams=self._streams))
        reply = heard.reply
        self._asker.learn(known)
        if reply is None:
            self._note_failure("effort", heard)
        elif reply.message.reasoning or reply.usage.reasoning:
            self._note("effort", "yes", "took 'low', and thought")
            self._asker.learn(replace(known, takes_effort=True))
        else:
            self._note("effort", "unknown", "took 'low', and showed no thoughts: it may have ignored it")

    def _grammar(self) -> None:
        heard = self._ask(grammar_question(self._asker.profile.wire.wire))
        reply = heard.reply
        if reply is None:
            self._note_failure("grammar", heard)
        elif follows_schema(reply.message.content):
            self._note("grammar", "yes", f"answered {_start(reply.message.content)!r}, which only the schema says")
        elif reply.stop == "length":
            self._note("grammar", "unknown", f"the answer was cut at {OUTPUT_TOKENS} tokens")
        else:
            self._note("grammar", "no", f"took the schema and answered {_start(reply.message.content)!r}")

    def _thoughts_and_cache(self) -> None:
        replies = [heard.reply for heard in self._heard if heard.reply is not None]
        read = [reply.usage.cache_read for reply in replies if reply.usage.cache_read is not None]
        if read:
            self._note("cache", "yes", f"names cached tokens, {max(read):,} at most: these prompts are short")
            self._asker.learn(replace(self._asker.profile, reports_cache=True))
        else:
            self._note("cache", "no", "no answer names cached tokens")
        counted = sum(reply.usage.reasoning or 0 for reply in replies)
        shown = next((heard for heard in self._heard if heard.reply and heard.reply.message.reasoning), None)
        if shown is not None:
            self._note("reasoning", "yes", f"thoughts came {_where_thoughts_came(shown.body)}")
        elif counted:
            self._note("reasoning", "yes", f"thoughts are not shown, and {counted:,} tokens of them are counted")
        else:
            self._note("reasoning", "no", "no answer shows thoughts or counts them")

    def _window(self) -> int | None:
        try:
            return listed_window(self._asker.backend(), self._asker.model)
        except ProviderFailed:
            return None

    def _ask(self, question: Question) -> Heard:
        """Ask; a refusal that would meet every other question as well ends the probe."""
        heard = self._asker.ask(question)
        self._heard.append(heard)
        if heard.failure is not None and heard.failure.kind in _FATAL:
            raise self._error(heard.failure) from heard.failure
        return heard

    def _error(self, failure: ProviderFailed) -> ModelError:
        return to_error(failure, model=self._asker.model, endpoint=self._asker.endpoint.base)

    def _verdict(self, capability: Capability) -> Verdict:
        return next(found.verdict for found in self._findings if found.capability == capability)

    def _note(self, capability: Capability, verdict: Verdict, evidence: str) -> None:
        finding = Finding(capability, verdict, evidence)
        self._findings.append(finding)
        self._on_finding(finding)

    def _note_failure(self, capability: Capability, heard: Heard) -> None:
        self._note(capability, "no" if _is_refused(heard) else "unknown", self._why(heard))

    def _why(self, heard: Heard) -> str:
        return heard.why(self._asker.model, self._asker.endpoint)


def _is_refused(heard: Heard) -> bool:
    """Say whether the endpoint answered that it does not take what it was sent."""
    failure = heard.failure
    return failure is not None and failure.kind in _REFUSED and failure.status is not None


def _may_be_another_wire(failure: ProviderFailed, model: str) -> bool:
    """Say whether the endpoint may answer on another wire what it does not on this one."""
    return _is_absent(failure, model) or "/responses" in failure.message


def _is_absent(failure: ProviderFailed, model: str) -> bool:
    """Say whether there seems to be nothing at the place that was asked; whoever names the model is there."""
    is_nowhere = failure.status in (404, 405, 501) and model not in failure.message
    return failure.detail == "not_event_stream" or is_nowhere


def _unforced(heard: Heard) -> tuple[Verdict, str]:
    """Say what it means that a call was ordered and none came."""
    assert heard.reply is not None
    if heard.reply.stop == "length":
        return "unknown", f"the answer was cut at {OUTPUT_TOKENS} tokens before a call"
    return "no", "a call was ordered, and words came"


def _wordy(heard: Heard) -> str:
    assert heard.reply is not None
    return f"asked for a call, and the model said {_start(heard.reply.message.content)!r}"


def _where_thoughts_came(body: bytes) -> str:
    name = next((name for name in _THOUGHT_FIELDS if b'"%b"' % name in body), None)
    return f"as {name.decode()!r}" if name is not None else "in the text, as a think block"


def _start(text: str) -> str:
    line = " ".join(redact_secrets(text)[0].split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"
