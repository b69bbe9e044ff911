"""One line for each thing that happens in a run: the words, without colour or place.

Floor: 7. Owns: what is worth telling of an event; never: a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from plait.cli.escapes import one_line

_TELLING: Final = ("command", "path", "pattern", "question", "query", "input", "url")
"""Arguments that say what a call is about, the first that is there."""
_ARGUMENT_CHARS: Final = 100
_NOTE_CHARS: Final = 160


def call_words(name: object, args: object) -> str:
    """Return a call as one line: the tool and what it is about."""
    about = _about(args)
    return one_line(str(name), _ARGUMENT_CHARS) + (f" {about}" if about else "")


def result_words(data: Mapping[str, object]) -> str:
    """Return what a result adds to its call, or nothing for one that just went well."""
    changed = data.get("diff_summary")
    if isinstance(changed, Mapping) and not _failed(data):
        return f"+{changed.get('added', 0)} -{changed.get('removed', 0)}"
    if _failed(data):
        text = str(data.get("error") or data.get("result") or "failed").strip()
        return one_line(text.splitlines()[0] if text else "failed", _NOTE_CHARS)
    exit_code = data.get("exit_code")
    return f"exit code {exit_code}" if exit_code else ""


def notice_words(event: str, data: Mapping[str, object]) -> str | None:
    """Return the line for what is neither text nor a call, or None when a reader of a terminal need not know."""
    match event:
        case "rate_limit_wait":
            return f"waiting {_seconds(data.get('delay'))} before asking again{_because(data)}"
        case "retry_scheduled":
            return f"asking again in {_seconds(data.get('delay_s'))}{_because(data)}"
        case "attempt_reset":
            return "the answer broke off; it begins again"
        case "compaction":
            return "older messages were replaced by a summary"
        case "cache_unmeasurable":
            return "this endpoint does not report how much of the prompt its cache held"
        case "cache_proof_missing":
            return "this request was not served from the provider's cache"
        case _:
            return None


def _about(args: object) -> str:
    if not isinstance(args, Mapping) or not args:
        return ""
    for name in _TELLING:
        value = args.get(name)
        if isinstance(value, str) and value:
            return one_line(value, _ARGUMENT_CHARS)
    return one_line(json.dumps(args, ensure_ascii=False, default=str), _ARGUMENT_CHARS)


def _failed(data: Mapping[str, object]) -> bool:
    return data.get("ok") is False or data.get("is_error") is True or data.get("status") in ("error", "denied")


def _seconds(value: object) -> str:
    return f"{value:.0f} s" if isinstance(value, int | float) and value >= 1 else "a moment"


def _because(data: Mapping[str, object]) -> str:
    reason = str(data.get("message") or data.get("text") or "")
    return f": {one_line(reason, _NOTE_CHARS)}" if reason else ""
