"""A session as something to read or to keep: its own journal, Markdown, or one HTML page.

Floor: 2. Owns: the three forms; never: a file (the caller writes what it is given).

What is shown is what happened, in order: messages that a compaction has replaced since are shown too. The page holds
no script and loads nothing, and whatever a model, a tool or a user wrote in it is text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from plait.core.facts import MessageAdded, Reset, ToolEnd, TurnEnd
from plait.core.messages import Message, Reasoning, ToolCall, ToolResult
from plait.core.values import dataclass
from plait.store.opening import file_bytes, load_journal

Format = Literal["jsonl", "markdown", "html"]

_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FENCE: Final = re.compile("`{3,}")
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f4f4f4;color:#222;padding:.5rem}"
    "h2{font-size:1rem;margin:1.5rem 0 .25rem}time{color:#666;font-weight:normal}"
)
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class Block:
    """One thing that was said or done."""

    title: str
    text: str
    at_ms: int
    is_prose: bool = False
    """Written to be read; anything else is shown letter by letter."""


def export(path: Path, format: Format) -> bytes:
    """Return a session in one of the forms; raise `JournalError` where its journal cannot be read."""
    journal = load_journal(path)
    if format == "jsonl":
        # Whole lines only: an unfinished write at the end is not part of the session.
        return file_bytes(path)[: journal.end]
    blocks = [block for entry in journal.entries for block in _blocks(entry.fact, entry.at_ms)]
    text = _markdown(journal.conversation, blocks) if format == "markdown" else _page(journal.conversation, blocks)
    return text.encode()


def _blocks(fact: object, at_ms: int) -> Iterator[Block]:
    if isinstance(fact, MessageAdded):
        yield from _message(fact.message, at_ms)
    elif isinstance(fact, ToolEnd):
        yield from _result(fact.result, at_ms)
    elif isinstance(fact, Reset) and not fact.is_skipped:
        yield Block("History replaced", f"{fact.why}: messages {fact.start} to {fact.end}", at_ms, True)
        for message in fact.messages:
            yield from _message(message, at_ms)
    elif isinstance(fact, TurnEnd) and fact.reason != "completed":
        yield Block("Turn ended", " ".join(filter(None, (fact.reason, fact.detail))), at_ms, True)


def _message(message: Message, at_ms: int) -> Iterator[Block]:
    for part in message.parts:
        if isinstance(part, Reasoning) and part.text:
            yield Block("Reasoning", part.text, at_ms)
    if message.content:
        yield Block(message.role.capitalize(), message.content, at_ms, True)
    for image in message.images:
        yield Block("Picture", image.data if image.kind == "url" else f"{image.media_type}, embedded", at_ms)
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield Block(f"Call {part.name}", part.raw, at_ms)
        elif isinstance(part, ToolResult):
            yield from _result(part, at_ms)


def _result(result: ToolResult, at_ms: int) -> Iterator[Block]:
    yield Block("Result" if result.status == "ok" else f"Result ({result.status})", result.content, at_ms)


def _markdown(name: str, blocks: list[Block]) -> str:
    lines = [f"# Session {_seen(name)}"]
    for block in blocks:
        lines += ["", f"## {_one_line(block.title)} <!-- {_time(block.at_ms)} -->", ""]
        text = _seen(block.text)
        fence = "`" * max(3, 1 + max(map(len, _FENCE.findall(text)), default=0))
        lines += [text] if block.is_prose else [fence, text, fence]
    return "\n".join(lines) + "\n"


def _page(name: str, blocks: list[Block]) -> str:
    title = html.escape(_one_line(f"Session {name}"))
    body = [
        f"<h2>{html.escape(_one_line(block.title))} <time>{_time(block.at_ms)}</time></h2>"
        f"<pre>{html.escape(_seen(block.text))}</pre>"
        for block in blocks
    ]
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{title}</title><style>{_STYLE}</style>"
    )
    return (
        f"<!doctype html>\n<html><head>{head}</head>\n<body><h1>{title}</h1>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _one_line(text: str) -> str:
    return " ".join(_seen(text).split())


def _seen(text: str) -> str:
    """Text without what cannot be seen, or turns the text around it: each such character by its code."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _time(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
