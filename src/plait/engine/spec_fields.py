"""The fields of an agent spec, and what each may hold.

Floor: 4. Owns: names and kinds of fields; never: what a field does, or which file it stands in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal

Kind = Literal[
    "any",
    "text",
    "variable",
    "header",
    "headers",
    "variables",
    "command",
    "yes_no",
    "count",
    "number",
    "seconds",
    "object",
    "list",
    "texts",
    "servers",
]

FIELDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "model": "text",
        "endpoint": "text",
        "status": "any",
        "comment": "any",
        "version": "any",
        "display_name": "any",
        "disabled": "yes_no",
        "tool_specs": "list",
        "inferred_tool_schema": "list",
        "tools": "texts",
        "tool_dispatch": "object",
        "aliases": "object",
        "behaviour": "object",
        "options": "texts",
        "max_output_tokens": "count",
        "provider": "object",
        "provider_api_support": "object",
        "auth": "text",
        "key_env": "variable",
        "keyring_service": "text",
        "keyring_username": "text",
        "auth_header": "header",
        "extra_headers": "headers",
        "request_params": "object",
        "inference_db": "text",
        "command": "command",
        "command_env": "variables",
        "command_timeout": "seconds",
        "request_timeout": "seconds",
        "max_rpm": "count",
        "max_input_token_price_per_million": "number",
        "max_output_token_price_per_million": "number",
        "reports_prompt_tokens": "yes_no",
        "min_cacheable_tokens": "number",
        "cache_ttl_seconds": "number",
        "compaction_enabled": "yes_no",
        "compaction_trigger_tokens": "count",
        "compaction_target_tokens": "count",
        "compaction_keep_last_turns": "number",
        "compaction_policy": "any",
        "compaction_min_chars": "number",
        "context_window": "count",
        "token_counter": "text",
        "token_awareness_enabled": "yes_no",
        "token_awareness_budget_tokens": "count",
        "token_awareness_reminder_tokens": "number",
        "token_awareness_update_every": "count",
        "time_awareness_enabled": "yes_no",
        "time_awareness_tool_timestamps": "yes_no",
        "user_awareness_enabled": "yes_no",
        "system_awareness_enabled": "yes_no",
        "git_awareness_enabled": "yes_no",
        "change_awareness_enabled": "yes_no",
        "durable": "yes_no",
        "hooks_enabled": "yes_no",
        "tool_ttl_seconds": "number",
        "parallel_tool_dispatch": "yes_no",
        "parallel_tool_dispatch_max_workers": "count",
        "tool_loading": "text",
        "mcp_servers": "servers",
        "permissions": "object",
        "limits": "object",
    }
)
"""The fields of an agent spec and what each holds. Other fields are a spec's own business, unless they look like a
misspelt one of these."""

MAY_HOLD_SECRETS: Final = frozenset(
    {"auth", "key_env", "extra_headers", "command_env", "command", "request_params", "mcp_servers"}
)
"""Fields whose values are never shown: a key has no business in them, and stands in them by mistake."""

WANTED: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "text": "text",
        "variable": "the name of an environment variable, never a key",
        "header": "the name of a header that may carry a key",
        "headers": "an object of header names and texts",
        "variables": "an object of variable names and texts",
        "command": "a program's path, or a list of it and its arguments",
        "yes_no": "true or false",
        "count": "a whole number from 1",
        "number": "a number from 0",
        "seconds": "a number of seconds above 0",
        "object": "an object",
        "list": "a list of objects",
        "texts": "a list of texts",
        "servers": "an object of servers by their names, or a list of objects with a name each",
    }
)
"""What a field of a kind is, in words."""

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FRAMING: Final = frozenset({"host", "connection", "content-length", "transfer-encoding", "content-type"})
"""Headers that say how a request is to be read: a key in one of them breaks it."""
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def fits(kind: Kind, value: object) -> bool:
    """Say whether a field of a kind may hold a value."""
    return _CHECKS[kind](value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_variable(value: object) -> bool:
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
        return False
    if value.isupper():
        return True
    from plait.core.redact import redact_secrets  # many patterns, for what may be a key in the place of a name

    return not redact_secrets(value)[1]


def _is_command(value: object) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    return _are_texts(value) and bool(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)


def _are_headers(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and _HEADER.fullmatch(name) and _is_header_value(text) for name, text in value.items()
    )


def _is_header(value: object) -> bool:
    return isinstance(value, str) and bool(_HEADER.fullmatch(value)) and value.lower() not in _FRAMING


def _is_header_value(value: object) -> bool:
    return _is_number(value) or (isinstance(value, str) and bool(_HEADER_VALUE.fullmatch(value)))


def _are_variables(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and name and "=" not in name and isinstance(text, str) and "\0" not in name + text
        for name, text in value.items()
    )


_CHECKS: Final[Mapping[Kind, Callable[[object], bool]]] = MappingProxyType(
    {
        "any": lambda value: True,
        "text": lambda value: isinstance(value, str),
        "variable": _is_variable,
        "header": _is_header,
        "headers": _are_headers,
        "variables": _are_variables,
        "command": _is_command,
        "yes_no": lambda value: isinstance(value, bool),
        "count": _is_count,
        "number": lambda value: _is_number(value) and value >= 0,  # type: ignore[operator]
        "seconds": lambda value: _is_number(value) and value > 0,  # type: ignore[operator]
        "object": lambda value: isinstance(value, Mapping),
        "list": lambda value: isinstance(value, (list, tuple)) and all(isinstance(item, Mapping) for item in value),
        "texts": _are_texts,
        "servers": lambda value: isinstance(value, Mapping) or fits("list", value),
    }
)
