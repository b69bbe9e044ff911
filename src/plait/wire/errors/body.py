"""The error in a body, whatever a server wraps it in.

Floor: 1. Owns: finding message, code and type; never: what they mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from plait.core.values import dataclass

MESSAGE_CHARS_MAX: Final = 2_000
_PARAM_CHARS_MAX: Final = 200
_DEPTH_MAX: Final = 4
_MESSAGE_KEYS: Final = (
    "message",
    "msg",
    "status_msg",
    "error_msg",
    "error_message",
    "errorMessage",
    "Message",
    "detail",
    "title",
)
_ERROR_KEYS: Final = ("errors", "detail", "error_msg", "error_code", "errorMessage")
_ANSWER_KEYS: Final = frozenset({"choices", "output", "content", "type"})
"""Members that no bare error has: `type` names the events of two wires."""
_SUSPECT: Final = frozenset({"error", "base_resp", "type", "success", "code", "message", *_ERROR_KEYS})
"""Members without which nothing is an error, but for one that calls itself so."""
_CODE_KEYS: Final = ("code", "status_code", "error_code", "errorCode", "statusCode")
_TYPE_KEYS: Final = ("type", "status", "error_type", "reason", "__type")


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What a server said about a failure."""

    message: str = ""
    code: str | int | None = None
    """The code, or the type where there is no code."""
    words: frozenset[str] = frozenset()
    """Every code and type in lower case."""
    status: int | None = None
    """A code that is an HTTP status."""
    param: str = ""
    objects: tuple[Mapping[str, object], ...] = field(default=())
    """The objects of the body that spoke of the error, the innermost last."""

    @property
    def text(self) -> str:
        """Everything a person would read in it."""
        return f"{self.message} {self.param}".strip()


def is_error(document: Mapping[str, object]) -> bool:
    """Say whether a document of a 200 answer is an error in disguise."""
    if _SUSPECT.isdisjoint(document) and document.get("object") != "error":
        return False
    if document.get("error"):
        return True
    base = document.get("base_resp")
    if isinstance(base, dict) and base.get("status_code") not in (None, 0, "0"):
        return True
    if document.get("object") == "error" or document.get("type") == "error":
        return True
    if not _ANSWER_KEYS.isdisjoint(document):
        return False
    if document.get("success") is False or (document.get("code") and isinstance(document.get("msg"), str)):
        return True
    return isinstance(document.get("message"), str) or any(document.get(key) for key in _ERROR_KEYS)


def read_error(document: object) -> ErrorBody:
    """Return what `document`, a parsed body or plain text, says about a failure."""
    objects = tuple(_objects(document, 0))
    if not objects:
        return ErrorBody(message=_cut(document) if isinstance(document, str) else "")
    messages = list(dict.fromkeys(filter(None, (_message(item) for item in objects))))
    codes = [code for item in reversed(objects) if (code := _first(item, _CODE_KEYS)) is not None]
    types = [name for item in reversed(objects) for key in _TYPE_KEYS if (name := _word(item.get(key))) is not None]
    types += [name for item in objects for name in _reasons(item)]
    words = [*codes, *types]
    labels = [label for item in objects if isinstance(label := item.get("error"), str)]
    return ErrorBody(
        message=_cut(": ".join(messages)),
        code=words[0] if words else None,
        words=frozenset(str(word).lower() for word in (*words, *labels)),
        status=next((status for code in codes if (status := _status(code)) is not None), None),
        param=_param(objects),
        objects=objects,
    )


def _reasons(item: Mapping[str, object]) -> Iterator[str | int]:
    """Yield what the details of an error, or a router's notes on it, give as reasons."""
    notes = item.get("metadata")
    kind = _word(notes.get("error_type")) if isinstance(notes, Mapping) else None
    if kind is not None:
        yield kind
    details = item.get("details")
    for detail in details if isinstance(details, list) else ():
        reason = _word(detail.get("reason")) if isinstance(detail, dict) else None
        if reason is not None:
            yield reason


def _param(objects: Sequence[Mapping[str, object]]) -> str:
    """Return what the innermost object that names a parameter names."""
    for item in reversed(objects):
        param, place = item.get("param"), item.get("loc")
        if isinstance(place, list):
            param = ".".join(map(str, place)).removeprefix("body.")
        if isinstance(param, str):
            return param[:_PARAM_CHARS_MAX]
    return ""


def _objects(value: object, depth: int) -> Iterator[Mapping[str, object]]:
    """Yield the objects that speak of the error, from the outside in."""
    if depth > _DEPTH_MAX:
        return
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, Mapping):
        return
    yield value
    for inner in _inner(value):
        yield from _objects(inner, depth + 1)


def _inner(value: Mapping[str, object]) -> Iterator[object]:
    for key in ("error", "errors", "base_resp", "detail", "message"):
        inner = value.get(key)
        if isinstance(inner, (Mapping, list)) or (isinstance(inner, str) and inner.lstrip().startswith(("{", "["))):
            yield inner
    metadata = value.get("metadata")
    if isinstance(metadata, Mapping):
        yield metadata.get("raw")  # a router's copy of what the provider behind it said


def _parsed(text: str) -> object:
    if not text.lstrip().startswith(("{", "[")):
        return None
    from plait.wire.lenient import lenient_loads  # most answers hold no error

    return lenient_loads(text)


def _message(item: Mapping[str, object]) -> str:
    for key in _MESSAGE_KEYS:
        value = item.get(key)
        if isinstance(value, str) and value and not isinstance(_parsed(value), (Mapping, list)):
            return value
    error = item.get("error")
    return error if isinstance(error, str) and _parsed(error) is None else ""


def _first(item: Mapping[str, object], keys: tuple[str, ...]) -> str | int | None:
    for key in keys:
        if (word := _word(item.get(key))) is not None:
            return word
    return None


def _word(value: object) -> str | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int):
        return value
    return value if isinstance(value, str) and value and value != "error" else None


def _status(code: str | int) -> int | None:
    number = int(code) if isinstance(code, int) or (code.isdecimal() and code.isascii() and len(code) == 3) else None
    return number if number is not None and 400 <= number <= 599 else None


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MESSAGE_CHARS_MAX else text[: MESSAGE_CHARS_MAX - 1] + "…"
