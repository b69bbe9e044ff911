"""A command run to its end: bounded output, a time limit, and nothing of it alive when it was told to stop.

Floor: 2. Owns: starting and stopping one foreground command, from any thread; never: what may be run.
"""

from __future__ import annotations

import contextvars
import os
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.hands.command import Command, Finished, RunOptions
from plait.hands.refusals import refusal_from

if TYPE_CHECKING:
    from plait.hands.launcher import Launcher, Started
    from plait.hands.spool import Entry

_LOOK_UP_S: Final = 0.1


class Runs(Protocol):
    """One run of one command."""

    def run(self) -> Finished:
        """See it through, in whatever thread, and return what came of it."""
        ...


def run(command: Command, options: RunOptions, cancel: Cancel | None = None) -> Finished:
    """Run a command to its end and return what came of it; a failing command is a result, not an error.

    Its stdin is /dev/null unless it is given an input, its session and process group are its own. It has ended when
    its first process has: a background child that keeps the output open does not hold the call.
    Raises `Refusal` when it could not be started.
    Cancel: at the time limit, on `cancel` and on KeyboardInterrupt the whole tree is stopped (TERM, `grace_s`, KILL)
    before this returns or raises; a signal that was given before starts nothing.
    """
    if os.name != "posix":
        raise Refusal("UNSUPPORTED_PLATFORM", "commands run on Linux and macOS only", hint="use the file tools")
    check_argv(command)
    from plait.hands.running import Running  # its modules exist on POSIX only

    stop = cancel.child() if cancel is not None else Cancel()
    try:
        return _run(Running(options.fenced(command).argv, options, stop), stop)
    finally:
        stop.detach()


def run_supervised(
    command: Command, options: RunOptions, entry: Entry, launcher: Launcher, cancel: Cancel | None = None
) -> Finished:
    """Run a command as `run` does, under a supervisor that outlives this process and leaves the end in `entry`.

    The program is named by its absolute path.
    Durability: when this process dies, the command goes on to its own time limit, and `attach` has what came of it.
    Cancel: as `run`.
    """
    check_argv(command)
    from plait.hands.supervised import Supervised, order_of  # its modules exist on POSIX only

    stop = cancel.child() if cancel is not None else Cancel()
    try:
        order = order_of(options.fenced(command).argv, options, entry)

        def begin() -> Started:
            try:
                entry.make()
            except OSError as error:
                raise refusal_from(error, entry.folder, "run a command with") from error
            started = launcher.take()
            started.order(order)
            return started

        return _run(Supervised(entry, options, stop, begin), stop)
    finally:
        stop.detach()


def attach(entry: Entry, options: RunOptions, cancel: Cancel | None = None) -> Finished:
    """Wait for the end of a command that an earlier process started, and return what came of it.

    `options` are those it was started with. Its end is `lost` when nobody is left who could tell it.
    Cancel: as `run`.
    """
    from plait.hands.supervised import Supervised

    stop = cancel.child() if cancel is not None else Cancel()
    try:
        return _run(Supervised(entry, options, stop), stop)
    finally:
        stop.detach()


def _run(running: Runs, stop: Cancel) -> Finished:
    if threading.current_thread() is not threading.main_thread():
        return running.run()
    return _run_beside(running, stop)


def check_argv(command: Command) -> None:
    """Refuse arguments that no program can be given."""
    try:
        encoded = [os.fsencode(argument) for argument in command.argv]
    except UnicodeEncodeError:
        raise Refusal("INVALID_INPUT", "the command is not valid text", hint="use proper Unicode") from None
    if not encoded or not encoded[0]:
        raise Refusal("INVALID_INPUT", "the command is empty", hint="name a program")
    if any(b"\0" in argument for argument in encoded):
        raise Refusal("INVALID_INPUT", "the command has a NUL character", hint="leave it out")


def _run_beside(running: Runs, stop: Cancel) -> Finished:
    """Run in a thread of its own, because Ctrl-C may strike the main thread between any two steps.

    Here it strikes a wait: the tree is stopped, the thread ends, and only then is it raised.
    """
    box = _Box(running)
    thread = threading.Thread(
        target=contextvars.copy_context().run, args=(box.fill,), name="plait-command", daemon=True
    )
    try:
        thread.start()
        box.wait()
    except BaseException:
        stop.cancel("interrupted")
        box.outlast(thread)
        raise
    return box.take()


class _Box:
    """Carries what a run returned or raised from one thread to another.

    The waiting side may be interrupted at any bytecode, so it holds no lock and believes only a flag; `Thread.join`
    would take a thread for ended when an interrupt strikes it.
    """

    def __init__(self, running: Runs) -> None:
        self._running = running
        self._result: Finished | None = None
        self._error: BaseException | None = None
        self._bell: SimpleQueue[None] = SimpleQueue()
        self.is_filled = False

    def fill(self) -> None:
        """Run, in the thread that does nothing else."""
        try:
            self._result = self._running.run()
        except BaseException as error:  # boundary: raised again in the thread that asked
            self._error = error
        finally:
            self.is_filled = True
            self._bell.put(None)

    def wait(self) -> None:
        """Wait until it is filled, in short waits: not every interrupt wakes one that waits on."""
        while not self.is_filled:
            with suppress(Empty):
                self._bell.get(timeout=_LOOK_UP_S)

    def outlast(self, thread: threading.Thread) -> None:
        """Wait for a run that is being stopped; further interrupts ask for nothing new."""
        while thread.ident is not None and not self.is_filled:  # without an id it has not begun, and starts nothing now
            with suppress(KeyboardInterrupt):
                self.wait()

    def take(self) -> Finished:
        """Return or raise what came of it."""
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result
