"""A tool's specification as a block in its function's docstring, read and written.

Floor: 3. Owns: the `Tool spec:` block; never: which functions are tools.

The block is an indented outline under a line `Tool spec:`:

    Tool spec:
        name: read_file
        description: Read a text file.
        parameters:
            path:
                type: string
                description: The file,
                    relative or absolute.
                required: true
                maps_to: path

A value may go on in deeper lines. Besides `type`, `description`, `required` and `maps_to` (the function's own name for
the argument) a parameter may have any JSON Schema keyword; its value is JSON, or else plain text.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Final

from plait.core.strict_json import JsonInvalid, dump, parse

_HEADING: Final = "Tool spec:"
_WIDTH: Final = 100
_NOT_SCHEMA: Final = frozenset({"required", "maps_to"})

_Outline = dict[str, "str | _Outline"]


def parse_tool_spec_from_docstring(doc: str | None) -> dict[str, object] | None:
    """Return `{name, description, parameters, required, param_map}`, or None without a block that names a tool."""
    outline = _outline(_block(doc or ""))
    name = outline.get("name")
    if not isinstance(name, str) or not name:
        return None
    given = outline.get("parameters")
    declared = (
        {key: value for key, value in given.items() if isinstance(value, dict)} if isinstance(given, dict) else {}
    )
    return {
        "name": name,
        "description": _text(outline.get("description")),
        "parameters": {key: _parameter(value) for key, value in declared.items()},
        "required": [key for key, value in declared.items() if _text(value.get("required")).lower() in {"true", "yes"}],
        "param_map": {key: _text(value.get("maps_to")) or key for key, value in declared.items()},
    }


def extract_tool_specs_from_module(module: ModuleType) -> dict[str, dict[str, object]]:
    """Return `{function name: specification}` of every function in a module that has a block."""
    found = {}
    for name in dir(module):
        value = getattr(module, name)
        spec = parse_tool_spec_from_docstring(inspect.getdoc(value)) if inspect.isroutine(value) else None
        if spec is not None:
            found[name] = spec
    return found


def tool_spec_to_schema(spec: Mapping[str, object]) -> dict[str, object]:
    """Return a specification as the entry of a chat-completions `tools` list."""
    parameters, required = spec.get("parameters"), spec.get("required")
    return {
        "type": "function",
        "function": {
            "name": spec["name"],
            "description": spec.get("description", ""),
            "parameters": {
                "type": "object",
                "properties": dict(parameters) if isinstance(parameters, Mapping) else {},
                "required": list(required) if isinstance(required, (list, tuple)) else [],
            },
        },
    }


def tool_spec_block(name: str, description: str, parameters: Mapping[str, object], param_map: Mapping[str, str]) -> str:
    """Write the block that `parse_tool_spec_from_docstring` reads; `parameters` is a JSON Schema of an object."""
    properties, required = parameters.get("properties"), parameters.get("required")
    wanted = required if isinstance(required, (list, tuple)) else ()
    lines = [_HEADING, f"    name: {name}", *_folded("description", description, 4), "    parameters:"]
    for key, schema in properties.items() if isinstance(properties, Mapping) else ():
        lines.append(f"        {key}:")
        for keyword, value in schema.items():
            text = value if isinstance(value, str) else dump(value)
            lines += _folded(keyword, text, 12)
        lines.append(f"            required: {'true' if key in wanted else 'false'}")
        lines.append(f"            maps_to: {param_map.get(key, key)}")
    return "\n".join(lines)


def _folded(key: str, text: str, indent: int) -> list[str]:
    prefix = " " * indent
    return textwrap.wrap(
        f"{key}: {text}",
        width=_WIDTH,
        initial_indent=prefix,
        subsequent_indent=f"{prefix}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _block(doc: str) -> list[str]:
    """Return the non-empty lines under the heading, down to where the indentation comes back to it."""
    lines = iter(inspect.cleandoc(doc).splitlines())
    heading = next((line for line in lines if line.strip() == _HEADING), None)
    if heading is None:
        return []
    kept = []
    for line in filter(str.strip, lines):
        if _indent(line) <= _indent(heading):
            break
        kept.append(line)
    return kept


def _outline(lines: list[str]) -> _Outline:
    """Read lines of one depth: `key: value`, `key:` with deeper lines, or a value that goes on in deeper lines."""
    outline: _Outline = {}
    for head, deeper in _groups(lines):
        key, colon, value = head.strip().partition(":")
        if not colon:
            continue
        value = value.strip()
        is_text = bool(value) or (bool(deeper) and ":" not in deeper[0])
        words = (value.lstrip("|>"), *map(str.strip, deeper))
        outline[key.strip()] = " ".join(words).strip() if is_text or not deeper else _outline(deeper)
    return outline


def _groups(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Split lines into each line of the outer depth with the deeper lines that follow it."""
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and _indent(lines[end]) > _indent(lines[at]):
            end += 1
        yield lines[at], lines[at + 1 : end]
        at = end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _parameter(outline: _Outline) -> dict[str, object]:
    schema: dict[str, object] = {"type": "string"}
    for key, value in outline.items():
        if key in _NOT_SCHEMA:
            continue
        if isinstance(value, dict):
            schema[key] = _parameter(value)
        else:
            schema[key] = value if key == "description" else _value(value)
    return schema


def _value(text: str) -> object:
    try:
        return parse(text)
    except JsonInvalid:
        return text


def _text(value: str | _Outline | None) -> str:
    return value if isinstance(value, str) else ""
