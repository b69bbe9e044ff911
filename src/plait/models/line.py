"""One conversation's requests and answers, without a socket: the same for threads and for event loops.

Floor: 2. Owns: the prefix of a conversation and the decoding of its answers; never: how bytes travel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import orjson

from plait.core.events import Piece
from plait.core.exchange import ProviderFailed, Reply
from plait.core.usage import Usage
from plait.kernel.effects import Think
from plait.kernel.ports import Emit, Setup
from plait.models.adjusting import Adjusting, refused_generation, tool_named_in
from plait.models.backend import Backend
from plait.models.loading import Shown, wire_for
from plait.models.trail import Head, Trail
from plait.models.transport import HttpRequest
from plait.wire.codec import Codec, codec
from plait.wire.decoder import Decoder
from plait.wire.names import original_names
from plait.wire.prefix import MARKS_MAX, Prefix, Sent
from plait.wire.profile import DecodeOptions, RequestParams, WireProfile

if TYPE_CHECKING:
    from plait.models.prices import Price

BODY_BYTES_MAX: Final = 65_536
"""How much of an error's body is read."""


@dataclass(frozen=True, slots=True)
class Target:
    """The model that a line talks to."""

    name: str
    wire: WireProfile
    streams: bool = True
    context_window: int | None = None
    price: Price | None = None
    """What it costs, where whoever chose it says so."""


