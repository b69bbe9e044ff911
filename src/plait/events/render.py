"""Named events as lines for a terminal: what `event["fmt"]` gives.

Floor: 1. Owns: the words and colours of each event; never: writing them anywhere.

Text that a model or a tool wrote is shown with its control characters spelt out, so that it moves no cursor and sets
no title. Colour is decoration: without it every line still says what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from plait.core.strict_json import JsonInvalid, dump
from plait.core.unseen import visible
from plait.events import named
from plait.events.awareness_events import AwarenessChecklist, GroundMoved

_CODES: Final[Mapping[str, str]] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_ARGS_CHARS: Final = 200
_RESULT_LINES: Final = 8
_LINE_CHARS: Final = 200


def render(event: named.NamedEvent, *, color: bool = True) -> str:
    """Return an event as a person reads it; the empty text for one that says nothing on a terminal.

    Args:
        color: mark parts with ANSI colours.
    """
    show = _SHOWN.get(event.type)
    return "" if show is None else show(event, Paint(color))


class Paint:
    """Colours text, or leaves it alone; makes it harmless in either case."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def __call__(self, style: str, text: str) -> str:
        """Return the text, visible and in a style of `_CODES`."""
        text = visible(text)
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self._color and text else text


def _tool_call(event: named.ToolCall, paint: Paint) -> str:
    return f"{paint('cyan', '→')} {paint('bold', event.name)} {paint('dim', _cut(_arguments(event.args), _ARGS_CHARS))}"


def _tool_result(event: named.ToolResult, paint: Paint) -> str:
    is_good = event.status == "ok"
    mark = paint("green", "✓") if is_good else paint("red", f"✗ {event.status}")
    took = "" if event.duration_ms is None else paint("dim", f" {event.duration_ms / 1000:.1f}s")
    head = f"{mark} {visible(event.name)}{took}{_change(event.diff_summary, paint)}"
    return head if event.streamed else "\n".join((head, *_excerpt(event.result, paint)))


def _change(summary: Mapping[str, object] | None, paint: Paint) -> str:
    if summary is None:
        return ""
    added, removed = f"+{summary.get('added')}", f"-{summary.get('removed')}"
    return f"  {visible(str(summary.get('path')))} {paint('green', added)} {paint('red', removed)}"


def _excerpt(text: str, paint: Paint) -> list[str]:
    lines = text.rstrip("\n").split("\n")
    shown = [paint("dim", f"  {_cut(line, _LINE_CHARS)}") for line in lines[:_RESULT_LINES]]
    more = len(lines) - _RESULT_LINES
    return [*shown, paint("dim", f"  … {more} more lines")] if more > 0 else shown


def _approval(event: named.ApprovalRequired, paint: Paint) -> str:
    asked = event.question or _cut(_arguments(event.args), _ARGS_CHARS)
    return f"{paint('yellow', '?')} {paint('bold', event.name)} waits for approval: {visible(asked)}"


def _content(event: named.ContentDelta, paint: Paint) -> str:
    return visible(event.text)


def _reasoning(event: named.ReasoningDelta, paint: Paint) -> str:
    return paint("dim", event.text)


def _stream_end(event: named.NamedEvent, paint: Paint) -> str:
    return "\n"


def _attempt_reset(event: named.AttemptReset, paint: Paint) -> str:
    return f"\n{paint('yellow', f'[the answer so far is withdrawn; attempt {event.attempt}]')}"


def _retry(event: named.RetryScheduled, paint: Paint) -> str:
    words = f"[{event.kind}: {event.message}; again in {event.delay_s:g} s]"
    return paint("yellow", words)


def _rate_limit_wait(event: named.RateLimitWait, paint: Paint) -> str:
    # The endpoint's own wish was told with the retry.
    return "" if event.source == "endpoint" else paint("yellow", f"[rate limit: going on in {event.delay:g} s]")


def _key_rested(event: named.KeyRested, paint: Paint) -> str:
    after = f"going on with {event.next}" if event.next else "no other key is left now"
    return paint("yellow", f"[{event.key} was refused ({event.kind}); {after}]")


