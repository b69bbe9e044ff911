"""A turn as hooks see it: its prompt is put before them, its end is told to them.

Floor: 5. Owns: what stands in a turn for its hooks, without loading any; never: asking one (`hooking`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from plait.core.errors import PolicyError
from plait.core.facts import Observation
from plait.session.result import SessionResult

if TYPE_CHECKING:
    from plait.core.cancel import Cancel
    from plait.kernel.effects import End
    from plait.session.live import Live
    from plait.session.session import Session

BLOCKED: Final = "user_prompt_blocked"
"""What is recorded of a prompt that hooks rejected."""
CONTEXT: Final = "hook_context"
"""Where the start of a session says what hooks have added to its system prompt."""


@contextmanager
def hooked(live: Live) -> Iterator[Callable[[End], None]]:
    """Hold a turn; yield what takes its end. A turn that is cut short was interrupted."""
    hooks = live.hooks
    if hooks is None:
        yield _nobody
        return
    hooks.begin()
    try:
        yield hooks.finish
    except Exception:
        raise  # something is wrong, and nobody has interrupted it
    except BaseException:
        hooks.finish(None)
        raise


def _nobody(end: End) -> None:
    """Tell nobody."""


def submitted(live: Live, task: str, sender: Mapping[str, object] | None, cancel: Cancel) -> str:
    """Return what hooks add to a prompt; raise `PolicyError` where they reject it."""
    return "" if live.hooks is None else live.hooks.submit(task, sender, cancel)


def rejected(session: Session, live: Live, error: PolicyError) -> SessionResult[Any]:
    """Return the result of a prompt that was neither sent nor added to the conversation."""
    live.conversation.note(Observation("note", {"event": BLOCKED, "reason": error.message}))
    live.conversation.commit()
    return SessionResult(
        session["session_id"], error.message, dict(session["usage_totals"]), session["messages"], "limit", error
    )
