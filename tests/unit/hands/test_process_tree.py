"""Process trees: who belongs, and that nobody else is ever signalled."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from plait.hands.process_tree import MARK, Tree, mark_of, stop_marked

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="members are found through /proc")


def test_a_mark_is_found_in_any_session() -> None:
    """A process that has left session, group and parent is known by its mark, and only by a whole one."""
    mark = f"mark-{os.getpid()}"
    parent = subprocess.Popen(
        ["sh", "-c", "(setsid sleep 30 &) ; sleep 0.1"], env={**os.environ, MARK: mark_of({MARK: "outer"}, mark)}
    )
    parent.wait()
    try:
        assert [] == Tree(0, mark[:-1]).members()
        assert 1 == len(Tree(0, mark).members())
        assert Tree(0, mark).members() == Tree(0, "outer").members()
    finally:
        assert stop_marked(mark, 1.0)


def test_this_process_is_never_a_member() -> None:
    """A tree that would hold this very process leaves it out."""
    assert os.getpid() not in {process.pid for process in Tree(os.getsid(0), "").members()}


def test_a_name_with_blanks_and_brackets_is_read_right() -> None:
    """The status line of a process with an odd name is taken apart from its end."""
    script = "import ctypes, time; ctypes.CDLL(None).prctl(15, b') R 1 (', 0, 0, 0); print(flush=True); time.sleep(30)"
    process = subprocess.Popen([sys.executable, "-S", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    found = Tree(process.pid, "").members()
    Tree(process.pid, "").kill()
    process.communicate()
    assert [(process.pid, os.getpid(), process.pid)] == [(one.pid, one.parent, one.session) for one in found]


def test_a_zombie_is_dead() -> None:
    """What has ended but was not fetched does not count as living."""
    process = subprocess.Popen(["true"], start_new_session=True)
    deadline = time.monotonic() + 5
    while Tree(process.pid, "").members() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert Tree(process.pid, "").wait_until_dead(0)
    process.wait()
