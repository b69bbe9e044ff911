"""Inboxes: what is given to a thread reaches it whole, in order, over an event file or a pipe."""

from __future__ import annotations

import os
import threading

import pytest

from plait.store.inbox import Inbox


@pytest.mark.parametrize("has_files", [True, False])
def test_everything_given_is_taken_in_order(has_files: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty thousand things, given as fast as they are taken, are all there, and nobody waits for ever."""
    if not has_files:
        monkeypatch.delattr(os, "eventfd", raising=False)
    inbox: Inbox[int] = Inbox()
    taken: list[int] = []

    def take() -> None:
        while not taken or taken[-1] != 19_999:
            inbox.wait()
            taken.extend(inbox.take())

    taker = threading.Thread(target=take, daemon=True)
    taker.start()
    for number in range(20_000):
        inbox.put(number)
    taker.join(20)
    assert not taker.is_alive()
    assert list(range(20_000)) == taken
    inbox.close()


@pytest.mark.parametrize("has_files", [True, False])
def test_a_heap_that_nobody_takes_blocks_no_giver(has_files: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a thread is busy, giving it more takes no room in the file that it waits at."""
    if not has_files:
        monkeypatch.delattr(os, "eventfd", raising=False)
    inbox: Inbox[int] = Inbox()
    for number in range(100_000):
        inbox.put(number)
    inbox.wait()
    assert list(range(100_000)) == inbox.take()
    inbox.close()
