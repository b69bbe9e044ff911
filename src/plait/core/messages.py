"""The one message type: what a conversation is made of, whatever wire carries it.

Floor: 0. Owns: roles, parts and the views on them; never: a provider's field name.

A conversation is a sequence of messages. One assistant message a step, one tool message a step that holds the
results of all its calls in call order. The system prompt is composed for each session and is no message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from plait.core.strict_json import JsonInvalid, dump, parse_object
from plait.core.values import dataclass

if TYPE_CHECKING:
    import os

Role = Literal["user", "assistant", "tool", "summary"]
ResultStatus = Literal["ok", "error", "denied", "cancelled", "unknown"]
"""How a call ended: `unknown` is an effect that started and whose end nobody saw."""
StopReason = Literal["end_turn", "tool_calls", "length", "content_filter", "refusal", "pause"]
"""Why a model stopped: `pause` asks to be called again with what it said."""

NOTE_CHARS: Final = "note_chars"
"""Where the data of a result says how many characters at its end are plait's own."""

CUT: Final[frozenset[StopReason]] = frozenset({"length", "content_filter"})
"""Stop reasons after which a tool call may be unfinished."""
PINNED: Final = "pinned"
"""Mark of a message that no summary takes the place of; of one with calls, their results stay as well."""


@dataclass(frozen=True, slots=True)
class Text:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What a model thought, and the provider's own record of it, echoed back untouched where it is demanded."""

    text: str
    opaque: Mapping[str, object] | None = None
    """Signature, encrypted content or details, as the provider sent them."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request to run one tool.

    `raw` is the provider's own text: JSON arguments, or free text where `custom` is true. It is kept byte for
    byte, because a re-serialised number is another number.
    """

    id: str
    name: str
    raw: str = "{}"
    custom: bool = False
    """True for a tool whose input is free text in a grammar."""
    extra: Mapping[str, object] | None = None
    """Fields a provider wants back beside the call, such as a thought's signature."""

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments as Python values; raise `JsonInvalid` when the text is not a JSON object."""
        return {"input": self.raw} if self.custom else parse_object(self.raw)

    @property
    def is_valid(self) -> bool:
        """True when `arguments` can be read."""
        try:
            self.arguments  # noqa: B018 - reading them is the test
        except JsonInvalid:
            return False
        return True

    @classmethod
    def of(cls, id: str, name: str, arguments: Mapping[str, object]) -> ToolCall:
        """Make a call from Python values."""
        return cls(id, name, dump(dict(arguments)))

    def to_dict(self) -> dict[str, object]:
        """Return `{id, name, arguments}`; arguments that cannot be read are given as their text."""
        try:
            arguments: object = self.arguments
        except JsonInvalid:
            arguments = self.raw
        return {"id": self.id, "name": self.name, "arguments": arguments}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> ToolCall:
        """Read what `to_dict` wrote; `id` and `name` are required."""
        arguments = data.get("arguments")
        raw = arguments if isinstance(arguments, str) else dump({} if arguments is None else arguments)
        return cls(str(data["id"]), str(data["name"]), raw)


@dataclass(frozen=True, slots=True)
class Image:
    """A picture, by its bytes (base64 in `data`) or by its URL."""

    data: str
    media_type: str = "image/png"
    kind: Literal["base64", "url"] = "base64"

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> Image:
        """Read a picture from a file; its type is told by its content.

        Raises:
            ConfigError: the file cannot be read, or is no PNG, JPEG, GIF or WebP.
            RequestTooLarge: it is larger than any endpoint takes.
        """
        from plait.core.images import image_of_file  # not needed to talk

        return image_of_file(path)

    @classmethod
    def from_bytes(cls, data: bytes) -> Image:
        """Take a picture from a file's content; raise as `from_path` does."""
        from plait.core.images import image_of_bytes

        return image_of_bytes(data)

    @classmethod
    def from_url(cls, url: str) -> Image:
        """Name a picture that the provider fetches itself; a `data:` URI holds the picture."""
        head, comma, data = url.partition(",")
        if comma and head.startswith("data:") and head.endswith(";base64"):
            return cls(data, head[len("data:") : -len(";base64")])
        return cls(url, kind="url")

    @property
    def size_bytes(self) -> int:
        """How large the picture is; 0 for one that is named by its URL."""
        return 0 if self.kind == "url" else len(self.data) * 3 // 4 - self.data[-2:].count("=")

    def as_data_uri(self) -> str:
        """Return the URL, or the bytes as a `data:` URI."""
        return self.data if self.kind == "url" else f"data:{self.media_type};base64,{self.data}"

    def to_dict(self) -> dict[str, object]:
        """Return `{data, media_type, kind}`."""
        return {"data": self.data, "media_type": self.media_type, "kind": self.kind}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Image:
        """Read what `to_dict` wrote; `data` is required."""
        kind: Literal["base64", "url"] = "url" if data.get("kind") == "url" else "base64"
        return cls(str(data["data"]), str(data.get("media_type", "image/png")), kind)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one call; every call has exactly one.

    `is_error` and `status` agree: whichever of them says that something went wrong is believed.
    """

    call_id: str
    content: str = ""
    is_error: bool = False
    data: Mapping[str, object] | None = None
    """For programs: exit code, files, hashes; never sent to a model."""
    status: ResultStatus = "ok"
    images: tuple[Image, ...] = ()

    def __post_init__(self) -> None:
        if self.is_error and self.status == "ok":
            object.__setattr__(self, "status", "error")
        elif self.status != "ok" and not self.is_error:
            object.__setattr__(self, "is_error", True)

    @property
    def said(self) -> str:
        """What the tool said: the content without what plait has noted below it, such as the time."""
        chars = 0 if self.data is None else self.data.get(NOTE_CHARS)
        return self.content[:-chars] if isinstance(chars, int) and 0 < chars <= len(self.content) else self.content

    def noted(self, note: str, **data: object) -> ToolResult:
        """Return the result with a note below what it says, and with more data."""
        text, before = f"\n{note}", len(self.content) - len(self.said)
        more = {**(self.data or {}), **data, NOTE_CHARS: before + len(text)}
        return ToolResult(self.call_id, self.content + text, self.is_error, more, self.status, self.images)

    def to_dict(self) -> dict[str, object]:
        """Return `{call_id, content, is_error, data}`."""
        data = None if self.data is None else dict(self.data)
        return {"call_id": self.call_id, "content": self.content, "is_error": self.is_error, "data": data}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> ToolResult:
        """Read what `to_dict` wrote; `call_id` is required."""
        more = data.get("data")
        payload = dict(more) if isinstance(more, Mapping) else None
        return cls(str(data["call_id"]), str(data.get("content", "")), bool(data.get("is_error", False)), payload)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A part only its own wire understands; echoed there verbatim, left out everywhere else."""

    wire: str
    payload: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Control:
    """A mark of plait's own, never sent: `interrupted`, `guard`, `hook`, `steering`."""

    kind: str


