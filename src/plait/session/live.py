"""What is alive behind a session: what it was opened with, what it has recorded, what it needs while it is open.

Floor: 5. Owns: these parts as data; never: the keys that a host sees (`session`), or what is done with a part.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from plait.core.cancel import Cancel
from plait.core.errors import ConfigError
from plait.core.facts import Observation, ToolStart
from plait.core.messages import ToolCall
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.engine.approval import Approver
from plait.engine.conversation import Conversation
from plait.engine.hosts.stage import Policy
from plait.engine.limits import Limits
from plait.engine.profile import Profile
from plait.engine.structured import OutputType, Wanted
from plait.kernel.ports import Model
from plait.kernel.rules import Rules
from plait.session.aside_notes import Asides
from plait.session.chosen import Chosen
from plait.session.confining import Seat
from plait.session.history.mirror import Mirror
from plait.session.history.reducing import StepReducer
from plait.session.hub import Hub
from plait.session.kept.capture import Capture
from plait.session.kept.session_log import SessionLog
from plait.session.kept.snapshot import Snapshot
from plait.session.prompt import Wording
from plait.session.summaries.terms import CompactionPolicy
from plait.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from plait.engine.permissions.ruling import Permissions
    from plait.session.hooks.hooking import SessionHooks
    from plait.session.kept.remembering import Remembered
    from plait.session.mcp_servers import Attached
    from plait.session.senses.sensing import Sensing


@dataclass(frozen=True)
class Settings:
    """What a session was opened with, beside what its keys say."""

    supplement: str
    bare: bool
    approver: Approver | None
    limits: Limits
    max_turn_tokens: int | None
    request_params: Mapping[str, object]
    context_window: int | None
    streams: bool
    """The spec says that its endpoint streams."""
    rules: Rules
    output: OutputType[Any] | None = None
    """What answers have to be, where that is more than text."""
    step_reducer: StepReducer | None = None
    compaction_policy: CompactionPolicy | None = None
    """A host's own say in when history is made shorter."""
    opening_cancel: Cancel | None = None
    """Ends what opening waits for."""
    permissions: Permissions | None = None
    wording: Wording = field(default_factory=Wording)
    """What its system prompt would be made of today."""
    profile: Profile | None = None
    """The way of working that was chosen when it began."""
    seat: Seat = field(default_factory=Seat)
    """Where its calls run."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What an earlier process left undone."""

    pending: tuple[str, ...]
    """Ids of calls that were started and whose end nobody recorded."""
    is_mid_turn: bool
    torn_bytes: int
    """Of an unfinished write at the end of the journal."""


@dataclass
class Standing:
    """What a session has recorded of itself."""

    log: SessionLog
    cwd: str
    key: Mapping[str, str]
    """Where its key is: fields of an agent spec, never a key."""
    setup: Mapping[str, object] | None
    """What its requests have in common, as it was recorded last; None until the first turn began."""
    snapshot: Snapshot
    recovery: Recovery | None = None
    """What is to be recorded of an earlier process's end, once."""
    side_calls: Sequence[tuple[ToolCall, ToolStart]] = ()
    """Calls of programs that an earlier process has not seen the end of."""
    told: Mapping[str, object] = field(default_factory=dict)
    """What is recorded of its prompt beside the setup when it begins."""
    is_begun: bool = False
    """A turn has begun since the session was opened."""
    capture: Capture | None = None
    """Takes everything that is sent, got and told, where somebody wants it."""
    seat_news: Mapping[str, object] | None = None
    """What is to be recorded of its fence, which is another than it was, once."""

    def close(self, *, is_orderly: bool) -> None:
        """Record the end where a turn has begun, and let the files go; may be called twice."""
        end = Observation("session_end", {"reason": "closed"})
        try:
            self.log.close(end if is_orderly and self.is_begun else None)
        finally:
            if self.capture is not None:
                self.capture.close()


@dataclass
class Live:
    """What a session needs while it is open."""

    settings: Settings
    conversation: Conversation
    mirror: Mirror
    hub: Hub
    toolbox: Toolbox
    used_before: Usage
    """What an earlier session used, from which this one goes on."""
    standing: Standing
    counted: Usage = Usage.ZERO
    """What of this session's usage stands in `usage_totals`."""
    model: tuple[object, str, Model] | None = None
    """The client and the name of the last turn, and the model that they came to."""
    policy: Policy | None = None
    pinned: str | None = None
    """The provider that a router chose in this turn, until it is recorded."""
    wanted: Wanted | None = None
    """How the session's own output type was asked for last."""
    mcp: Attached | None = None
    """Its MCP servers."""
    hooks: SessionHooks | None = None
    sensing: Sensing | None = None
    """What its model is told beside questions and results."""
    answers: Remembered | None = None
    """What somebody has said yes to for good."""
    chosen: Chosen = field(default_factory=Chosen)
    """Tools that were taken away or added since."""
    running: threading.Lock = field(default_factory=threading.Lock)
    """Held during a turn."""
    asides: Asides = field(default_factory=Asides)
    signal: Cancel | None = None
    """Stops the turn that is running."""
    asked_again_at: int = 0
    """Answers before hooks that did not want history shortened are asked again."""

    @property
    def log(self) -> SessionLog:
        """Where the session's facts go."""
        return self.standing.log


def live_of(session: object) -> Live:
    """Return what is alive behind a session.

    Raises:
        ConfigError: it is no open session.
    """
    live = getattr(session, "_live", None)
    if not isinstance(live, Live):
        raise ConfigError(
            "this needs an open session, not its dict", hint="init_session(schema, session=…) opens it again"
        )
    return live
