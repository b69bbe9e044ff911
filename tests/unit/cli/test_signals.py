"""A signal becomes one stop signal, and the process's own handlers come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.cli.signals import Signals
from plait.core.cancel import Cancel


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Put the handlers of this process back, whatever a test leaves."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    "number, reason, code",
    [(signal.SIGINT, "interrupted", 130), (signal.SIGTERM, "shutdown", 143), (signal.SIGHUP, "shutdown", 129)],
)
def test_a_signal_gives_the_stop_signal(number: signal.Signals, reason: str, code: int) -> None:
    """The reason tells a user's Ctrl-C from the rest; the exit code is 128 and the signal."""
    cancel = Cancel()

    with Signals(cancel) as signals:
        os.kill(os.getpid(), number)
        assert cancel.wait(5)
        assert (reason, code) == (cancel.reason, signals.exit_code)

    os.kill(os.getpid(), number)  # ignored from here on: the process is about to end


def test_a_second_signal_changes_nothing() -> None:
    """The first signal stays the reason, and the process lives on."""
    cancel = Cancel()

    with Signals(cancel) as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert cancel.wait(5)

    assert ("shutdown", 143) == (cancel.reason, signals.exit_code)


def test_no_signal_is_no_exit_code() -> None:
    """A run that nobody stops has none, and the handlers are back."""
    cancel = Cancel()
    before = signal.getsignal(signal.SIGTERM)

    with Signals(cancel) as signals:
        pass

    assert (None, None) == (cancel.reason, signals.exit_code)
    assert before is signal.getsignal(signal.SIGTERM)


def test_an_ignored_signal_stays_ignored_and_the_third_ends_the_process() -> None:
    """nohup is respected; who signals three times gets out at once."""
    code = (
        "import os, signal, time\n"
        "from plait.cli.signals import Signals\n"
        "from plait.core.cancel import Cancel\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with Signals(Cancel()) as signals:\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    print(signals.first, flush=True)\n"
        "    for _ in range(3):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(10)\n"
        "    print('never')\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False)

    assert (130, "None\n", "") == (ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_before_anything_begins_the_first_signal_ends_the_process(number: signal.Signals, tmp_path: Path) -> None:
    """A process that waits for a FIFO into which nobody writes ends at once, with the exit code of the signal."""
    os.mkfifo(tmp_path / "spec.json")
    code = (
        "import threading; from plait.cli.signals import Signals; from plait.core.cancel import Cancel\n"
        "with Signals(Cancel(), threading.Event()):\n"
        "    print('waits', flush=True); open('spec.json').read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"waits\n" == process.stdout.readline()
        process.send_signal(number)
        assert 128 + number == process.wait(20)
