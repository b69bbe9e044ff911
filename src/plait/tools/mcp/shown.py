"""What a model is shown of a server's tool: a name of its own, and a description and a schema within bounds.

Floor: 3. Owns: names, caps, the digest by which a changed tool is known; never: calling a tool.

A server's words are not plait's: they are cut to a size, lose what a reader cannot see, and a schema loses what would
have it looked up elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from plait.core.strict_json import JsonInvalid, dump, plain
from plait.core.values import dataclass

PREFIX: Final = "mcp__"
TOOLS_MAX: Final = 512
"""Tools of one server that are looked at."""
NAME_CHARS_MAX: Final = 64
DESCRIPTION_CHARS_MAX: Final = 4_000
SCHEMA_CHARS_MAX: Final = 32_000
_WORDS_CHARS_MAX: Final = 1_000
_ENUM_MAX: Final = 200
_DEPTH_MAX: Final = 24
_DIGEST_CHARS: Final = 16
_SUFFIX_CHARS: Final = 6
_SERVER_CHARS_MAX: Final = 24
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_READS: Final = "read_only_hint"
_HINTS: Final = (_READS, "idempotent_hint")
_USUAL_HINTS: Final = ("destructive_hint", "open_world_hint")
_WORDS: Final = frozenset({"description", "title", "$comment"})
_SUBSCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


@dataclass(frozen=True, slots=True)
class Shown:
    """A tool as a model sees it, and as its server knows it."""

    own_name: str
    """The server's name for it."""
    name: str
    """`mcp__server__tool`."""
    description: str
    parameters: Mapping[str, object]
    is_read_only: bool
    """The server says that a call changes nothing."""
    hints: Mapping[str, object]
    """Whatever else it says of it: that it may be called twice, that it destroys."""
    digest: str
    """Of all that is shown."""

    @classmethod
    def of(
        cls, server: str, own_name: str, words: tuple[str, Mapping[str, object]], hints: Mapping[str, object]
    ) -> Shown:
        """Return a tool with its description, its schema and its hints, all of them within bounds already."""
        told = [own_name, *words, dict(hints)]
        is_read_only = hints.get(_READS) is True
        return cls(own_name, qualified(server, own_name), *words, is_read_only, dict(hints), _digest(told))

    def to_dict(self) -> dict[str, object]:
        """Return what it is made of, as plain JSON; `of` makes it again."""
        return {"description": self.description, "parameters": dict(self.parameters), "hints": dict(self.hints)}


@dataclass(frozen=True, slots=True)
class Listing:
    """A server's tools as they are shown, in the server's order, and the sentences about those that are not."""

    tools: tuple[Shown, ...] = ()
    refused: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    """Of each tool, by the server's name for it."""

    @property
    def digest(self) -> str:
        """Of the whole list, whatever its order."""
        return _digest(sorted(self.digests.items()))


def listing_of(server: str, found: Sequence[Any]) -> Listing:
    """Return what is shown of the tools that a server lists (objects of the `mcp` package)."""
    left_out = len(found) - TOOLS_MAX
    found = found[:TOOLS_MAX]
    names = [str(tool.name) for tool in found]
    tools: dict[str, Shown] = {}
    refused = [f"the list goes on after {TOOLS_MAX} tools, and the rest is not looked at"] if left_out > 0 else []
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            refused.append(f"{clean(name, 100)!r} is listed {names.count(name)} times")
            continue
        tool = found[names.index(name)]
        shown = _shown(server, name, tool)
        if isinstance(shown, str):
            refused.append(f"{clean(name, 100)!r} {shown}")
        elif shown.name in tools:
            refused.append(f"{clean(name, 100)!r} would have the name of {tools[shown.name].own_name!r}")
        else:
            tools[shown.name] = shown
    shown_tools = tuple(tools.values())
    return Listing(shown_tools, tuple(refused), {tool.own_name: tool.digest for tool in shown_tools})


def qualified(server: str, tool: str) -> str:
    """Return `mcp__server__tool`, of characters and a length that every endpoint takes.

    A name that had to be changed for that carries a mark of what it was, so that it depends on nothing but itself and
    no two of them are the same.
    """
    server = _part(server, _SERVER_CHARS_MAX)
    return f"{PREFIX}{server}__{_part(tool, NAME_CHARS_MAX - len(PREFIX) - len(server) - 2)}"


