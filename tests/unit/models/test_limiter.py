"""Our own limit of requests a minute: never more than that, and no waiting for requests that never left."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest

from plait.core.cancel import Cancel
from plait.kernel.effects import Interrupted
from plait.kernel.ports import Setup
from plait.models.chat_model import ChatModel, chat_model
from plait.models.limiter import WINDOW_S, RateLimiter
from plait.testing import ScriptServer
from tests.unit.models.talking import TALKS, ask_of, text_of


class Clock:
    """Seconds that move when a test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_the_first_ones_leave_at_once_and_the_next_when_there_is_room() -> None:
    """Places are given out in order, each a minute after the one that it has to wait for."""
    clock = Clock()
    limiter = RateLimiter(2, monotonic_s=clock)
    assert [0, 0, 60, 60, 120] == [limiter.take() for _ in range(5)]
    clock.now_s = 90
    assert 30 == limiter.take()
    clock.now_s = 1_000
    assert 0 == limiter.take()


def test_a_place_that_is_given_back_is_free() -> None:
    """Who does not wait to the end keeps nobody else waiting, and what was given back twice is free once."""
    limiter = RateLimiter(1, monotonic_s=Clock())
    limiter.take()
    place = limiter.take_place()
    assert 60 == place.wait_s
    limiter.give_back(place)
    limiter.give_back(place)
    assert [60, 120] == [limiter.take(), limiter.take()]


def test_never_more_than_the_limit_in_any_minute() -> None:
    """Whatever the times at which places are taken and given back, no minute has more requests than it may."""
    for seed in range(200):
        dice, clock = random.Random(seed), Clock()
        limit = dice.randint(1, 5)
        limiter = RateLimiter(limit, monotonic_s=clock)
        leaving: list[float] = []
        for _ in range(60):
            clock.now_s += dice.choice([0, 0, 1, 30, 61])
            place = limiter.take_place()
            if place.wait_s and dice.random() < 0.3:
                limiter.give_back(place)
            else:
                leaving.append(place.at_s)
        for at_s in leaving:
            assert limit >= len([other for other in leaving if at_s <= other < at_s + WINDOW_S])


def test_threads_share_a_limit() -> None:
    """Of many that come at once, as many as may leave at once."""
    limiter = RateLimiter(10, monotonic_s=Clock())
    waits: list[float] = []
    threads = [threading.Thread(target=lambda: waits.append(limiter.take())) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [0.0] * 10 + [60.0] * 10 + [120.0] * 10 + [180.0] * 10 == sorted(waits)


def test_a_limit_of_nothing_is_refused() -> None:
    """A limit that lets nothing through is a mistake."""
    with pytest.raises(ValueError, match="at least 1"):
        RateLimiter(0)


@pytest.mark.parametrize("colour", ["sync", "async", "task"])
def test_an_interrupted_wait_gives_its_place_back(colour: str) -> None:
    """A conversation that was stopped while it waited for the limit does not make the next one wait longer."""
    with ScriptServer(["one"]) as server:
        model = chat_model("any", server.url, max_rpm=1)
        assert "one" == text_of(TALKS["sync"](model, 1)[0])
        limiter = model._backend.limiter
        assert limiter is not None
        if colour == "task":
            asyncio.run(cancelled(model))
        else:
            cancel = Cancel()
            timer = threading.Timer(0.05, cancel.cancel, ["enough"])
            timer.start()
            with pytest.raises(Interrupted):
                TALKS[colour](model, 1, cancel=cancel)
            timer.join()
        assert 50 < limiter.take() <= 60


async def cancelled(model: ChatModel) -> None:
    """Cancel a task that waits for the limit."""
    channel = model.aopen(Setup())
    task = asyncio.create_task(channel.think(ask_of([]), None, Cancel()))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
