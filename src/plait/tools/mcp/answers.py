"""What a server answered, as the result of a call: text once, pictures as pictures, nothing as base64.

Floor: 3. Owns: turning content blocks into a result within bounds; never: the call.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from plait.core.errors import PlaitError
from plait.core.images import image_of_bytes
from plait.core.messages import Image, ToolResult
from plait.core.strict_json import JsonInvalid, dump, parse, plain
from plait.core.values import dataclass
from plait.tools.mcp.shown import clean
from plait.tools.spill import Spill

NO_TEXT: Final = "(no text content)"
IMAGES_MAX: Final = 8
BLOCKS_MAX: Final = 500
_LONG_CHARS: Final = 512
_DATA_CHARS_MAX: Final = 16_000
_URI_CHARS_MAX: Final = 500
_AS_TEXT: Final = "[as in the text]"
_BASE64: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of an answer a model gets at most; 0 is no limit."""

    chars_max: int = 32_000
    spill: Spill | None = None
    """Keeps the whole of what is cut."""


def result_of(answer: Any, bounds: Bounds) -> ToolResult:
    """Return the result of a call from the `CallToolResult` of the `mcp` package.

    `data["mcp_result"]` is the server's own answer: without text and pictures, which stand in the result already.
    """
    blocks = list(answer.content or ())
    taken = _Taken(frozenset(filter(None, map(_blob_of, blocks[:BLOCKS_MAX]))))
    for block in blocks[:BLOCKS_MAX]:
        taken.take(block)
    if len(blocks) > BLOCKS_MAX:
        taken.words.append(f"[{len(blocks) - BLOCKS_MAX} more parts were left out]")
    structured = _without_blobs(plain(answer.structured_content), taken.blobs)
    if structured is not None and not taken.has_text:
        taken.words.append(_json(structured))
    text = "\n".join(taken.words) or NO_TEXT
    if taken.has_text:
        structured = _told_once(structured, taken.words)
    data: dict[str, object] = {"mcp_result": _told(answer, blocks, structured)}
    if 0 < bounds.chars_max < len(text):
        fitted = (bounds.spill or _Nowhere()).fit(text, bounds.chars_max)
        text = fitted.text
        data.update(fitted.data)
    return ToolResult("", text, is_error=answer.is_error is True, data=data, images=tuple(taken.images))


class _Nowhere(Spill):
    """Cuts, and keeps nothing."""

    def keep(self, text: str) -> str | None:
        """Keep nothing."""
        return None


@dataclass
class _Taken:
    """What the blocks of one answer came to."""

    blobs: frozenset[str]
    """What any block holds as base64."""
    words: list[str] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    has_text: bool = False
    """Some block was text of the server's own."""

    def take(self, block: Any) -> None:
        match block.type:
            case "text":
                self.has_text = True
                self.words.append(_without_blob_text(str(block.text), self.blobs))
            case "image":
                self._blob(str(block.data), str(block.mime_type), "picture")
            case "audio":
                self._blob(str(block.data), str(block.mime_type), "audio")
            case "resource_link":
                self.words.append(f"[resource {_line(block.title or block.name)}: {_line(block.uri)}]")
            case "resource":
                self._resource(block.resource)
            case kind:
                self.words.append(f"[a part of the kind {_line(kind)} was left out]")

    def _resource(self, resource: Any) -> None:
        uri = _line(resource.uri)
        if (text := getattr(resource, "text", None)) is not None:
            self.has_text = True
            self.words.append(f"[resource {uri}]\n{text}")
        else:
            self._blob(str(resource.blob), str(resource.mime_type or ""), f"resource {uri}")

    def _blob(self, data: str, media_type: str, what: str) -> None:
        """Take a picture once; of anything else that is no text only say that it is there."""
        if data in self.seen:
            return
        self.seen.add(data)
        picture = _picture(data) if media_type.startswith("image/") or not media_type else None
        size = f"{_line(media_type) or 'no type'}, {len(data) * 3 // 4:,} bytes"
        if picture is None:
            self.words.append(f"[{what}: {size}; not shown]")
        elif len(self.images) < IMAGES_MAX:
            self.images.append(picture)
            self.words.append(f"[{what}: {size}]")
        else:
            self.words.append(f"[{what}: {size}; not shown: one answer shows {IMAGES_MAX} pictures]")


def _blob_of(block: Any) -> str:
    resource = getattr(block, "resource", None)
    return str(getattr(block, "data", None) or getattr(resource, "blob", None) or "")


def _picture(data: str) -> Image | None:
    try:
        return image_of_bytes(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError, PlaitError):
        return None


def _told(answer: Any, blocks: Iterable[Any], structured: object) -> dict[str, object]:
    """Return the server's answer for programs, bounded."""
    told: dict[str, object] = {
        "isError": answer.is_error is True,
        "content": [_outline(block) for block in list(blocks)[:BLOCKS_MAX]],
    }
    if structured is not None:
        size = len(_json(structured))
        told["structuredContent"] = structured if size <= _DATA_CHARS_MAX else f"[{size:,} characters: left out]"
    return told


def _outline(block: Any) -> dict[str, object]:
    outline: dict[str, object] = {"type": str(block.type)}
    for name, key in (("text", "chars"), ("data", "chars")):
        if isinstance(value := getattr(block, name, None), str):
            outline[key] = len(value)
    resource = getattr(block, "resource", block)
    for name, key in (("mime_type", "mimeType"), ("uri", "uri")):
        if (value := getattr(resource, name, None)) is not None:
            outline[key] = clean(str(value), _URI_CHARS_MAX)
    return outline


def _told_once(structured: object, words: list[str]) -> object:
    """Return what is structured without what stands in the text already: a log keeps a result's bytes once."""
    size = len(_json(structured))
    if structured is None or size <= _LONG_CHARS:
        return structured
    if any(_as_json(text) == structured for text in words if len(text) >= size // 2):
        return _AS_TEXT
    if isinstance(structured, dict):
        return {
            key: _AS_TEXT if isinstance(value, str) and len(value) > _LONG_CHARS and value in words else value
            for key, value in structured.items()
        }
    return structured


def _as_json(text: str) -> object:
    try:
        return parse(text)
    except JsonInvalid:
        return None


def _without_blobs(value: object, blobs: frozenset[str]) -> object:
    """Return a value in which words stand for what is binary: the model has it as a picture, or cannot read it."""
    if isinstance(value, str):
        return _without_blob_text(value, blobs)
    if isinstance(value, Mapping):
        return {key: _without_blobs(item, blobs) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_blobs(item, blobs) for item in value]
    return value


def _without_blob_text(text: str, blobs: frozenset[str]) -> str:
    for blob in blobs:
        if len(blob) >= 16 and blob in text:
            text = text.replace(blob, "[shown as a picture]")
    bare = text.partition(";base64,")[2] if text.startswith("data:") else text
    if len(bare) > _LONG_CHARS and _BASE64.issuperset(bare) and not bare.isalpha() and not bare.isdecimal():
        return f"[{len(bare) * 3 // 4:,} bytes as base64: left out]"
    return text


def _json(value: object) -> str:
    try:
        return dump(value)
    except JsonInvalid:
        return str(value)


def _line(value: object) -> str:
    return " ".join(clean(str(value), _URI_CHARS_MAX).split())
