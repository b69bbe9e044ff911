"""The keywords of an agent and of a run, for whoever passes them on with their types.

Floor: 4. Owns: their names and types; never: what they mean (`agent`). Only type checkers read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypedDict

from plait.core.cancel import Cancel
from plait.core.clock import Clock
from plait.core.events import Event
from plait.core.images import ImageSource
from plait.engine.approval import Approver
from plait.engine.cache.proof import ProofMode
from plait.engine.context_manager import ContextManager
from plait.engine.hosts.stage import BoundaryHook
from plait.engine.limits import Limits
from plait.engine.threads import Threads
from plait.kernel.counting import TokenCounter
from plait.kernel.ports import Options
from plait.kernel.rules import Rules

if TYPE_CHECKING:
    from plait.engine.profile import Profile
    from plait.tools.redaction import Redaction


class AgentOptions(TypedDict, total=False):
    """Keywords of an agent, described there."""

    system: str | None
    approver: Approver | None
    limits: Limits | None
    context: ContextManager | None
    plan_mode: bool
    redact: bool | Redaction
    on_event: Callable[[Event], None] | None
    options: Options | None
    rules: Rules | None
    token_counter: TokenCounter | str | None
    on_boundary: BoundaryHook | None
    strict_cache_proof: ProofMode
    mcp_servers: object
    clock: Clock | None
    threads: Threads | None


class RunOptions(TypedDict, total=False):
    """Keywords of a run, described there."""

    profile: Profile | str | None
    on_text: Callable[[str], None] | None
    images: Iterable[ImageSource]
    cancel: Cancel | None