class Line:
    """What a conversation has sent, and what its next request is."""

    def __init__(
        self, backend: Backend, target: Target, setup: Setup, on_pin: Callable[[str], None] | None = None
    ) -> None:
        self.backend = backend
        self._on_pin = on_pin
        self.sent: Sent | None = None
        """The last step's request; a side query may extend it from any thread."""
        self.pinned_provider: str | None = None
        """Where the endpoint routes to several providers: the one that answered first, and answers from then on."""
        self._target = target
        self._setup = setup
        self._adjusting = Adjusting(backend.learnt)
        self._wire = self._adjusting.wire(wire_for(_with_options(target.wire, setup), setup))
        self._codec: Codec = codec(self._wire.wire)
        self._shown = Shown(setup)
        self._prefix = self._new_prefix()
        self.trail = Trail(self._prefix, Head(self._wire, self._shown.tools, setup.system))
        """Where the last step's request left the one before it."""
        self._takes_marks = self._wire.cache_markers or self._wire.wire == "anthropic"
        self._ids: dict[str, None] = {}
        self._decoding = DecodeOptions(
            loads=orjson.loads,
            taken_ids=cast("Mapping[str, object]", self._ids),
            tool_names=original_names(tool.name for tool in setup.tools),
        )
        self._noted = 0
        self._url = backend.endpoint.url(self._codec.path)
        self._tail = self._make_tail()

    def begin(self, ask: Think, emit: Emit | None) -> Attempt:
        """Build the request for one attempt.

        Raises:
            ProviderFailed: class `auth`; there is no key.
        """
        key = self.backend.key()
        self.trail.note(self._extend(ask))
        self._note_ids(ask)
        if self._adjusting.output_max is not None and self._adjusting.epoch != ask.view.epoch:
            self._adjusting.output_max = None
            self._tail = self._make_tail()
        sent = self._request(ask)
        if ask.purpose == "step":
            self.sent = sent
            self.trail.depart()
        request = HttpRequest("POST", self._url, self.backend.headers(key), sent.parts)
        return Attempt(self, request, key, emit, sent, ask=ask)

    def adjusted(self, failed: ProviderFailed, ask: Think) -> Sent | None:
        """Return the request without what was refused, None where that is not known or not ours to leave out."""
        if not self._adjusting.learn(failed, ask.view.epoch):
            return None
        before, self._wire = self._wire, self._adjusting.wire(self._wire)
        if self._wire.reasoning_echo != before.reasoning_echo:
            self._begin_anew()
            self._prefix.extend(ask.view)
        self._tail = self._make_tail()
        sent = self._request(ask)
        if ask.purpose == "step":
            self.sent = sent
        return sent

    def _extend(self, ask: Think) -> int | None:
        """Take the messages of a request, and what they say of the tools that it declares."""
        if self._shown.take(ask.view):
            self._begin_anew()
        return self._prefix.extend(ask.view)

    def _begin_anew(self) -> None:
        """Go on with another head than before."""
        self._prefix, left = self._new_prefix(), self.trail.footprint()
        self.trail = Trail(self._prefix, Head(self._wire, self._shown.tools, self._setup.system))
        self.trail.before = left

    def _new_prefix(self) -> Prefix:
        return Prefix(
            self._codec.head(self._target.name, self._shown.tools, self._setup.system, self._wire),
            self._codec.encoder(self._wire),
            marks_max=MARKS_MAX - self._codec.head_marks,
        )

    def digest_of(self, sent: Sent) -> str:
        """Return by what a request is known, nothing for one that the log alone could not make again."""
        return sent.fingerprint if self._adjusting.is_plain and self.pinned_provider is None else ""

    def fingerprint(self, ask: Think) -> str:
        """Return by what the request for this is known, at the price of what is new in it."""
        self._extend(ask)
        return self._prefix.fingerprint(self._tail, ask.view.extra)

    def compose(self, ask: Think) -> Sent:
        """Return the request for this; it is not sent, and no key is needed."""
        self._extend(ask)
        return self._request(ask)

    def _request(self, ask: Think) -> Sent:
        marks = self._prefix.tail_marks(self._extended()) if self._takes_marks else ()
        return self._prefix.request(self._tail, marks, ask.view.extra)

    def new_decoder(self) -> Decoder:
        """Return what decodes the answer to the last request."""
        return self._codec.decoder(self._wire, self._decoding)

    def learn(self, reply: Reply) -> None:
        """Take from an answer what later requests need."""
        provider = (reply.details or {}).get("provider")
        is_pinned = self.pinned_provider is not None or "provider" in self._extra()
        if isinstance(provider, str) and self.backend.endpoint.profile.pins_provider and not is_pinned:
            self.pinned_provider = provider
            self._tail = self._make_tail()
            if self._on_pin is not None:
                self._on_pin(provider)

    def counted(self, usage: Usage) -> Usage:
        """Return what an answer used, with its cost where that is known."""
        return self.backend.counted(usage, self._target.name, self._target.price)

    def tool_named_in(self, message: str) -> str:
        """Return the name of the tool that an error numbers, nothing where it numbers none of ours."""
        return tool_named_in(message, self._shown.tools)

    def tell(self, type: str, data: Mapping[str, object]) -> None:
        """Tell the conversation of something that happens between a request and its answer."""
        if self._setup.tell is not None:
            self._setup.tell(type, data)

    @property
    def target(self) -> Target:
        """The model it talks to."""
        return self._target

    def _extended(self) -> Sent | None:
        """Return the last step's request, where the next one begins with all of it."""
        return self.sent if self.sent is not None and self._prefix.extends(self.sent) else None

    def _extra(self) -> dict[str, object]:
        extra = {**self.backend.endpoint.profile.body, **self.backend.options.body, **self._setup.options.extra}
        if self.pinned_provider is not None:
            extra["provider"] = pin_of(self.pinned_provider)
        return extra

    def _make_tail(self) -> bytes:
        options, profile = self._setup.options, self.backend.endpoint.profile
        params = RequestParams(
            stream=self._target.streams,
            max_output_tokens=self._adjusting.output_tokens(options.max_output_tokens),
            temperature=options.temperature,
            tool_choice=options.tool_choice,
            reasoning=options.reasoning if profile.takes_effort else None,
            response_schema=options.response_schema,
            cache_key=options.cache_key
            if self._adjusting.takes("prompt_cache_key") and profile.takes_cache_key
            else None,
            extra=self._extra(),
        )
        return self._codec.tail(params, self._wire, has_tools=bool(self._setup.tools))

    def _note_ids(self, ask: Think) -> None:
        """Remember every call's id, so that no new one repeats it; a history that shrank takes none back."""
        view = ask.view
        for message in view.history[min(self._noted, view.length) : view.length]:
            for call in message.tool_calls if message.role == "assistant" else ():
                self._ids[call.id] = None
        self._noted = view.length


