"""A real model server on loopback that plays a script: HTTP/1.1, keep-alive, real server-sent events.

Floor: testing. Owns: the server's thread, its connections and records; never: what answers look like.

    with ScriptServer([Call("read_file", {"path": "a.py"}), "All good."]) as server:
        run_my_agent(endpoint=server.url, model="any")
    assert [1, 2] == [request.number for request in server.requests]
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from plait.testing import usage_shapes
from plait.testing.answering import Answering, dialect_of, model_list
from plait.testing.connection import carry_out
from plait.testing.dialects import server_error
from plait.testing.errors import ScriptError
from plait.testing.faults import Refuse, Step
from plait.testing.http_in import HEAD_BYTES_MAX, BadHttp, HttpRequest, read_request
from plait.testing.listener import Listener
from plait.testing.metering import Meter
from plait.testing.player import Player, When
from plait.testing.request import Request
from plait.testing.response import Op, Send
from plait.testing.usage_shapes import UsageShape

Script: TypeAlias = Iterable[Step | When[Step]] | Callable[[Request], Step | None]
"""Steps in order with rules between them, or a function; None from the function: no step answers."""

_STOP_WAIT_S: Final = 5.0


class ScriptServer:
    """Serves one script until it is left; every request is kept in `requests`.

    Args:
        script: steps and rules, or a function of the request (called in the server's thread).
        usage: how token counts are reported: a name in `usage_shapes.SHAPES` or a function.
        meter: how tokens are counted, and what is refused for its size; `meter` has the log of both.
        models: the ids that `GET …/models` lists; any model may be asked for.
        repeat: begin the steps again when they are used up.
        allow_unused: do not complain about steps that nobody asked for.
        port: 0 takes any free port.

    Leaving the `with` block stops the server and then checks the script as `check` does; an exception that is
    already on its way is not replaced, the disagreement is added to it as a note.
    """

    def __init__(
        self,
        script: Script,
        *,
        usage: str | UsageShape = "openai",
        meter: Meter | None = None,
        models: Sequence[str] = ("scripted",),
        repeat: bool = False,
        allow_unused: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._player: Player[Request, Step] = Player(script, repeat=repeat, allow_unused=allow_unused)
        shape = usage_shapes.SHAPES[usage] if isinstance(usage, str) else usage
        self.meter = meter or Meter()
        self._answering = Answering(self._player, shape, self.meter)
        self._models = tuple(models)
        self._address = (host, port)
        self._listener: Listener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = threading.Condition()
        self._requests: list[Request] = []
        self._connections: set[asyncio.StreamWriter] = set()
        self._connection_count = 0

    @property
    def url(self) -> str:
        """The base URL, as an endpoint is configured: `http://127.0.0.1:PORT/v1`."""
        if self._listener is None:
            raise ScriptError("the server is not running", hint="use it in a `with` block, or call start() first")
        return f"http://{self._listener.host}:{self._listener.port}/v1"

    @property
    def requests(self) -> tuple[Request, ...]:
        """Every completion request so far, in the order in which they came."""
        with self._changed:
            return tuple(self._requests)

    @property
    def connections(self) -> int:
        """How many connections have been opened since the start."""
        return self._connection_count

    @property
    def open_connections(self) -> int:
        """How many connections are open now; 0 soon after a client has let go."""
        return len(self._connections)

    def wait_for_requests(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until so many requests have come.

        Raises:
            TimeoutError: they did not come in time.
        """
        self._wait(lambda: len(self._requests) >= count, f"{count} requests", timeout_s)

    def wait_for_idle(self, timeout_s: float = 10.0) -> None:
        """Wait until no connection is open: every client has let go.

        Raises:
            TimeoutError: a connection was still open.
        """
        self._wait(lambda: not self._connections, "the last connection to close", timeout_s)

    def start(self) -> Self:
        """Open the port and start serving; `stop` ends it.

        Raises:
            OSError: the port is taken.
        """
        self._listener = Listener(*self._address)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="plait-script-server", daemon=True)
        self._thread.start()
        self._call(self._open())
        return self

    def stop(self) -> None:
        """Close every connection and the port; a server that is not running is left alone."""
        if self._loop is None or self._thread is None or self._listener is None:
            return
        self._call(self._shut_down())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_WAIT_S)
        self._loop.close()
        self._listener.close()
        self._loop = self._thread = None

    def check(self) -> None:
        """Say where the script and the requests disagreed; works while serving and after.

        Raises:
            UnexpectedRequest: a request had no step. UnusedStep: a step had no request. ScriptError: the script
                itself raised.
        """
        self._player.check()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        try:
            self.check()
        except ScriptError as disagreement:
            if error is None:
                raise
            error.add_note(f"the script server says: {disagreement}")

    # Everything below runs in the server's thread.

    async def _open(self) -> None:
        refusal = self._upcoming_refusal()
        if refusal is None:
            await self._listen()
        else:
            self._listen_later(refusal)

    async def _listen(self, after_s: float = 0.0) -> None:
        await asyncio.sleep(after_s)
        assert self._listener is not None
        self._server = await asyncio.start_server(self._connected, sock=self._listener.listen(), limit=HEAD_BYTES_MAX)

    def _listen_later(self, refusal: Refuse) -> None:
        self._player.skip()
        self._run(self._listen(refusal.for_s))

    def _upcoming_refusal(self) -> Refuse | None:
        step = self._player.upcoming
        return step if isinstance(step, Refuse) else None

    def _close_port(self, keep: asyncio.StreamWriter | None = None) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._connections - {keep}:
            writer.transport.abort()

    async def _shut_down(self) -> None:
        self._close_port()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports' own goodbyes

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of our own: asyncio complains about one of its own that is cancelled, and we cancel when stopping.
        self._run(self._serve(reader, writer))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connection_count += 1
        number = self._connection_count
        self._connections.add(writer)
        try:
            while await self._serve_one(reader, writer, number):
                pass
        except BadHttp as wrong:
            writer.write(b"".join(op.data for op in server_error(400, str(wrong)).plan() if isinstance(op, Send)))
        except ConnectionError:
            pass  # the client went away inside a request
        except Exception as error:  # boundary: a broken script must fail its test, not vanish in this thread
            self._player.blame(error, len(self._requests))
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self._connections.discard(writer)
            self._tell()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> bool:
        incoming = await read_request(reader, writer)
        if incoming is None:
            return False
        plan = self._plan(incoming, connection)
        # The port must be closed before this client can know that it has its answer.
        refusal = self._upcoming_refusal()
        if refusal is not None:
            self._close_port(keep=writer)
        try:
            stays = await carry_out(plan, reader, writer)
        except ConnectionError:
            stays = False  # the client is gone; what it asked for stands in the records
        if refusal is not None:
            self._listen_later(refusal)
        return stays and incoming.keeps_alive and refusal is None

    def _plan(self, incoming: HttpRequest, connection: int) -> Iterable[Op]:
        if incoming.method == "GET" and incoming.path.endswith("/models"):
            return model_list(self._models).plan()
        if incoming.method != "POST" or dialect_of(incoming.path) is None:
            return server_error(404, f"nothing is served at {incoming.method} {incoming.path}").plan()
        return self._answering.plan(self._record(incoming, connection))

    def _record(self, incoming: HttpRequest, connection: int) -> Request:
        with self._changed:
            request = Request(
                len(self._requests) + 1,
                incoming.method,
                incoming.path,
                incoming.headers,
                incoming.body,
                connection,
                incoming.query,
            )
            self._requests.append(request)
            self._changed.notify_all()
        return request

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _wait(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, timeout_s):
                raise TimeoutError(f"waited {timeout_s} s for {what}")

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_STOP_WAIT_S)
