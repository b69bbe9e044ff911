"""One line for each thing that happens in a run: the words, without colour or place.

Floor: 7. Owns: what is worth telling of an event; never: a terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from plait.cli.escapes import one_line, visible
from plait.events import named
from plait.events.awareness_events import GroundMoved
from plait.events.render import render
from plait.tools.answer import KEPT_OUT

_TELLING: Final = ("command", "pattern", "path", "question", "query", "input")
"""Arguments that say what a call is about; the first that is there is shown."""
_SHELLS: Final = frozenset({"exec_shell", "execute_shell_command", "bash"})
_ARGUMENT_CHARS: Final = 100
_NOTE_CHARS: Final = 200
_NOTICE_CHARS: Final = 500
_EXIT: Final = re.compile(r"\[exit code (\w+)\]\Z")


def call_words(event: named.ToolCall) -> tuple[str, str]:
    """Return the tool's name and what the call is about."""
    return one_line(event.name, _ARGUMENT_CHARS), _about(event.args)


def result_words(event: named.ToolResult) -> str:
    """Return what a result adds to its call, or nothing for one that just went well."""
    lines = event.result.strip().splitlines() or [event.status]
    if event.status == "denied":
        return one_line(lines[0].partition(". ")[0], _NOTE_CHARS)
    if event.status != "ok":
        return one_line(lines[0], _NOTE_CHARS)
    if event.diff_summary is not None:
        return f"+{event.diff_summary.get('added', 0)} -{event.diff_summary.get('removed', 0)}"
    return _last_words(lines) if event.name in _SHELLS else ""


def notice_words(event: named.NamedEvent) -> str | None:
    """Return the line for what is neither text nor a call, or None for what a person need not know."""
    match event:
        case named.RetryScheduled():
            reason = one_line(event.message, _NOTE_CHARS)
            return f"{reason}; asking again in {event.delay_s:.1f} s"
        case named.RateLimitWait() if event.source != "endpoint":
            limit = "our own limit of requests a minute" if event.source == "max_rpm" else "the endpoint's rate limit"
            return f"waiting {event.delay:.1f} s for {limit}"
        case named.KeyRested():
            after = f"going on with {event.next}" if event.next else "no other key is left now"
            return one_line(f"{event.key} was refused ({event.kind}); {after}", _NOTE_CHARS)
        case named.AttemptReset() if event.withdrawn:
            return "the answer broke off and begins again"
        case named.LoopGuard():
            return "the model repeats itself and was told so"
        case named.Compaction():
            return f"{event.compacted_turns} messages were replaced by a summary"
        case named.CacheUnmeasurable() | named.CacheProofMissing() | named.CacheMiss() | named.PrefixChanged():
            return one_line(render(event, color=False).strip("[]"), _NOTE_CHARS) or None
        case GroundMoved():
            return one_line(render(event, color=False).strip("[]"), _NOTE_CHARS)
        case named.McpServer():
            return one_line(event.text, _NOTICE_CHARS)
        case named.HookWarning() | named.HookStatus() if event.text:
            return one_line(f"hook: {event.text}", _NOTICE_CHARS)
        case named.SessionResumed():
            return _resumed(event)
        case named.JournalRecovered() if event.mid_turn:
            return _recovered(event)
        case _:
            return None


def _resumed(event: named.SessionResumed) -> str | None:
    if event.notice:
        return one_line(event.notice, _NOTICE_CHARS)
    if event.messages_loaded:
        return f"session {event.session_id} goes on with {event.messages_loaded} messages"
    return f"session {event.session_id} begins"


def _recovered(event: named.JournalRecovered) -> str:
    if not event.pending:
        return "the last turn had not ended, and goes on"
    calls = "a call was" if event.pending == 1 else f"{event.pending} calls were"
    return f"the last turn had not ended, and goes on; {calls} under way, and is looked into first"


def complaint(sentence: str, advice: str) -> str:
    """Return what went wrong and what to do about it, as lines for stderr."""
    lines = [f"plait: {visible(sentence)}", *(f"  {line}" for line in visible(advice).splitlines())]
    return "\n".join(lines) + "\n"


def _last_words(lines: list[str]) -> str:
    """Return the last line that a command printed, its exit code when that is not 0, and whether it met the sandbox."""
    met = ", kept out by the sandbox?" if len(lines) > 1 and lines[-1].startswith(KEPT_OUT) else ""
    lines = lines[:-1] if met else lines
    code = _EXIT.match(lines[-1])
    if code is None:
        return one_line(lines[-1], _NOTE_CHARS)
    said = one_line(lines[-2], _NOTE_CHARS) if len(lines) > 1 else ""
    return f"{said} (exit code {code[1]}{met})" if said else f"exit code {code[1]}{met}"


def _about(args: Mapping[str, object]) -> str:
    for name in _TELLING:
        value = args.get(name)
        if isinstance(value, str) and value:
            path = args.get("path") if name == "pattern" else None
            return one_line(f"{value} in {path}" if path else value, _ARGUMENT_CHARS)
    return one_line(json.dumps(args, ensure_ascii=False, default=str), _ARGUMENT_CHARS) if args else ""
