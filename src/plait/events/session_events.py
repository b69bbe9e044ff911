"""What is told of a session beside its turns: where it goes on from, and what became of its history and its servers.

Floor: 1. Owns: these events; never: when one happens (`events.reducer`).
"""

from __future__ import annotations

from collections.abc import Sequence

from plait.core.values import dataclass
from plait.events.named_event import NamedEvent


@dataclass(frozen=True, slots=True, eq=False)
class StepReduced(NamedEvent):
    """A `step_reducer` put other messages in the place of a step; what was there counts as `raw`."""

    type = "step_reduced"
    raw_messages: int
    kept_messages: int
    raw_chars: int
    kept_chars: int
    final_reply: str | None
    """What ends the turn, where the reducer says so."""


@dataclass(frozen=True, slots=True, eq=False)
class ResetMessages(NamedEvent):
    """Messages `start` to `end` of the history were replaced by `count` others."""

    type = "reset_messages"
    reason: str
    start: int
    end: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class SessionRestored(NamedEvent):
    """A session goes on from the messages of an earlier one."""

    type = "session_restored"
    session_id: str
    messages_loaded: int


@dataclass(frozen=True, slots=True, eq=False)
class SessionResumed(NamedEvent):
    """A session that was kept goes on, or begins under the name that was given."""

    type = "session_resumed"
    session_id: str
    messages_loaded: int
    """0 when there was none of that name."""
    source_model: str | None = None
    """The model that the session was begun with, when this is its copy for another one."""
    notice: str = ""
    """What of the given spec is not used, because the session keeps its own terms."""


@dataclass(frozen=True, slots=True, eq=False)
class JournalRecovered(NamedEvent):
    """What a session holds was read back from its journal."""

    type = "journal_recovered"
    entries_replayed: int
    messages_loaded: int
    pending: int
    """Calls that were started and whose end nobody recorded: they are looked into before anything else."""
    mid_turn: bool
    """The last turn has not ended, and goes on first."""
    torn_bytes: int = 0
    """Of an unfinished write at the end, which nobody was told was safe."""


@dataclass(frozen=True, slots=True, eq=False)
class McpServer(NamedEvent):
    """Something is to be said of an MCP server."""

    type = "mcp_server"
    server: str
    state: str
    """`ready`, `late` (the turn goes on without its tools), `failed`, `changed` (the model is shown others now), `held`
    (some are not used until the user agrees to them), `agreed` (one is used again), `restarted`, `refused` (some of its
    tools are not shown) or `skipped` (not trusted)."""
    text: str
    tools: Sequence[str] = ()
    """The tools of it that the model is shown from now on, by their names."""


SessionEvent = StepReduced | ResetMessages | SessionRestored | SessionResumed | JournalRecovered | McpServer