def bare(tool: str) -> str:
    """Return a tool's own name, of characters and a length that every endpoint takes."""
    return _part(tool, NAME_CHARS_MAX)


def clean(text: str, chars_max: int) -> str:
    """Return a text without what cannot be seen, cut to a size."""
    text = _UNSEEN.sub("", text.encode("utf-8", "replace").decode())
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"


def _part(name: str, chars_max: int) -> str:
    # Two underscores part server and tool; inside either they would let one stand for the other.
    fit = re.sub("__+", "_", _NOT_IN_NAMES.sub("_", name)).strip("_") or "x"
    if fit == name and len(fit) <= chars_max:
        return fit
    mark = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_SUFFIX_CHARS]
    return f"{fit[: chars_max - _SUFFIX_CHARS - 1]}_{mark}"


def _shown(server: str, name: str, tool: Any) -> Shown | str:
    """Return a tool as it is shown, or why it is not."""
    schema = tool.input_schema
    if not isinstance(schema, Mapping):
        schema = {"type": "object"}
    try:
        parameters = _bounded_schema(schema, 0)
        assert isinstance(parameters, dict)
        size = len(dump(parameters))
    except (_TooDeep, JsonInvalid):
        return "has a schema that is nested too deeply"
    if size > SCHEMA_CHARS_MAX:
        return f"has a schema of {size:,} characters, more than {SCHEMA_CHARS_MAX:,}"
    if parameters.get("type", "object") != "object":
        return "takes no object"
    parameters.setdefault("type", "object")
    description = clean(str(tool.description or tool.title or ""), DESCRIPTION_CHARS_MAX)
    return Shown.of(server, name, (description, parameters), _hints(tool.annotations))


def _hints(told: Any) -> dict[str, object]:
    """Return what a server says of a tool besides: a plain yes, or a title."""
    found: dict[str, object] = {name: True for name in _HINTS if getattr(told, name, None) is True}
    # These are taken for true where nothing is said: a no is what says something.
    found |= {name: False for name in _USUAL_HINTS if getattr(told, name, None) is False}
    title = getattr(told, "title", None)
    return {**found, "title": clean(title, _WORDS_CHARS_MAX)} if isinstance(title, str) else found


class _TooDeep(Exception):
    """A schema within schemas without end."""


def _bounded_schema(schema: object, depth: int) -> object:
    if depth > _DEPTH_MAX:
        raise _TooDeep
    if isinstance(schema, Mapping):
        return {
            clean(str(key), _WORDS_CHARS_MAX): value
            for key, item in schema.items()
            if (value := _member(str(key), item, depth)) is not None
        }
    if isinstance(schema, (list, tuple)):
        return [_bounded_schema(item, depth + 1) for item in schema]
    return clean(schema, DESCRIPTION_CHARS_MAX) if isinstance(schema, str) else plain(schema)


def _member(key: str, value: object, depth: int) -> object:
    """Return a member of a schema within bounds; None for one that is left out."""
    if key in _WORDS and isinstance(value, str):
        return clean(value, _WORDS_CHARS_MAX)
    if key in _SUBSCHEMAS and isinstance(value, Mapping):
        return {clean(str(name), _WORDS_CHARS_MAX): _bounded_schema(item, depth + 1) for name, item in value.items()}
    if key in ("$ref", "$dynamicRef") and not (isinstance(value, str) and value.startswith("#")):
        return None  # a check would look it up, on the network perhaps
    if key in ("$id", "$schema"):
        return None
    if key in ("enum", "examples"):
        # A part of the allowed values would forbid the others; what does not fit in is left to the server's own check.
        return plain(value) if _is_small(value) else None
    if key in ("default", "const"):
        return plain(value) if len(str(value)) <= _WORDS_CHARS_MAX else None
    return _bounded_schema(value, depth + 1)


def _is_small(values: object) -> bool:
    return (
        isinstance(values, (list, tuple))
        and len(values) <= _ENUM_MAX
        and all(len(str(value)) <= _WORDS_CHARS_MAX for value in values)
    )


def _digest(value: object) -> str:
    return hashlib.sha256(dump(value).encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS]