def _usage(event: named.Usage, paint: Paint) -> str:
    label = f"tokens ({event.purpose})" if event.purpose else "tokens"
    prompt = event.prompt if event.is_prompt_known else None
    return paint("dim", f"{label}: {_counts(prompt, event.cached, event.completion)}")


def _session_usage(event: named.SessionUsage, paint: Paint) -> str:
    return paint("dim", f"session: {_counts(event.prompt, event.cached, event.completion)}")


def _counts(prompt: int | None, cached: int, completion: int) -> str:
    held = f" ({cached:,} cached)" if cached else ""
    return f"{'?' if prompt is None else f'{prompt:,}'} in{held}, {completion:,} out"


def _pinned(event: named.ProviderPinned, paint: Paint) -> str:
    return paint("dim", f"[stays with the provider {event.provider}]")


def _unmeasurable(event: named.CacheUnmeasurable, paint: Paint) -> str:
    return paint("dim", "[cache: the endpoint does not say what it holds]")


def _cold(event: named.CacheCold, paint: Paint) -> str:
    age = "a while" if event.age is None else f"{event.age:,.0f} s"
    return paint("dim", f"[cache: gone cold after {age}]")


def _written(event: named.CacheWritten, paint: Paint) -> str:
    words = f"[cache: {event.cache_creation_tokens:,} tokens were written anew, none was read{_blamed(event)}]"
    return paint("dim", words)


def _below_minimum(event: named.CacheBelowMinimum, paint: Paint) -> str:
    words = f"[cache: {event.prompt_tokens:,} tokens are fewer than the {event.min_cacheable_tokens:,} that it takes]"
    return paint("dim", words)


def _proof_missing(event: named.CacheProofMissing, paint: Paint) -> str:
    if event.cached_tokens is None:
        return paint("yellow", "[cache: this answer does not say what was read from it]")
    prompt = event.prompt_tokens or 0
    return paint("yellow", f"[cache: none of {prompt:,} tokens was read from it{_blamed(event)}]")


def _cache_miss(event: named.CacheMiss, paint: Paint) -> str:
    held = "" if event.expected is None else f" of the {event.expected:,} sent before"
    return paint("yellow", f"[cache: {event.cached:,} tokens were read{held}{_blamed(event)}]")


def _blamed(event: named.CacheMiss | named.CacheProofMissing | named.CacheWritten) -> str:
    match event.blame:
        case "ours":
            return f"; {event.place} changed ({event.why})"
        case "provider":
            return "; it went on from the last request, the provider lost it"
        case "expired":
            return "; too much time had passed"
        case _:
            return ""


def _prefix_changed(event: named.PrefixChanged, paint: Paint) -> str:
    if event.part == "message" and event.why != "unexplained":
        return ""  # what replaced the message has its own line
    place = event.part if event.index is None else f"{event.part} {event.index}"
    return paint("dim", f"[the request changed at its {place}: {event.why}]")


def _token_limit(event: named.TokenLimit, paint: Paint) -> str:
    return paint("red", f"[token limit: {event.used:,} of {event.limit:,} used in this turn]")


def _loop_guard(event: named.LoopGuard, paint: Paint) -> str:
    return paint("yellow", f"[{event.text}]")


def _compaction(event: named.Compaction, paint: Paint) -> str:
    return paint("yellow", f"[{event.compacted_turns} messages were replaced by a summary]")


def _compaction_retry(event: named.CompactionRetry, paint: Paint) -> str:
    return paint("dim", "[the conversation does not fit the request for its summary; a part of it is sent]")


def _unprepared(event: named.CompactionPreparationSkipped, paint: Paint) -> str:
    return paint("yellow", f"[no summary was written, a list of what went takes its place: {visible(event.reason)}]")


def _overflow_retry(event: named.ContextOverflowRetry, paint: Paint) -> str:
    return paint("yellow", "[the conversation did not fit the model; it was made shorter]")


def _overflow_abort(event: named.ContextOverflowAbort, paint: Paint) -> str:
    return paint("red", "[the conversation does not fit the model, and cannot be made shorter]")


def _step_reduced(event: named.StepReduced, paint: Paint) -> str:
    sizes = (
        f"{event.raw_messages} messages are {event.kept_messages}, {event.raw_chars:,} characters {event.kept_chars:,}"
    )
    return paint("dim", f"[the step was reduced: {sizes}]")


