"""What the next request of a conversation is: the same for threads and for event loops.

Floor: 2. Owns: the prefix of a conversation, the form of its requests, what decodes its answers; never: a request that
is on its way (`attempt`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import orjson

from plait.core.exchange import ProviderFailed, Reply
from plait.core.messages import Message
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.kernel.effects import Think
from plait.kernel.ports import Setup
from plait.models.adjusting import adjusted
from plait.models.alternating import Bridged
from plait.models.backend import Backend
from plait.models.form import Form
from plait.models.loading import Shown, wire_for
from plait.models.pinning import pin_of, provider_to_keep
from plait.models.refusals import tool_named_in
from plait.models.trail import Head, Trail
from plait.wire.codec import Codec, codec
from plait.wire.decoder import Decoder
from plait.wire.names import original_names
from plait.wire.prefix import MARKS_MAX, Prefix, Sent
from plait.wire.profile import DecodeOptions, RequestParams, WireProfile

if TYPE_CHECKING:
    from plait.models.prices import Price


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
        self.form = Form(frozenset(backend.learnt))
        """What the next request is otherwise than the conversation asks for."""
        self.answered_form = self.form
        """The same, of the last step's request that was answered."""
        self._room_epoch = 0
        """The history's epoch in which there was no room for a longer answer."""
        self._target = target
        self._setup = setup
        self._own_wire = wire_for(_with_options(target.wire, setup), setup)
        self._wire = self.form.wire(self._own_wire)
        self._codec: Codec = codec(self._wire.wire)
        self._shown = Shown(setup)
        self._bridged: Bridged | None = None
        self._extra: tuple[Message, ...] = ()
        """What the next request says beside the history."""
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
        self.url = backend.endpoint.url(self._codec.path)
        """Where requests go."""
        self._tail = self._make_tail()

    def next(self, ask: Think) -> Sent:
        """Return the request for one attempt."""
        self.trail.note(self._extend(ask))
        self._note_ids(ask)
        if self.form.output_max is not None and self._room_epoch != ask.view.epoch:
            self.take_on(replace(self.form, output_max=None))
        return self._departing(self._request(ask), ask)

    def adjusted(self, failed: ProviderFailed, ask: Think) -> Sent | None:
        """Return the request without what was refused, None where that is not known or not ours to leave out."""
        form = adjusted(self.form, failed, self.backend.learnt)
        if form is None:
            return None
        self._room_epoch = ask.view.epoch
        self.take_on(form)
        return self._departing(self.compose(ask), ask)

    def take_on(self, form: Form) -> None:
        """Send requests in another form from now on."""
        before, self._wire = self._wire, form.wire(self._own_wire)
        self.form = form
        if (self._wire.reasoning_echo, self._wire.alternates) != (before.reasoning_echo, before.alternates):
            self._begin_anew()
        self._tail = self._make_tail()

    def _departing(self, sent: Sent, ask: Think) -> Sent:
        if ask.purpose == "step":
            self.sent = sent
            self.trail.depart(self._bridged.index_of if self._bridged is not None else None)
        return sent

    def _extend(self, ask: Think) -> int | None:
        """Take the messages of a request, and what they say of the tools that it declares."""
        if self._shown.take(ask.view):
            self._begin_anew()
        view = ask.view if self._bridged is None else self._bridged.over(ask.view)
        self._extra = view.extra
        return self._prefix.extend(view)

    def _begin_anew(self) -> None:
        """Go on with another head than before."""
        self._prefix, left = self._new_prefix(), self.trail.footprint()
        self.trail = Trail(self._prefix, Head(self._wire, self._shown.tools, self._setup.system))
        self.trail.before = left

    def _new_prefix(self) -> Prefix:
        self._bridged = Bridged(self._wire) if self._wire.alternates else None
        return Prefix(
            self._codec.head(self._target.name, self._shown.tools, self._setup.system, self._wire),
            self._codec.encoder(self._wire),
            marks_max=MARKS_MAX - self._codec.head_marks,
        )

    def fingerprint(self, ask: Think) -> str:
        """Return by what the request for this is known, at the price of what is new in it."""
        self._extend(ask)
        return self._prefix.fingerprint(self._tail, self._extra)

    def compose(self, ask: Think) -> Sent:
        """Return the request for this; it is not sent, and no key is needed."""
        self._extend(ask)
        return self._request(ask)

    def _request(self, ask: Think) -> Sent:
        marks = self._prefix.tail_marks(self._extended()) if self._takes_marks else ()
        tail = self._tail if ask.purpose == "step" else self._make_tail(ask)
        return self._prefix.request(tail, marks, self._extra)

    def new_decoder(self) -> Decoder:
        """Return what decodes the answer to the last request."""
        return self._codec.decoder(self._wire, self._decoding)

    def answered(self, sent: Sent, form: Form, reply: Reply) -> Reply:
        """Take from an answer what later requests need; return it with what it cost, and by what its request is known.

        Args:
            sent: the request, and the form that it was sent in.
        """
        if sent is self.sent:
            self.trail.answered(sent)
            self.answered_form = form
        self._keep_provider(reply)
        return replace(reply, sent=sent.fingerprint, usage=self.counted(reply.usage))

    def _keep_provider(self, reply: Reply) -> None:
        if self.form.provider or not self.backend.endpoint.profile.pins_provider:
            return
        provider = provider_to_keep(reply.details, self._body())
        if provider:
            self.take_on(replace(self.form, provider=provider))
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

    def _body(self) -> dict[str, object]:
        extra = {**self.backend.endpoint.profile.body, **self.backend.options.body, **self._setup.options.extra}
        if self.form.provider:
            extra["provider"] = pin_of(self.form.provider)
        return extra

    def _make_tail(self, aside: Think | None = None) -> bytes:
        """Return what follows the messages.

        Args:
            aside: a request that is no step: it wants words, whatever steps have to come to.
        """
        options, profile = self._setup.options, self.backend.endpoint.profile
        output_max = self.form.output_tokens(options.max_output_tokens)
        if aside is not None:
            none = "none" if self.form.takes("tool_choice") else None
            options = replace(options, tool_choice=none, response_schema=None)
            output_max = min((limit for limit in (output_max, aside.output_max) if limit is not None), default=None)
        params = RequestParams(
            stream=self._target.streams,
            max_output_tokens=output_max,
            temperature=options.temperature,
            tool_choice=options.tool_choice,
            reasoning=options.reasoning if profile.takes_effort else None,
            response_schema=options.response_schema,
            cache_key=options.cache_key if profile.takes_cache_key and self.form.takes("prompt_cache_key") else None,
            extra=self._body(),
            context_window=self._target.context_window,
        )
        return self._codec.tail(params, self._wire, has_tools=bool(self._setup.tools))

    def _note_ids(self, ask: Think) -> None:
        """Remember every call's id, so that no new one repeats it; a history that shrank takes none back."""
        view = ask.view
        for message in view.history[min(self._noted, view.length) : view.length]:
            for call in message.tool_calls if message.role == "assistant" else ():
                self._ids[call.id] = None
        self._noted = view.length


def _with_options(wire: WireProfile, setup: Setup) -> WireProfile:
    parallel = setup.options.parallel_tool_calls
    return wire if parallel is None else replace(wire, parallel_tool_calls=parallel)
