"""Servers at an address, by both of the protocol's ways over HTTP, from the official package on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
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
