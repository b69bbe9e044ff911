"""From how a hook ended to what it said: one reading for commands and functions, for both dialects of hook files.

Floor: 3. Owns: exit codes, the JSON that hooks print, what breaks its rules; never: running a hook.

Exit code 2 says no, with the reason on stderr. Exit code 0 without output says nothing. A JSON object says what its
members say, with every code but 2. Everything else is an error of the hook, which stops nothing, unless the hook's
entry says that its errors are a no.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from plait.core.strict_json import JsonInvalid, json_type, parse
from plait.hooks.decision import NOTHING, HookDecision, RawHookResult, Word
from plait.hooks.entry import OnError
from plait.hooks.events import EVENTS

_BLOCKED: Final = 2
_SHOWN_CHARS: Final = 2_000
_REASON_CHARS: Final = 10_000
_NO_REASON: Final = "blocked by a hook that gave no reason"
_TYPES: Final[Mapping[str, type]] = {
    "continue": bool,
    "stopReason": str,
    "systemMessage": str,
    "suppressOutput": bool,
    "decision": str,
    "reason": str,
    "hookSpecificOutput": dict,
    "hookEventName": str,
    "additionalContext": str,
    "permissionDecision": str,
    "permissionDecisionReason": str,
    "updatedInput": dict,
    "updatedToolOutput": str,
}
"""What the members hold; those of `hookSpecificOutput` are in the same list. Other members are nobody's business."""
_WORDS: Final = {bool: "true or false", str: "a text", dict: "an object"}
_ONLY_AT: Final[Mapping[str, str]] = {
    "permissionDecision": "PreToolUse",
    "permissionDecisionReason": "PreToolUse",
    "updatedInput": "PreToolUse",
    "updatedToolOutput": "PostToolUse",
}
_PERMISSIONS: Final[Mapping[str, Word | None]] = {"allow": "allow", "deny": "deny", "ask": "ask", "defer": None}
_NOT_HONOURED: Final = ("updatedInput", "updatedPermissions", "interrupt")


class _Violation(Exception):
    """The JSON is not what hooks may print; the message says why."""


def verdict(event: str, raw: RawHookResult, on_error: OnError = "ignore") -> HookDecision:
    """Return what a hook of `event` said by ending like this."""
    said = _bounded(_read(event, raw))
    is_failed = bool(said.errors) or raw.exit_code not in (0, _BLOCKED)
    if on_error == "deny" and is_failed and EVENTS[event].can_block and said.decision != "deny":
        why = said.errors[0] if said.errors else f"it ended with exit code {raw.exit_code}"
        return replace(said, decision="deny", reason=f"a hook that has to agree failed: {why}", updated_input=None)
    return said


def _read(event: str, raw: RawHookResult) -> HookDecision:
    text, errors = raw.stdout.strip().removeprefix("\ufeff").lstrip(), raw.stderr.strip()
    if raw.failure or raw.exit_code is None:
        return HookDecision(errors=(_with(raw.failure or "it did not end by itself", errors),))
    if raw.exit_code == _BLOCKED:
        return _blocked(event, text, errors)
    try:
        said = _json(text, is_cut=raw.is_cut)
        if said is not None:
            return _structured(event, said)
    except _Violation as violation:
        return HookDecision(errors=(str(violation),))
    if raw.exit_code != 0:
        return HookDecision(errors=(_with(f"it ended with exit code {raw.exit_code}", errors),))
    return _plain(event, text)


def _with(what: str, errors: str) -> str:
    return f"{what}: {_short(errors)}" if errors else what


def _short(text: str, chars_max: int = _SHOWN_CHARS) -> str:
    return text if len(text) <= chars_max else f"{text[:chars_max]}…"


def _bounded(said: HookDecision) -> HookDecision:
    """Return what was said with reasons that a model can be told, and messages that a user can be shown."""
    texts = (said.reason, said.stop_reason, *said.messages)
    if all(len(text) <= _REASON_CHARS for text in texts):
        return said
    reason, stop_reason, *messages = (_short(text, _REASON_CHARS) for text in texts)
    return replace(said, reason=reason, stop_reason=stop_reason, messages=tuple(messages))


def _blocked(event: str, text: str, errors: str) -> HookDecision:
    if not EVENTS[event].can_block:
        return HookDecision(messages=(_short(errors),)) if errors else NOTHING
    return HookDecision("deny", _reason_in(text) or errors or _NO_REASON)


def _reason_in(text: str) -> str:
    """Return the reason in the JSON that came with a no; whatever is wrong with that, it stays a no."""
    try:
        said = parse(text)
    except JsonInvalid:
        return ""
    if not isinstance(said, dict):
        return ""
    own = said.get("hookSpecificOutput")
    inner = own.get("permissionDecisionReason") if isinstance(own, dict) else None
    return next((reason for reason in (said.get("reason"), inner) if isinstance(reason, str) and reason), "")


