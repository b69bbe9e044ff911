"""Servers at an address, by both of the protocol's ways over HTTP, from the official package on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from plait.core.errors import MCPError
from plait.tools.mcp.config import servers_of
from plait.tools.mcp.face import MCPClient, mcp_tools


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server with two tools at `/mcp` and `/sse`."""
    import uvicorn
    from mcp.server import MCPServer
    from starlette.applications import Starlette

    server: Any = MCPServer("remote")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("no such thing")

    streamable, sse = server.streamable_http_app(), server.sse_app()
    app = Starlette(routes=[*streamable.routes, *sse.routes], lifespan=lambda _: streamable.router.lifespan_context(_))
    served: Any = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", ws="none", lifespan="on"))
    thread = threading.Thread(target=served.run, daemon=True)
    thread.start()
    while not served.started and thread.is_alive():
        pass
    port = served.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    served.should_exit = True
    served.force_exit = True
    thread.join(10)


@pytest.mark.parametrize("way", [{"url": "/mcp"}, {"url": "/sse", "type": "sse"}])
def test_a_server_at_an_address(address: str, way: dict[str, str]) -> None:
    """Its tools are called like those of a program; its failures are results."""
    with MCPClient({"name": "remote", **way, "url": address + way["url"]}) as client:
        assert "remote" == client.server_info["name"]
        answer: Any = client.call_tool("add", {"a": 1, "b": 2})
        assert "3" == answer["content"][0]["text"]
        failed: Any = client.call_tool("fail")
        assert failed["isError"]
    with mcp_tools([{"name": "remote", **way, "url": address + way["url"]}]) as tools:
        assert ["mcp__remote__add", "mcp__remote__fail"] == [tool.name for tool in tools]


def test_an_address_where_nobody_is_is_an_error() -> None:
    """The place is named without its query, which may hold a key."""
    (config,) = servers_of([{"name": "gone", "url": "http://127.0.0.1:9/mcp?key=secret", "timeout": 10}], {})
    with pytest.raises(MCPError, match=r"'gone' \(http://127.0.0.1:9/mcp\) cannot be used") as caught:
        MCPClient(config).connect()
    assert "secret" not in str(caught.value)


class Raw:
    """Answers every POST with one body, and dies when it is told to."""

    def __init__(self, answer: Callable[[dict[str, Any]], tuple[dict[str, str], bytes] | None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answered = answer(asked)
                if answered is None:
                    self.close_connection = True
                    return
                headers, body = answered
                self.send_response(200 if body else 202)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(body)

            def do_GET(self) -> None:
                self.send_error(405)

            def do_DELETE(self) -> None:
                self.send_error(405)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/mcp"

    def __enter__(self) -> Raw:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_what_an_address_answers_is_bounded_and_its_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body without end, a packed one and a connection that is cut cost their call at once, and no other."""
    monkeypatch.setattr("plait.tools.mcp.http.BODY_BYTES_MAX", 100_000)
    text = {"content": [{"type": "text", "text": "fine"}]}

    def answer(asked: dict[str, Any]) -> tuple[dict[str, str], bytes] | None:
        method, headers, result = asked["method"], {}, text
        if "id" not in asked:
            return {}, b""
        if method == "initialize":
            info = {"name": "raw", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        elif method == "tools/list":
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("fine", "cut")]}
        elif method != "tools/call":
            error = {"code": -32601, "message": "no"}
            return {}, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode()
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        match asked.get("params", {}).get("name"):
            case "huge":
                body = body.replace(b"fine", b"x" * 200_000)
            case "packed":
                headers, body = {"Content-Encoding": "gzip"}, gzip.compress(body)
            case "cut":
                return None
        return headers, body

    with Raw(answer) as server, MCPClient({"name": "raw", "url": server.url, "timeout": 20}) as client:
        began_s = time.monotonic()
        for name in ("huge", "packed"):
            with pytest.raises(MCPError):
                client.call_tool(name)
            answered: Any = client.call_tool("fine")
            assert "fine" == answered["content"][0]["text"]
        with mcp_tools([{"name": "raw", "url": server.url, "timeout": 20}]) as (fine, cut):
            assert "unknown" == asyncio.run(cut.fn()).status
            assert "fine" == asyncio.run(fine.fn()).content
        assert time.monotonic() - began_s < 10