def _restored(event: named.SessionRestored, paint: Paint) -> str:
    return paint("dim", f"[session {event.session_id} goes on with {event.messages_loaded} messages]")


def _resumed(event: named.SessionResumed, paint: Paint) -> str:
    line = f"[session {event.session_id} goes on with {event.messages_loaded} messages]"
    return paint("dim", f"{line}\n[{event.notice}]" if event.notice else line)


def _recovered(event: named.JournalRecovered, paint: Paint) -> str:
    if not event.mid_turn:
        return ""
    calls = f"; calls whose end nobody saw: {event.pending}" if event.pending else ""
    return paint("yellow", f"[the last turn had not ended{calls}]")


def _mcp_server(event: named.McpServer, paint: Paint) -> str:
    return paint("dim" if event.state in ("ready", "restarted") else "yellow", f"[{visible(event.text)}]")


def _hook_warning(event: named.HookWarning, paint: Paint) -> str:
    return paint("yellow", f"[hook: {event.text}]")


def _hook_status(event: named.HookStatus, paint: Paint) -> str:
    return paint("dim", f"[{event.text}]") if event.text else ""


_SENSES: Final[Mapping[str, str]] = MappingProxyType(
    {"user": "👤", "system": "💻", "git": "🌿", "time": "🕐", "token": "🪙", "change": "🔄"}
)


def _checklist(event: AwarenessChecklist, paint: Paint) -> str:
    return "\n".join(
        f"{_SENSES[name]} {name} awareness: {'✅' if is_on else '❌'}" for name, is_on in event.status.items()
    )


def _ground_moved(event: GroundMoved, paint: Paint) -> str:
    git = ["git"] if event.git_changed else []
    return paint("dim", f"[changed by others, and the model was told: {', '.join((*git, *event.files))}]")


def _final_answer(event: named.FinalAnswer, paint: Paint) -> str:
    return "" if event.streamed else visible(event.text)


def _error(event: named.Error, paint: Paint) -> str:
    return f"{paint('red', 'error:')} {visible(event.text)}"


_SHOWN: Final[Mapping[str, Any]] = {
    "tool_call": _tool_call,
    "tool_result": _tool_result,
    "approval_required": _approval,
    "content_delta": _content,
    "reasoning_delta": _reasoning,
    "content_stream_end": _stream_end,
    "reasoning_stream_end": _stream_end,
    "attempt_reset": _attempt_reset,
    "retry_scheduled": _retry,
    "rate_limit_wait": _rate_limit_wait,
    "key_rested": _key_rested,
    "provider_pinned": _pinned,
    "usage": _usage,
    "session_usage": _session_usage,
    "cache_unmeasurable": _unmeasurable,
    "cache_cold": _cold,
    "cache_written": _written,
    "cache_below_minimum": _below_minimum,
    "cache_proof_missing": _proof_missing,
    "cache_miss": _cache_miss,
    "prefix_changed": _prefix_changed,
    "token_limit": _token_limit,
    "loop_guard": _loop_guard,
    "compaction": _compaction,
    "compaction_retry": _compaction_retry,
    "compaction_preparation_skipped": _unprepared,
    "context_overflow_retry": _overflow_retry,
    "context_overflow_abort": _overflow_abort,
    "step_reduced": _step_reduced,
    "session_restored": _restored,
    "session_resumed": _resumed,
    "journal_recovered": _recovered,
    "mcp_server": _mcp_server,
    "hook_warning": _hook_warning,
    "hook_status": _hook_status,
    "awareness_checklist": _checklist,
    "ground_moved": _ground_moved,
    "final_answer": _final_answer,
    "error": _error,
}
"""Events without a line here are for programs."""


def _arguments(args: Mapping[str, object]) -> str:
    if len(args) == 1:
        (value,) = args.values()
        if isinstance(value, str):
            return value
    try:
        return dump(dict(args))
    except JsonInvalid:
        return repr(dict(args))


def _cut(text: str, chars_max: int) -> str:
    line = " ".join(text.split("\n"))
    return line if len(line) <= chars_max else f"{line[: chars_max - 1]}…"
