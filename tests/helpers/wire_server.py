"""A model server on loopback for any wire: it answers with given messages and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from plait.core.messages import Message
from plait.models.chat_model import ChatModel, chat_model
from plait.models.endpoint import endpoint_of
from plait.models.profiles import EndpointProfile
from plait.wire.profile import WireName, WireProfile
from tests.unit.wire.servers import streamed


@dataclass
class WireServer:
    """Answers request after request with these messages, as a stream of this wire's; a real socket on loopback."""

    wire: WireName
    answers: Iterable[Message]
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def model(self, **profile: Any) -> ChatModel:
        """Return a model at this server whose wire profile has these fields."""
        known = EndpointProfile("", needs_key=False, wire=WireProfile(wire=self.wire, **profile))
        return chat_model("any", endpoint_of(self.url).with_profile(known))

    @property
    def url(self) -> str:
        """Where the API begins."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def body(self, number: int = 0) -> dict[str, Any]:
        """Return a request's body."""
        parsed = json.loads(self.bodies[number])
        assert isinstance(parsed, dict)
        return parsed

    def __enter__(self) -> Self:
        answers = iter(list(self.answers))
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.paths.append(self.path)
                outer.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                data = streamed(next(answers), outer.wire, 7)
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
