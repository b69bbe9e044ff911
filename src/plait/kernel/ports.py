"""What the loop's hosts need from a model: one line per conversation, in both colours.

Floor: 1. Owns: the protocol between engine and models; never: a wire or a transport.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol

from plait.core.cancel import Cancel
from plait.core.events import Piece
from plait.core.exchange import Reply, ToolSchema
from plait.core.values import dataclass
from plait.kernel.deferral import Deferral
from plait.kernel.effects import Think

Emit = Callable[[Sequence[Piece]], None]
"""Takes the fragments of one read; cheap and never raises."""


Tell = Callable[[str, Mapping[str, object]], None]
"""Takes the name and the members of an event that a model has part in: a wait, a key that rests; never raises."""


@dataclass(frozen=True, slots=True)
class Options:
    """Parameters of every request of a conversation; None is "do not send"."""

    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning: Literal["low", "medium", "high"] | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    response_schema: Mapping[str, object] | None = None
    """JSON Schema that answers must match; only for a model whose `structured_output` says that it takes one."""
    cache_key: str | None = None
    """Sent as `prompt_cache_key` where the endpoint takes it."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """More body fields, of any name."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What stays the same for all requests of a conversation: the head of its prefix."""

    system: str = ""
    tools: tuple[ToolSchema, ...] = ()
    options: Options = field(default_factory=Options)
    deferral: Deferral | None = None
    """How tools that are not shown at once are loaded; None: all are shown."""
    tell: Tell | None = field(default=None, repr=False, compare=False)
    """Told, in the thread of the request, before the model waits or changes its key."""


class Channel(Protocol):
    """One conversation's line to a model, for one thread at a time; owns the request bytes sent so far."""

    def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Make one request and return the whole answer; raise `ProviderFailed`.

        Without `emit` nobody watches, but the answer may stream all the same. When `cancel` is given the request
        is aborted at once, from whatever thread, and `ProviderFailed` or `Interrupted` is raised.
        """
        ...

    def close(self) -> None:
        """Give connections back; may be called twice."""
        ...


class AsyncChannel(Protocol):
    """The same in an event loop; cancelled like any await."""

    async def think(self, ask: Think, emit: Emit | None, cancel: Cancel) -> Reply:
        """Make one request and return the whole answer; raise `ProviderFailed`."""
        ...

    async def aclose(self) -> None:
        """Give connections back; may be called twice."""
        ...


class Model(Protocol):
    """A named model behind an endpoint, or a double of one."""

    @property
    def name(self) -> str:
        """The name requests ask for."""
        ...

    @property
    def context_window(self) -> int | None:
        """Tokens that fit, where it is known."""
        ...

    @property
    def supports_images(self) -> bool:
        """True when user messages may hold pictures."""
        ...

    def open(self, setup: Setup) -> Channel:
        """Open a line for a thread; no request is made yet."""
        ...

    def aopen(self, setup: Setup) -> AsyncChannel:
        """Open a line for an event loop; no request is made yet."""
        ...
