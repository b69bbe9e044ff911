"""A model behind a chat-completions endpoint that answers by what a conversation holds, and sees what is sent to it.

What a request carries is what its sender remembers: requests are the outside log that the scripts compare.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

GREETING: Final = "Say hi."
HI: Final = "Hi there."
TASK: Final = "Do the task."
DONE: Final = "The task is done."
PRINT: Final = "Print it."
PRINTED: Final = "It is printed."
OTHER: Final = "Yes, and what else?"
LATENCY_S: Final = 0.01

Call = tuple[str, str, dict[str, Any]]
"""Id, tool, arguments."""
Item = tuple[str, ...]
"""One thing a conversation holds: who, and what."""


def answer_to(messages: Sequence[dict[str, Any]]) -> tuple[str, list[Call]]:
    """Return the text and the calls (id, tool, arguments) that come next, by what the conversation holds."""
    told = json.dumps(messages)
    asked = [text_of(message) for message in messages if message.get("role") == "user"]
    if any(PRINT in text for text in asked):
        return (PRINTED, []) if '"p1-' in told else ("I print.", [("p1", "noise", {})])
    if not any(TASK in text for text in asked):
        return (HI if len(asked) < 2 else OTHER), []
    if DONE in told:
        return OTHER, []
    if "effect-3" in told:
        return DONE, []
    if "effect-2" in told:
        return "I go on.", [("b1", "write", {"at": "effect-3"}), ("b2", "look", {"at": "look-4"})]
    return "I look first.", [("a1", "look", {"at": "look-1"}), ("a2", "write", {"at": "effect-2"})]


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a message, whichever of its two shapes it has."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if isinstance(part, dict))


def items_of(messages: Sequence[dict[str, Any]]) -> list[Item]:
    """Return what a request carries, without what its sender says of itself."""
    found: list[Item] = []
    for message in messages:
        role, text = str(message.get("role")), text_of(message)
        if role == "tool":
            found.append(("result", str(message.get("tool_call_id")), text))
        elif role in ("user", "assistant") and text:
            found.append((role, text))
        for call in message.get("tool_calls") or ():
            called = call["function"]
            found.append(("call", str(call["id"]), called["name"], json.dumps(json.loads(called["arguments"] or "{}"))))
    return found


def missing(earlier: Sequence[Item], later: Sequence[Item]) -> list[Item]:
    """Return what was there and is not there any more; a question may have become part of another."""
    asked = "\n".join(item[1] for item in later if item[0] == "user")
    kept = set(later)
    return [it for it in dict.fromkeys(earlier) if it not in kept and not (it[0] == "user" and it[1] in asked)]


def is_valid(messages: Sequence[dict[str, Any]]) -> bool:
    """Say whether every call has its result right after it and every result its call, as providers demand."""
    open_calls: set[str] = set()
    for message in messages:
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_calls:
                return False
            open_calls.remove(str(message.get("tool_call_id")))
            continue
        if open_calls:
            return False
        open_calls = {str(call["id"]) for call in message.get("tool_calls") or ()}
    return not open_calls


class Model:
    """The endpoint; `requests` holds the messages of every request since the last `clear`."""

    def __init__(self) -> None:
        self.requests: list[list[dict[str, Any]]] = []
        self.cut: str = ""
        """Where the next answers break off: `text`, `arguments`, `end`; empty for nowhere."""
        self.cuts_left = 0
        self.gate = threading.Event()
        """Answers wait until it is set."""
        self.gate.set()
        self._answers = 0
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                try:
                    model.answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                except (OSError, ValueError):
                    self.close_connection = True  # who asked was killed, perhaps in the middle of asking

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def clear(self) -> None:
        """Forget what was asked."""
        self.requests = []
        self.cut, self.cuts_left = "", 0

    def items(self, until: int | None = None) -> list[Item]:
        """Return what the requests carried, all of them or the first ones."""
        return [item for messages in self.requests[:until] for item in items_of(messages)]

    def last(self) -> list[Item]:
        """Return what the latest request carried: what its sender remembers."""
        return items_of(self.requests[-1])

    def answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        """Answer a request, or break off in the middle of it."""
        self.requests.append(body["messages"])
        time.sleep(LATENCY_S)
        self.gate.wait(30)
        text, calls = answer_to(body["messages"])
        # Numbered, so that an answer that was lost is not taken for the one that was asked for again.
        self._answers += 1
        text, calls = f"{text} ({self._answers})", [(f"{call}-{self._answers}", *rest) for call, *rest in calls]
        pieces = [*_streamed(text, calls)] if body.get("stream") else [_whole(text, calls)]
        is_due = self.cuts_left > 0 and (self.cut != "arguments" or bool(calls)) and (self.cut != "text" or not calls)
        if is_due:
            self.cuts_left -= 1
            pieces = _cut(pieces, self.cut, is_streamed=bool(body.get("stream")))
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream" if body.get("stream") else "application/json")
        if body.get("stream"):
            handler.send_header("Connection", "close")
        else:
            handler.send_header("Content-Length", str(len(_whole(text, calls))))
        handler.end_headers()
        for piece in pieces:
            handler.wfile.write(piece)
            handler.wfile.flush()
        handler.close_connection = is_due or bool(body.get("stream"))

    def close(self) -> None:
        """Stop answering."""
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()


_USAGE: Final = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _call(index: int, call: Call, arguments: str) -> dict[str, Any]:
    return {"index": index, "id": call[0], "type": "function", "function": {"name": call[1], "arguments": arguments}}


def _whole(text: str, calls: Sequence[Call]) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [_call(n, call, json.dumps(call[2])) for n, call in enumerate(calls)]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    told = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": _USAGE}
    return json.dumps(told).encode()


def _streamed(text: str, calls: Sequence[Call]) -> Iterator[bytes]:
    half = len(text) // 2
    yield _event({"role": "assistant", "content": text[:half]})
    yield _event({"content": text[half:]})
    for index, call in enumerate(calls):
        arguments = json.dumps(call[2])
        yield _event({"tool_calls": [_call(index, call, arguments[:8])]})
        yield _event({"tool_calls": [{"index": index, "function": {"arguments": arguments[8:]}}]})
    yield _event({}, "tool_calls" if calls else "stop")
    yield b"data: [DONE]\n\n"


def _event(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    told: dict[str, Any] = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    told["choices"] = [choice]
    if reason:
        told["usage"] = _USAGE
    return b"data: " + json.dumps(told).encode() + b"\n\n"


def _cut(pieces: list[bytes], where: str, *, is_streamed: bool) -> list[bytes]:
    if not is_streamed:
        return [pieces[0][: len(pieces[0]) // 2]]
    kept = {"text": 1, "arguments": len(pieces) - 3, "end": len(pieces) - 2}[where]
    return pieces[:kept]
