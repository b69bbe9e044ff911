"""A fake model server that costs next to nothing: `python -m bench.fake_server`.

The model's name is the script, so nothing but the request decides the answer:

    tools-N          N steps with one call of the first tool each, then the text "done"
    parallel-KxN     N steps with K calls each, then "done"
    text-N           N deltas of text
    anything else    "done"

A path may begin with /r/RUN: each run has its own prompt cache and counters, which GET /r/RUN/stats tells.
`usage.prompt_tokens` is a quarter of the bytes up to the end of the messages, as sent; `cached_tokens` the longest
common prefix with any earlier request of the run, in blocks of 128 tokens.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import signal
import socket
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Final

BLOCK_BYTES: Final = 512
BLOCK_TOKENS: Final = 128
_MODEL: Final = re.compile(rb'"model"\s*:\s*"([^"]*)"')
_STREAM: Final = re.compile(rb'"stream"\s*:\s*true')
_MESSAGES: Final = re.compile(rb'"messages"\s*:\s*\[')
_BETWEEN: Final = frozenset(", \t\r\n")
_TOOL: Final = re.compile(rb'"function"\s*:\s*\{[^{}]*?"name"\s*:\s*"(\w+)"')
_SCRIPT: Final = re.compile(r"(?:tools-(\d+)|parallel-(\d+)x(\d+)|text-(\d+))$")
_BATCH_EVENTS: Final = 128
"""Events in one write of a long stream: the server must not be what is measured."""


class Prompts:
    """Counts prompts against all earlier ones; a prompt that extends a recent one costs only what is new in it."""

    def __init__(self) -> None:
        self.blocks: set[int] = set()
        self.recent: deque[tuple[bytes, int, int]] = deque(maxlen=8)

    def count(self, prompt: bytes) -> int:
        """Return the cached tokens of a prompt and remember it."""
        first, chain = 0, 0
        for known, blocks, known_chain in self.recent:
            if blocks > first and prompt.startswith(known):
                first, chain = blocks, known_chain
        cached = first
        for block in range(first, len(prompt) // BLOCK_BYTES):
            chain = hash((chain, prompt[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]))
            if cached == block and chain in self.blocks:
                cached += 1
            self.blocks.add(chain)
        whole = len(prompt) // BLOCK_BYTES
        self.recent.append((prompt[: whole * BLOCK_BYTES], whole, chain))
        return cached * BLOCK_TOKENS


class Messages:
    """Finds the end of the messages in a body; one that extends a recent body is read from where that one ended."""

    def __init__(self) -> None:
        self.scan = json.JSONDecoder().raw_decode
        self.recent: deque[tuple[bytes, int]] = deque(maxlen=8)

    def end(self, body: bytes) -> int:
        """Return the place of the bracket that closes the messages."""
        found = _MESSAGES.search(body)
        if found is None:
            raise ValueError("the request has no messages")
        at = max((len(known) for known, _ in self.recent if body.startswith(known)), default=found.end())
        # JSON's own characters are ASCII, so one byte a character keeps every place where it is.
        text = body[at:].decode("latin-1")
        place = 0
        while text[place] != "]":
            place = place + 1 if text[place] in _BETWEEN else self.scan(text, place)[1]
        self.recent.append((body[: at + place], at + place))
        return at + place


class Run:
    """What the server knows of one run."""

    def __init__(self) -> None:
        self.prompts = Prompts()
        self.messages = Messages()
        self.requests = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.ideal_tokens = 0
        self.last_bytes = 0
        self.connections: set[int] = set()

    def count(self, prompt: bytes, connection: int) -> tuple[int, int]:
        """Count one request; return its prompt and cached tokens."""
        prompt_tokens = -(-len(prompt) // 4)
        cached = self.prompts.count(prompt)
        self.requests += 1
        self.prompt_tokens += prompt_tokens
        self.cached_tokens += cached
        self.ideal_tokens += min(self.last_bytes, len(prompt)) // BLOCK_BYTES * BLOCK_TOKENS
        self.last_bytes = len(prompt)
        self.connections.add(connection)
        return prompt_tokens, cached

    def stats(self) -> dict[str, int]:
        """Return the counters; `ideal_tokens` is what an append-only history would have had cached."""
        return {
            "requests": self.requests,
            "connections": len(self.connections),
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "ideal_tokens": self.ideal_tokens,
        }


@cache
def script(model: str) -> tuple[int, int, int]:
    """Return (steps with calls, calls a step, deltas of text) for a model's name."""
    found = _SCRIPT.search(model)
    tools, parallel, steps, text = (int(number or 0) for number in found.groups()) if found else (0, 0, 0, 0)
    return (steps, parallel, 1) if parallel else (tools, 1, max(1, text))


def event(delta: str, finish: str = "null") -> bytes:
    """Return one event of a stream."""
    return _chunk(f'"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]')


def _chunk(rest: str) -> bytes:
    return f'data: {{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m",{rest}}}\n\n'.encode()


def function(index: int, call: str, name: str | None, arguments: str) -> str:
    """Return the delta of one call; a name opens it."""
    if name is None:
        return f'{{"tool_calls":[{{"index":{index},"function":{{"arguments":{json.dumps(arguments)}}}}}]}}'
    opening = f'"index":{index},"id":"{call}","type":"function","function":{{"name":"{name}","arguments":""}}'
    return f'{{"tool_calls":[{{{opening}}}]}}'


def call_events(step: int, calls: int, name: str) -> list[bytes]:
    """Return the events of a step that calls a tool `calls` times."""
    events = [event('{"role":"assistant","content":null}')]
    for index in range(calls):
        call = f"call_{step}_{index}"
        events.append(event(function(index, call, name, "")))
        events.append(event(function(index, call, None, json.dumps({"x": str(step * calls + index)}))))
    events.append(event("{}", '"tool_calls"'))
    return events