Part = Text | Reasoning | ToolCall | ToolResult | Image | Opaque | Control


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of speech; frozen, so it can be encoded once and shared."""

    role: Role
    parts: tuple[Part, ...] = ()
    origin: str = ""
    """The endpoint that produced an assistant message: reasoning is echoed to no other."""

    @property
    def content(self) -> str:
        """The words, without reasoning."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def reasoning(self) -> str:
        """The thoughts."""
        return "".join(part.text for part in self.parts if isinstance(part, Reasoning))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls an assistant asked for, in order."""
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The results a tool message holds, in call order."""
        return tuple([part for part in self.parts if isinstance(part, ToolResult)])

    @property
    def images(self) -> tuple[Image, ...]:
        """The pictures of a user message."""
        return tuple(part for part in self.parts if isinstance(part, Image))

    def marked(self, kind: str) -> bool:
        """Say whether the message carries plait's own mark `kind`."""
        return any(isinstance(part, Control) and part.kind == kind for part in self.parts)

    def to_dict(self) -> dict[str, object]:
        """Return `{role, content, tool_calls, tool_results, images}`: what people read, not what is stored."""
        return {
            "role": self.role,
            "content": self.content,
            "tool_calls": [call.to_dict() for call in self.tool_calls],
            "tool_results": [result.to_dict() for result in self.tool_results],
            "images": [image.to_dict() for image in self.images],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Message:
        """Read what `to_dict` wrote; `role` is required, the rest optional."""
        role = data["role"]
        if role not in ("user", "assistant", "tool", "summary"):
            raise ValueError(f"no message has the role {role!r}")
        content = str(data.get("content") or "")
        parts: list[Part] = [Text(content)] if content else []
        parts += [Image.from_dict(item) for item in _mappings(data.get("images"))]
        parts += [ToolCall.from_dict(item) for item in _mappings(data.get("tool_calls"))]
        parts += [ToolResult.from_dict(item) for item in _mappings(data.get("tool_results"))]
        return cls(role, tuple(parts))


def user(text: str, images: Iterable[Image] = (), *, mark: str = "") -> Message:
    """Make a user message; `mark` says that plait, not the user, wrote it."""
    marks: tuple[Part, ...] = (Control(mark),) if mark else ()
    return Message("user", (Text(text), *images, *marks))


def assistant(text: str = "", calls: Iterable[ToolCall] = (), *, origin: str = "") -> Message:
    """Make an assistant message."""
    words: tuple[Part, ...] = (Text(text),) if text else ()
    return Message("assistant", (*words, *calls), origin)


def _mappings(value: object) -> Sequence[Mapping[str, object]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, (list, tuple)) else []
