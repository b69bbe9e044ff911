"""Runs one measurement of one subject in a process of its own: `python -m bench.worker SUBJECT MODE URL OPTION=N…`.

Prints one JSON line. A subject is a module with `setup(base_url)`, `run(context, model)` and `stream(context, model)`;
`face` names another function than `run`. CPU is user and system time of this process, all threads counted.
"""

from __future__ import annotations

import asyncio
import cProfile
import importlib
import inspect
import json
import os
import pstats
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Self

Answer = str | int
_WARM_UP = "tools-3"


class Timer:
    """Measures CPU and wall time of its block, in seconds; under BENCH_PROFILE it also says where the time went."""

    def __enter__(self) -> Self:
        self._profile = cProfile.Profile(time.process_time) if "BENCH_PROFILE" in os.environ else None
        if self._profile is not None:
            self._profile.enable()
        self._cpu, self._wall = cpu_s(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_s = time.perf_counter() - self._wall
        self.cpu_s = cpu_s() - self._cpu
        if self._profile is not None:
            self._profile.disable()
            pstats.Stats(self._profile, stream=sys.stderr).strip_dirs().sort_stats("tottime").print_stats(40)


def cpu_s() -> float:
    """Return the CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def reset_peak_memory() -> None:
    """Forget the peak so far, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def peak_memory_mb() -> float:
    """Return the peak resident size since the last reset, or since the start."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM"))


async def resolved(value: Answer | Awaitable[Answer]) -> Answer:
    """Await what has to be awaited."""
    return await value if inspect.isawaitable(value) else value


def timed(
    function: Callable[[Any, str], Any], contexts: tuple[Any, Any], warm_up: str, model: str
) -> tuple[Timer, Answer]:
    """Run a function once to warm up and once on the clock, an async one in one event loop."""
    cold, warm = contexts
    if not inspect.iscoroutinefunction(function):
        function(cold, warm_up)
        with Timer() as timer:
            answer = function(warm, model)
        return timer, answer

    async def main() -> tuple[Timer, Answer]:
        await function(cold, warm_up)
        with Timer() as timer:
            answer = await function(warm, model)
        return timer, answer

    return asyncio.run(main())


def steps(subject: ModuleType, urls: tuple[str, str], face: str, count: int) -> dict[str, float]:
    """One conversation of `count` steps."""
    contexts = (subject.setup(urls[0]), subject.setup(urls[1]))
    timer, answer = timed(getattr(subject, face), contexts, _WARM_UP, f"tools-{count}")
    expect(answer == "done", f"the conversation ended with {answer!r}")
    return {"cpu_ms": timer.cpu_s * 1e3 / count, "wall_ms": timer.wall_s * 1e3 / count}


def deltas(subject: ModuleType, urls: tuple[str, str], face: str, count: int) -> dict[str, float]:
    """One answer streamed in `count` deltas."""
    contexts = (subject.setup(urls[0]), subject.setup(urls[1]))
    timer, seen = timed(getattr(subject, face), contexts, "text-50", f"text-{count}")
    expect(seen == count, f"{seen} of {count} deltas were seen")
    return {"cpu_us": timer.cpu_s * 1e6 / count, "wall_us": timer.wall_s * 1e6 / count}


def conversations(subject: ModuleType, urls: tuple[str, str], face: str, count: int) -> dict[str, float]:
    """So many conversations of ten steps at once, in one event loop."""
    function = getattr(subject, face)

    async def main() -> tuple[Timer, list[Answer]]:
        await function(subject.setup(urls[0]), _WARM_UP)
        context = subject.setup(urls[1])
        with Timer() as timer:
            answers = await asyncio.gather(*(function(context, "tools-10") for _ in range(count)))
        return timer, answers

    timer, answers = asyncio.run(main())
    expect(set(answers) == {"done"}, f"conversations ended with {set(answers)!r}")
    return {"cpu_ms": timer.cpu_s * 1e3 / count / 10, "wall_ms": timer.wall_s * 1e3 / count / 10}


def expect(holds: bool, otherwise: str) -> None:
    """Stop a measurement that measured something else.

    Raises:
        RuntimeError: it did.
    """
    if not holds:
        raise RuntimeError(otherwise)


MODES = {"steps": steps, "deltas": deltas, "conversations": conversations}


def main() -> None:
    """Measure what the command line says."""
    name, mode, url, face, count = sys.argv[1:]
    subject = importlib.import_module(name)
    reset_peak_memory()
    urls = (f"{url}/r/warm-{os.getpid()}/v1", f"{url}/r/{os.getpid()}/v1")
    measured = MODES[mode](subject, urls, face, int(count))
    print(json.dumps({**measured, "peak_mb": peak_memory_mb()}), flush=True)
    # Threads and loops of a subject may take their time to end; that is not what is measured here.
    os._exit(0)


if __name__ == "__main__":
    main()
