"""What an endpoint speaks and takes: data, so that a quirk is a field and not a branch on a name.

Floor: 1. Owns: the shape of a profile, the parameters of a request, what an encoder returns; never: which provider
has which profile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from dataclasses import field
from typing import Literal

from plait.core.values import dataclass
from plait.wire.names import Alphabet

WireName = Literal["chat", "responses", "anthropic"]
ThinkMode = Literal["off", "inline", "prefilled"]
StructuredOutput = Literal["always", "without_tools", "never"]
CallForm = Literal["structured", "inline"]
Loads = Callable[[bytes], object]
"""A fast JSON parser, such as `orjson.loads`; what it refuses goes to the standard library's."""
Effort = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class WireProfile:
    """How one endpoint wants its requests and gives its answers."""

    wire: WireName = "chat"
    origin: str = ""
    """Name of the endpoint: what `Message.origin` of its answers says."""
    reasoning_echo: Literal["never", "always"] = "never"
    """Whether the endpoint wants its own reasoning back, in every later request."""
    reasoning_field: str = "reasoning_content"
    """Name of the field that carries echoed reasoning (chat)."""
    system_role: Literal["system", "developer"] = "system"
    max_tokens_field: str = "max_tokens"
    """`max_completion_tokens` where an endpoint refuses `max_tokens` (chat)."""
    temperature: bool = True
    """False where the endpoint refuses a temperature."""
    parallel_tool_calls: bool | None = None
    """Sent as `parallel_tool_calls`; None leaves the field out."""
    stream_usage: bool = True
    """Whether `stream_options.include_usage` may be sent (chat)."""
    images: bool = True
    image_bytes_max: int = 20 * 1024 * 1024
    """The largest picture that the endpoint takes."""
    custom_tools: bool = False
    """Whether tools that take free text in a grammar can be declared; else they take one string argument."""
    calls: CallForm = "structured"
    """`inline` where the model writes its calls as JSON into its text."""
    structured_output: StructuredOutput = "never"
    """Whether the endpoint holds answers to a JSON Schema: always, only in requests that declare no tools, never."""
    think: ThinkMode = "off"
    """Whether a think block at the start of the text is reasoning, and whether the template already opened it."""
    thinking: Literal["budget", "adaptive", "always"] = "budget"
    """How a wish to think is sent (anthropic): so many tokens, or an effort and the model decides; `always` where it
    thinks in any case, and so takes no order to call a tool."""
    call_ids: Alphabet = "any"
    """Ids that the endpoint takes: any, letters digits `_-` up to 64, or nine letters and digits."""
    call_extra: Mapping[str, object] | None = None
    """What `extra_content` says beside calls that another endpoint made, where a missing one is an error (Gemini)."""
    cache_markers: bool = False
    """Whether messages take cache markers (always so on the anthropic wire)."""
    alternates: bool = False
    """Whether the endpoint refuses two messages of a user in a row, so that something has to stand between them."""
    tool_messages: bool = False
    """Whether tools that a search has loaded are declared in system messages (chat)."""
    tool_references: bool = False
    """Whether the result of a search for tools is sent as references to tools that were declared with a mark."""
    schema_keywords_refused: frozenset[str] = frozenset()
    """JSON Schema keywords that make the endpoint refuse a whole request."""


@dataclass(frozen=True, slots=True)
class RequestParams:
    """Everything of a request that is not its prefix."""

    stream: bool = True
    max_output_tokens: int | None = None
    temperature: float | None = None
    """Sent only when set: some models refuse any."""
    tool_choice: Literal["auto", "none", "required"] | str | None = None
    """A word, or the name of the one tool that must be called."""
    reasoning: Effort | None = None
    response_schema: Mapping[str, object] | None = None
    """JSON Schema that the answer must match, where the endpoint can hold a model to it."""
    cache_key: str | None = None
    """Routes requests of one session to one cache."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """Body members of any name, sent as given; they win over the ones above."""
    context_window: int | None = None
    """Of the model, where it is known: a limit that the wire wants and nobody has set leaves room for the prompt."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A message as it is sent: zero or more array elements, joined by commas.

    `marker_gap` is the offset at which a cache marker can be spliced in, None where the message takes none.
    """

    data: bytes
    marker_gap: int | None = None


def standard_loads(data: bytes) -> object:
    """Parse a JSON document in UTF-8 with the standard library, which guesses no other encoding here."""
    return json.loads(data.decode())


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """What a decoder needs to know beside the profile."""

    loads: Loads = standard_loads
    taken_ids: Container[str] = frozenset()
    """Call ids that the session used already."""
    new_id: Callable[[], str] | None = None
    """Makes the id of a call that came without one; None makes random ones."""
    tool_names: Mapping[str, str] = field(default_factory=dict)
    """Tool names as sent to the endpoint, to their own."""
