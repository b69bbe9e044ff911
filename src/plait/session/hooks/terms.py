"""Which calls and events concern hooks beside their moments, and the words in which their answers are told.

Floor: 5. Owns: sentences, and what counts as a question, a compaction, a long wait; never: asking a hook.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plait.core.events import Committed, Event, Notice
from plait.core.facts import Reset, RetryScheduled
from plait.core.messages import ToolCall
from plait.kernel.tools import Tool
from plait.tools.asking import AskUser

DENIED: Final = "ERROR: tool call denied by hook: {reason}"
USER_DENIED: Final = "ERROR: tool call denied by user: a hook wanted the user to be asked, and the user said no."
REJECTED: Final = "Prompt rejected by hook: {reason}"
LONG_WAIT_S: Final = 30.0
"""A wait for an endpoint that is worth a notification."""
_QUESTIONS: Final = frozenset({"ask_user", "ask_user_question", "clarify"})


def is_question(tool: Tool) -> bool:
    """Say whether a tool asks the user something."""
    return tool.python_function_name.removeprefix("t_") in _QUESTIONS


def is_compaction(event: Event) -> bool:
    """Say whether an event tells that a summary took the place of history."""
    fact = event.entry.fact if isinstance(event, Committed) else None
    return isinstance(fact, Reset) and fact.why == "compaction" and not fact.is_skipped


def long_wait(event: Event) -> str:
    """Return what is said of a wait for an endpoint, where an event tells of one that is worth it."""
    fact = event.entry.fact if isinstance(event, Committed) else None
    if isinstance(fact, RetryScheduled) and fact.delay_ms >= LONG_WAIT_S * 1000:
        return f"the endpoint is asked again in {fact.delay_ms / 1000:.0f} s: {fact.message}"
    delay = event.data.get("delay") if isinstance(event, Notice) and event.type == "rate_limit_wait" else None
    if isinstance(delay, (int, float)) and delay >= LONG_WAIT_S:
        return f"waiting {delay:.0f} s for a limit of requests"
    return ""


def with_context(text: str, contexts: Iterable[str]) -> str:
    """Return a text with what hooks have to add."""
    return "\n\n".join((text, *contexts))


def confirmed(ask: AskUser, call: ToolCall, reason: str) -> bool:
    """Ask the user about a call; only a clear yes is one."""
    why = f" ({reason})" if reason else ""
    try:
        said = ask(f"A hook wants you to be asked{why}. Run {call.name} with {call.raw}?", ["yes", "no"])
    except EOFError:
        return False
    return str(said).strip().lower() in ("yes", "y", "1")