@cache
def text_events(deltas: int) -> list[bytes]:
    """Return the events of a text; one delta is the word "done"."""
    words = ["done"] if deltas == 1 else [f"w{i % 997} " for i in range(deltas)]
    events = [event('{"role":"assistant","content":""}')]
    events += [event(f'{{"content":"{word}"}}') for word in words]
    events.append(event("{}", '"stop"'))
    return events


def ending(prompt_tokens: int, cached: int, output: int) -> list[bytes]:
    """Return the usage event and the end of a stream."""
    usage = (
        f'{{"prompt_tokens":{prompt_tokens},"completion_tokens":{output},"total_tokens":{prompt_tokens + output},'
        f'"prompt_tokens_details":{{"cached_tokens":{cached}}}}}'
    )
    last = _chunk(f'"choices":[],"usage":{usage}')
    return [last, b"data: [DONE]\n\n"]


def document(events: Sequence[bytes], prompt_tokens: int, cached: int) -> bytes:
    """Return the same answer as one document."""
    content, calls, finish = "", [], "stop"
    for each in events:
        choice = json.loads(each[6:])["choices"][0]
        content += choice["delta"].get("content") or ""
        for call in choice["delta"].get("tool_calls", ()):
            if "id" in call:
                calls.append(call)
            else:
                calls[-1]["function"]["arguments"] += call["function"]["arguments"]
        finish = choice["finish_reason"] or finish
    message = {"role": "assistant", "content": content or None, **({"tool_calls": calls} if calls else {})}
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": len(events),
        "total_tokens": prompt_tokens + len(events),
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    return json.dumps(
        {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
    ).encode()


class Connection(asyncio.Protocol):
    """One connection; requests on it are answered one after the other."""

    runs: dict[str, Run] = {}  # noqa: RUF012 - one process, one server: the runs are the process
    opened = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = bytearray()
        self.writable = asyncio.Event()
        self.writable.set()
        self.streaming: asyncio.Task[None] | None = None
        Connection.opened += 1
        self.number = Connection.opened
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop what is under way."""
        if self.streaming is not None:
            self.streaming.cancel()

    def pause_writing(self) -> None:
        """Wait until the client has read."""
        self.writable.clear()

    def resume_writing(self) -> None:
        """Go on."""
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        """Collect, and answer whole requests."""
        self.buffer += data
        while self.streaming is None and self._one_request():
            pass

    def _one_request(self) -> bool:
        head_end = self.buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return False
        head = bytes(self.buffer[:head_end])
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        end = head_end + 4 + (int(length[1]) if length else 0)
        if len(self.buffer) < end:
            return False
        body = bytes(self.buffer[head_end + 4 : end])
        del self.buffer[:end]
        method, path, _ = head.split(b" ", 2)
        self._route(method, path.decode(), body)
        return True

    def _route(self, method: bytes, path: str, body: bytes) -> None:
        name = ""
        if path.startswith("/r/"):
            name, _, path = path[3:].partition("/")
        run = Connection.runs.setdefault(name, Run())
        if method == b"POST" and path.endswith("chat/completions"):
            self._complete(run, body)
        elif path.endswith("stats"):
            self._document(200, json.dumps(run.stats()).encode())
        elif path.endswith("models"):
            self._document(200, b'{"object":"list","data":[{"id":"tools-50","object":"model"}]}')
        else:
            self._document(404, b'{"error":{"message":"nothing is served here"}}')

    def _complete(self, run: Run, body: bytes) -> None:
        model = _MODEL.search(body)
        try:
            end = run.messages.end(body)
        except (ValueError, IndexError) as wrong:
            self._document(400, json.dumps({"error": {"message": str(wrong)}}).encode())
            return
        prompt_tokens, cached = run.count(body[:end], self.number)
        steps, calls, deltas = script(model[1].decode() if model else "")
        step = body.count(b'"role":"assistant"', 0, end) + body.count(b'"role": "assistant"', 0, end)
        tool = _TOOL.search(body)
        asks = step < steps and tool is not None
        events = call_events(step, calls, tool[1].decode()) if asks and tool else text_events(deltas)
        if _STREAM.search(body):
            self._stream([*events, *ending(prompt_tokens, cached, len(events))])
        else:
            self._document(200, document(events, prompt_tokens, cached))

    def _document(self, status: int, body: bytes) -> None:
        head = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        self.transport.write(head + body)

    def _stream(self, events: list[bytes]) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = [b"%x\r\n%b\r\n" % (len(each), each) for each in events]
        if len(chunks) <= _BATCH_EVENTS:
            self.transport.write(head + b"".join(chunks) + b"0\r\n\r\n")
            return
        batches = [b"".join(chunks[at : at + _BATCH_EVENTS]) for at in range(0, len(chunks), _BATCH_EVENTS)]
        self.streaming = asyncio.ensure_future(self._send([head, *batches, b"0\r\n\r\n"]))

    async def _send(self, batches: list[bytes]) -> None:
        for batch in batches:
            await self.writable.wait()
            self.transport.write(batch)
        self.streaming = None
        self.data_received(b"")


async def serve() -> None:
    """Serve on a free port; the URL is the only line of output."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> None:
    """Run until SIGTERM, on uvloop where it is installed."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    gc.freeze()
    gc.disable()  # the process is short-lived and its hot path makes no cycles
    try:
        import uvloop  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        asyncio.run(serve())
    else:
        uvloop.run(serve())


if __name__ == "__main__":
    main()