def _json(text: str, *, is_cut: bool) -> dict[str, object] | None:
    """Return the object that was printed, None for plain text."""
    is_meant = text.startswith("{")
    if is_meant and is_cut:
        raise _Violation("it printed more JSON than is read")
    try:
        value = parse(text) if text else None
    except JsonInvalid as error:
        if is_meant:
            raise _Violation(f"it printed JSON that cannot be read: {error}") from None
        return None
    if isinstance(value, dict) or not text:
        return value if isinstance(value, dict) else None
    raise _Violation(f"it printed {json_type(value)} where a JSON object is wanted")


def _plain(event: str, text: str) -> HookDecision:
    """Read text that is no JSON, of a hook that went well."""
    if not text:
        return NOTHING
    match EVENTS[event].text_is:
        case "context":
            return HookDecision(context=(text,))
        case "error":
            return HookDecision(errors=(f"it printed text where JSON is wanted: {_short(text)}",))
        case _:
            return NOTHING


def _structured(event: str, said: Mapping[str, object]) -> HookDecision:
    _check(event, said)
    own = said.get("hookSpecificOutput")
    inner: Mapping[str, object] = own if isinstance(own, dict) else {}
    _check_own(event, own, inner)
    word, reason = _word(event, said, inner)
    is_stop = said.get("continue") is False
    if is_stop and event == "PreToolUse":
        # There is no turn to end at this moment that would not end it by running the call.
        word, reason, is_stop = "deny", _text(said, "stopReason") or reason, False
    updated = inner.get("updatedInput")
    if updated is not None and event == "PreToolUse" and word not in ("allow", "ask"):
        if word is None:
            raise _Violation("updatedInput means something with permissionDecision allow or ask only")
        updated = None
    context, message = _text(inner, "additionalContext"), _text(said, "systemMessage")
    output = inner.get("updatedToolOutput")
    return HookDecision(
        word,
        reason,
        is_stop,
        _text(said, "stopReason") if is_stop else "",
        updated if isinstance(updated, dict) else None,
        output if isinstance(output, str) else None,
        (context,) if context.strip() else (),
        (message,) if message.strip() else (),
    )


def _check(event: str, said: Mapping[str, object]) -> None:
    for name, value in said.items():
        wanted = _TYPES.get(name)
        if wanted is not None and value is not None and not isinstance(value, wanted):
            raise _Violation(f"it says {name!r} with {json_type(value)}, which is {_WORDS[wanted]}")
    decision = said.get("decision")
    if decision is None:
        return
    if decision not in ("block", "approve"):
        raise _Violation(f"it says decision {decision!r}, which is 'block' or 'approve'")
    if decision == "block" and not EVENTS[event].can_block:
        raise _Violation(f"it says block, and nothing can be blocked at {event}")


def _check_own(event: str, own: object, inner: Mapping[str, object]) -> None:
    if own is None:
        return
    if inner.get("hookEventName") != event:
        raise _Violation(f"its hookSpecificOutput is for {inner.get('hookEventName')!r} and not for {event!r}")
    if event != "PermissionRequest":
        _check(event, {name: value for name, value in inner.items() if name != "decision"})
    for name, where in _ONLY_AT.items():
        if inner.get(name) is not None and event != where:
            raise _Violation(f"it says {name!r}, which means nothing at {event}")
    if inner.get("additionalContext") and not EVENTS[event].takes_context:
        raise _Violation(f"it says 'additionalContext', which reaches nobody at {event}")


def _word(event: str, said: Mapping[str, object], inner: Mapping[str, object]) -> tuple[Word | None, str]:
    """Return the no, the question or the yes of a JSON object, and the reason."""
    word: Word | None = None
    reason = _text(said, "reason")
    if said.get("decision") == "block":
        word = "deny"
    elif said.get("decision") == "approve" and event == "PreToolUse":
        word = "allow"
    if event == "PermissionRequest":
        return (word, reason) if word == "deny" else _permission(inner.get("decision"))
    chosen = inner.get("permissionDecision")
    if chosen is None or word == "deny":
        return word, reason
    if not isinstance(chosen, str) or chosen not in _PERMISSIONS:
        raise _Violation(f"it says permissionDecision {chosen!r}, which is allow, deny or ask")
    return _PERMISSIONS[chosen], _text(inner, "permissionDecisionReason") or reason


def _permission(decision: object) -> tuple[Word | None, str]:
    """Read the answer to a question for permission; what it asks beside yes and no makes it a no."""
    if decision is None:
        return None, ""
    behavior = decision.get("behavior") if isinstance(decision, dict) else None
    if not isinstance(decision, dict) or behavior not in ("allow", "deny"):
        raise _Violation("its decision is an object whose 'behavior' is allow or deny")
    message = decision.get("message")
    if message is not None and not isinstance(message, str):
        raise _Violation("the 'message' of its decision is a text")
    if asked := [name for name in _NOT_HONOURED if decision.get(name)]:
        return "deny", f"a hook wants {asked[0]!r} with its answer, which is not honoured here"
    return ("allow" if behavior == "allow" else "deny"), message or ""


def _text(said: Mapping[str, object], name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""