class Attempt:
    """One request on its way: what it sends, and what comes back."""

    def __init__(
        self, line: Line, request: HttpRequest, key: str, emit: Emit | None, sent: Sent, *, ask: Think
    ) -> None:
        self.request = request
        self._ask = ask
        self.content_type = ""
        """What the answer is sent as, by its header."""
        self._sent = sent
        self._line = line
        self._key = key
        self._tried = [key]
        self._emit = emit
        self._was_heard = False
        self._last = b""
        self._decoder = line.new_decoder()

    def feed(self, data: bytes) -> bool:
        """Take bytes of the answer; say whether it is over."""
        self._last = data
        pieces = self._decoder.feed(data)
        if pieces and self._emit is not None:
            self._was_heard = True
            self._emit(pieces)
        return self._decoder.done

    def finish(self) -> Reply:
        """Return the answer.

        Raises:
            ProviderFailed: it is not whole, or none.
        """
        held: Sequence[Piece] = self._decoder.close()
        if held and self._emit is not None:
            self._emit(held)
        try:
            reply = self._decoder.finish()
        except ProviderFailed as failed:
            if failed.detail == "not_event_stream" and self.content_type:
                failed.message += f" (sent as {self.content_type})"
            raise self._told(failed) from None
        self._line.learn(reply)
        if self._sent is self._line.sent:
            self._line.trail.answered(self._sent)
        return replace(reply, sent=self._line.digest_of(self._sent), usage=self._line.counted(reply.usage))

    @property
    def spent(self) -> Usage | None:
        """What the endpoint has said so far that the request used; None where it has said nothing."""
        try:
            usage = self._decoder.answer().usage
        except Exception:  # boundary: Ctrl-C may have landed in the middle of the decoder
            return None
        return None if usage is None or usage == Usage.UNAVAILABLE else self._line.counted(usage)

    def settled(self, failure: ProviderFailed) -> Reply | None:
        """Return the answer where a connection broke only after all of it had come: it is paid for, and whole."""
        if failure.phase != "stream" or not self._decoder.is_settled:
            return None
        try:
            return self.finish()
        except ProviderFailed:
            return None

    def broken(self, failure: ProviderFailed) -> ProviderFailed:
        """Add to a failure of the connection what had arrived before it."""
        if failure.phase == "stream":
            answer = self._decoder.answer()
            try:
                failure.partial, failure.usage = self._decoder.finish().message, answer.usage
            except ProviderFailed as cut:
                failure.partial, failure.usage = cut.partial, cut.usage
            failure.partial = refused_generation(self._last) or failure.partial
        if failure.usage is not None:
            failure.usage = self._line.counted(failure.usage)
        return failure

    def refused(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderFailed:
        """Say what an answer means that is no success."""
        if 300 <= status < 400:
            return self._told(_redirected(status, headers.get("location", "").partition("?")[0]))
        from plait.wire.classify import classify  # the tables of what providers say are read when one says it

        failure = classify(status, headers, body, window=self._line.target.context_window, now_s=time.time())
        failed = failure.to_exception(status=status, phase="headers")
        if failed.kind == "invalid_tools" and (name := self._line.tool_named_in(failed.message)):
            failed.message += f" (the tool {name!r})"
        self._told(failed)
        failed.partial = refused_generation(body)
        return failed

    def another_key(self, failed: ProviderFailed) -> bool:
        """Make the request again with the next key, where the failure was about this one and there is another."""
        backend = self._line.backend
        change = backend.after(self._key, failed, self._tried)
        if change is None:
            return False
        self._line.tell("key_rested", change.told)
        if change.key is None:
            return False
        if self._was_heard:
            # Only the loop can withdraw what was heard; it asks again, and gets the other key.
            failed.retryable, failed.retry_after_s = True, 0.0
            return False
        self._key = change.key
        self._tried.append(change.key)
        self.request = replace(self.request, headers=backend.headers(change.key))
        self._decoder = self._line.new_decoder()
        return True

    def adjusted(self, failed: ProviderFailed) -> bool:
        """Make the request again without what the endpoint refused, where an answer can do without it."""
        sent = None if self._was_heard else self._line.adjusted(failed, self._ask)
        if sent is None:
            return False
        self._sent = sent
        self.request = replace(self.request, parts=sent.parts)
        self._decoder = self._line.new_decoder()
        return True

    def _told(self, failed: ProviderFailed) -> ProviderFailed:
        return self._line.backend.told(failed, self._key, self.request.url)


def _with_options(wire: WireProfile, setup: Setup) -> WireProfile:
    parallel = setup.options.parallel_tool_calls
    return wire if parallel is None else replace(wire, parallel_tool_calls=parallel)


def pin_of(provider: str) -> dict[str, object]:
    """Return the body member that keeps a router's requests with one provider."""
    return {"order": [provider], "allow_fallbacks": False}


def _redirected(status: int, location: str) -> ProviderFailed:
    return ProviderFailed(
        "protocol",
        f"the endpoint sends its callers on to {location!r}"
        if location
        else "the endpoint sends its callers elsewhere",
        status=status,
        retryable=False,
        phase="headers",
        detail="redirect",
        hint="use that address as the endpoint, if it is the API you mean",
    )
