"""A server as a process of ours: spoken to over its standard input and output, and gone when it is closed.

Floor: 3. Owns: starting it, its pipes, its end and that of all it started; never: the messages (`sieve`).

The `mcp` package has a transport of this kind too. It keeps a line of any length in memory, waits for the end of a
message that was begun by a log line until the call times out, has no limit for what goes to standard error, and ends
the process group only: a server's helper in a session of its own would stay. Hence this one, over the same process
code as the shell's.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self

from plait.core.ids import new_id
from plait.hands.command import Command
from plait.hands.fence.environment import without_loaders
from plait.hands.process_tree import MARK, Tree, mark_of
from plait.tools.mcp.config import ServerConfig
from plait.tools.mcp.lines import Lines, TooLong
from plait.tools.mcp.log import ServerLog
from plait.tools.mcp.probe import Probe
from plait.tools.mcp.sieve import Incoming, Sieve

INHERITED: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("SYSTEMROOT", "SYSTEMDRIVE", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "TEMP", "PATHEXT"),
)
"""What every program needs of the environment; anything else a server gets by name, from its declaration."""
GRACE_S: Final = 2.0
"""How long a server has to end by itself after its input has ended, and again after it was told to."""
_READ_BYTES: Final = 1 << 16
_POLL_S: Final = 0.02
_LAST_WORDS_S: Final = 0.2
_POSIX: Final = os.name == "posix"


def environment_of(config: ServerConfig, environ: Mapping[str, str], mark: str) -> dict[str, str]:
    """Return what a server may see."""
    base = {name: environ[name] for name in INHERITED if name in environ}
    own = config.env
    if config.fence is not None:
        base, own = config.fence.environment(base), without_loaders(own)
    return {**base, **own, MARK: mark_of(environ, mark)}


def argv_of(config: ServerConfig) -> tuple[str, ...]:
    """Return what is started for a server."""
    argv = (config.command, *config.args)
    return argv if config.fence is None else config.fence.wrap(Command(argv)).argv


@asynccontextmanager
async def stdio_transport(
    config: ServerConfig, log: ServerLog, sieve: Sieve, probe: Probe, on_end: Callable[[], None]
) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Start a server and yield its streams; leaving the block ends it and everything that it started.

    Raises `OSError` or `ValueError` when it cannot be started. Cancel: the process is ended all the same.
    """
    mark = new_id("m")
    process = await asyncio.create_subprocess_exec(
        *argv_of(config),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=config.cwd,
        env=environment_of(config, os.environ, mark),
        start_new_session=True,
        limit=_READ_BYTES,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(_to_log(process.stderr, log))
    outgoing = Outgoing(process.stdin, probe)
    try:
        yield Incoming(_messages(process.stdout, sieve, probe), on_end), outgoing
    finally:
        ending = asyncio.ensure_future(_end(process, errors, mark))
        await _outlasting(ending)


async def _outlasting(work: asyncio.Future[None]) -> None:
    """Wait for some work to its end; a cancellation meanwhile is raised after it."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _messages(stdout: asyncio.StreamReader, sieve: Sieve, probe: Probe) -> AsyncIterator[Any]:
    from mcp.shared.message import SessionMessage

    lines = Lines()
    reading = asyncio.ensure_future(_read(stdout))
    while (data := await probe.outlast(reading)) != b"":
        if data is None:
            yield SessionMessage(probe.answer())
            continue
        for line in lines.feed(data):
            for message in sieve.messages(line):
                probe.came()
                yield SessionMessage(message)
        reading = asyncio.ensure_future(_read(stdout))
    last: bytes | TooLong
    for last in lines.close():
        for message in sieve.messages(last):
            yield SessionMessage(message)


async def _read(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.read(_READ_BYTES)
    except OSError:
        return b""


async def _to_log(stderr: asyncio.StreamReader, log: ServerLog) -> None:
    lines = Lines(bytes_max=1 << 13)
    while data := await _read(stderr):
        for line in lines.feed(data):
            log.add(b"(a long line)" if isinstance(line, TooLong) else line)
    for line in lines.close():
        log.add(b"(a long line)" if isinstance(line, TooLong) else line)


class Outgoing:
    """The write stream that the client is given: one line a message."""

    def __init__(self, stdin: asyncio.StreamWriter, probe: Probe) -> None:
        self._stdin = stdin
        self._probe = probe
        self._turn = asyncio.Lock()

    async def send(self, item: Any) -> None:
        """Write a message; raise `anyio.BrokenResourceError` when nobody reads it."""
        self._probe.sent(item.message)
        text: str = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            async with self._turn:
                self._stdin.write(text.encode("utf-8", "replace") + b"\n")
                await self._stdin.drain()
        except (OSError, RuntimeError) as error:
            import anyio

            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Nothing: the input ends when the process is to end."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _end(process: asyncio.subprocess.Process, errors: asyncio.Task[None], mark: str) -> None:
    """End a server: its input first, then TERM, then KILL; then whatever it has left behind."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    # It may be waiting to write what nobody wants any more.
    draining = asyncio.create_task(_drain(process.stdout))
    tree = Tree(process.pid, mark)
    if not await _ended(process, GRACE_S):
        if _POSIX:
            await _beside(tree.terminate)
        else:
            process.terminate()
        await _ended(process, GRACE_S)
    if _POSIX:
        await _beside(_clear, tree, process.returncode is None)
    elif process.returncode is None:
        process.kill()
    await _ended(process, GRACE_S)
    # Its last words say why it ended.
    await asyncio.wait({errors}, timeout=_LAST_WORDS_S)
    errors.cancel()
    draining.cancel()
    await asyncio.gather(errors, draining, return_exceptions=True)
    transport = getattr(process, "_transport", None)
    if transport is not None:
        # A survivor of another user may hold the pipes; they are ours to close.
        with suppress(OSError):
            transport.close()


async def _beside(work: Callable[..., object], *arguments: object) -> None:
    """Do some work in a thread; here, where the interpreter is ending and starts none any more."""
    try:
        await asyncio.to_thread(work, *arguments)
    except RuntimeError:
        work(*arguments)


def _clear(tree: Tree, is_alive: bool) -> None:
    """Kill what is left of a tree. The id of a leader that was fetched may be somebody else's: its mark is not."""
    if not is_alive:
        tree = Tree(0, tree.mark)
    if is_alive:
        with suppress(OSError):
            os.killpg(tree.leader, signal.SIGKILL)
    tree.kill()


async def _ended(process: asyncio.subprocess.Process, timeout_s: float) -> bool:
    """Wait for a process by its status: a child that holds its output open does not count."""
    ends_s = asyncio.get_running_loop().time() + timeout_s
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= ends_s:
            return False
        await asyncio.sleep(_POLL_S)
    return True


async def _drain(stdout: asyncio.StreamReader) -> None:
    with suppress(RuntimeError):  # the client's own reading has not been given up yet
        while await _read(stdout):
            pass
