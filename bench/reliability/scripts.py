"""What is done to each system. A script gives one line a case; nothing in it knows which system it is."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.reliability.model import DONE, HI, PRINT, Item, Model, is_valid, missing
from bench.reliability.trial import End, Subject, Trial

Line = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """What a script works with."""

    subject: Subject
    model: Model
    folder: Path
    journal: str
    seed: int
    cases: int
    other: Callable[[], Subject]
    """Begins a second process of the system."""

    def trial(self, name: object) -> Trial:
        """Return an empty case."""
        self.model.clear()
        return Trial(self.subject, self.model, self.folder / str(name))

    def finished(self) -> tuple[Trial, Path | None, list[Item]]:
        """Return a conversation that came to its end, the file that holds it, and what it remembers."""
        trial = self.trial("finished")
        trial.live()
        path = next(iter(sorted(trial.folder.glob(self.journal))), None)
        return trial, path, trial.copy(self.folder / "control").remembered()[1]

    def damaged(self, whole: Trial, path: Path, name: str, data: bytes) -> Trial:
        """Return a copy of a conversation whose file holds something else."""
        trial = whole.copy(self.folder / name)
        (trial.folder / path.relative_to(whole.folder)).write_bytes(data)
        return trial

    def dice(self, case: object) -> random.Random:
        """Return the dice of a case."""
        return random.Random(f"{self.seed} {case}")


def kills(bench: Bench) -> Iterator[Line]:
    """`kill -9` at up to three random times, each time gone on with; then to the end, and asked what it remembers."""
    whole_s = statistics.median(bench.trial(f"whole-{n}").live().seconds for n in range(5))
    for case in range(bench.cases):
        dice, trial = bench.dice(case), bench.trial(case)
        # An answer that was returned to its host, and whatever a request carried, has been acted on.
        returned, landed = list[str](), 0
        for _ in range(dice.randrange(1, 4)):
            end = trial.live(dice.uniform(0, whole_s))
            returned += end.replies
            landed += end.is_killed
            if not end.is_killed:
                break
        yield {"case": case, "kills": landed, **_came_to(trial, returned)}


def _came_to(trial: Trial, returned: list[str]) -> Line:
    """Go on to the end; tell what is lost and what happened twice."""
    last = trial.live()
    seen = len(trial.model.requests)
    asked, there = trial.remembered()
    acted_on: list[Item] = [*trial.model.items(seen), *(("assistant", reply) for reply in returned)]
    effects = trial.effects()
    return {
        "resumed": last.code == 0 and asked.code == 0 and any(DONE in item[-1] for item in there),
        "lost": len(missing(acted_on, there)) if there else len(set(acted_on)),
        "twice": sum(count > 1 for count in effects.values()),
        "effects": dict(sorted(effects.items())),
        "invalid_requests": sum(not is_valid(messages) for messages in trial.model.requests),
        "error": last.error or asked.error,
    }


def tails(bench: Bench) -> Iterator[Line]:
    """The machine stops in the middle of a turn's writes: the file ends after any byte of them; opened twice."""
    whole, path, before = bench.finished()
    if path is None:
        return
    data = path.read_bytes()
    longer = whole.copy(bench.folder / "longer")
    longer.remembered()
    later = (longer.folder / path.relative_to(whole.folder)).read_bytes()
    if not later.startswith(data) or len(later) == len(data):
        return  # it is not appended to: how it is changed is the business of the database
    sizes = range(len(data) + 1, len(later) + 1)
    # Where a line ends is where a line is whole and its newline is not there yet: always among the cases.
    chosen = {size for size in sizes if b"\n" in later[size - 1 : size + 1]}
    chosen |= {*bench.dice("tails").sample(sizes, min(bench.cases, len(sizes)))}
    for size in sorted(chosen):
        trial = bench.damaged(whole, path, f"tail-{size}", later[:size])
        first, there = trial.remembered()
        again, _ = trial.remembered()
        yield {
            "bytes": size - len(data),
            "opens": not first.code,
            "opens_again": not again.code,
            "lost": None if first.code else len(missing(before[:-1], there)),
            "error": first.error or again.error,
        }


def losses(bench: Bench) -> Iterator[Line]:
    """The file of a finished conversation, which was safe, has lost its last bytes."""
    whole, path, before = bench.finished()
    if path is None:
        return
    data = path.read_bytes()
    for case in range(bench.cases):
        kept = bench.dice(f"loss {case}").randrange(len(data))
        end, there = bench.damaged(whole, path, f"loss-{case}", data[:kept]).remembered()
        yield {"lost_bytes": len(data) - kept, "verdict": _verdict(end, there, before), "error": end.error}


def _verdict(end: End, there: list[Item], before: list[Item]) -> str:
    return "refused" if end.code else "the same" if there == before else "less or other, unnoticed"


def flips(bench: Bench) -> Iterator[Line]:
    """One bit of the file of a finished conversation is flipped, anywhere."""
    whole, path, before = bench.finished()
    if path is None:
        return
    for case in range(bench.cases):
        data = bytearray(path.read_bytes())
        bit = bench.dice(case).randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        end, there = bench.damaged(whole, path, f"flip-{case}", bytes(data)).remembered()
        yield {"bit": bit, "verdict": _verdict(end, there, before), "error": end.error}


def full_disk(bench: Bench) -> Iterator[Line]:
    """No file may grow beyond a limit (RLIMIT_FSIZE) while the turn runs; then there is room again."""
    _, path, _ = bench.finished()
    size = path.stat().st_size if path is not None else 4_096
    for case in range(bench.cases):
        trial = bench.trial(f"full-{case}")
        limited = trial.live(limit_bytes=bench.dice(case).randrange(64, size))
        line = _came_to(trial, [*limited.replies])
        yield {"case": case, "noticed": limited.error or "no error", **line}


def writers(bench: Bench) -> Iterator[Line]:
    """A second process opens the conversation and asks something, while the first waits for the model."""
    for case in range(min(bench.cases, 5)):
        trial = bench.trial(f"writers-{case}")
        trial.live(text="Remember the number 17.")
        bench.model.gate.clear()
        with bench.other() as other, ThreadPoolExecutor() as pool:
            first = pool.submit(trial.live, text="Say one.")
            while len(bench.model.requests) < 2 and not first.done():
                time.sleep(0.01)
            second = pool.submit(Trial(other, bench.model, trial.folder).live, text="Say two.")
            while len(bench.model.requests) < 3 and not second.done():
                time.sleep(0.01)
            bench.model.gate.set()
            ends = first.result(), second.result()
        asked, there = trial.remembered()
        texts = [item[1] for item in there if item[0] == "user"]
        yield {
            "case": case,
            "first": ends[0].error or "went ahead",
            "second": ends[1].error or "went ahead",
            "kept": [text for text in ("17", "Say one.", "Say two.") if any(text in each for each in texts)],
            "error": asked.error,
        }


NOISES: Final[Mapping[str, str]] = {
    "nul": "a\x00b",
    "control": "".join(map(chr, range(32))) + "\x7f",
    "lone surrogate": "a\ud800b",
    "latin": "".join(map(chr, range(128, 256))),
    "separators": "a\u2028b\x85c\x1ed",
    "a line of its own kind": '{"seq": 1, "type": "message"}\n',
}


def noises(bench: Bench) -> Iterator[Line]:
    """A tool prints what is hard to store; then the conversation is opened again: is all of it in there?"""
    for name, noise in NOISES.items():
        trial = bench.trial(f"noise-{name.replace(' ', '-')}")
        end = trial.live(text=PRINT, noise=noise)
        asked, there = trial.remembered()
        sent = [item for item in there if item[0] == "result"]
        kept = "same" if any(noise in item[2] for item in sent) else ("changed" if sent else "gone")
        yield {"noise": name, "turn": end.error or "ends", "again": asked.error or "opens", "output": kept}


def cuts(bench: Bench) -> Iterator[Line]:
    """The connection closes in the middle of an answer: in its text, in a call's arguments, before its end; n times."""
    for where in ("text", "arguments", "end"):
        for times in (1, 100):
            trial = bench.trial(f"cut-{where}-{times}")
            bench.model.cut, bench.model.cuts_left = where, times
            end = trial.live()
            bench.model.cut = ""
            bench.model.cuts_left = 0
            effects = trial.effects()
            whole = (f"{HI} (", f"{DONE} (")
            yield {
                "cut": f"{where}, {'once' if times == 1 else 'always'}: {end.error or 'ends'}",
                "partial_taken_as_whole": [reply for reply in end.replies if not reply.startswith(whole)],
                "effects": dict(sorted(effects.items())),
                "requests": len(bench.model.requests),
            }


SCRIPTS: Final[Mapping[str, Callable[[Bench], Iterator[Line]]]] = {
    "kills": kills,
    "tails": tails,
    "losses": losses,
    "flips": flips,
    "full-disk": full_disk,
    "writers": writers,
    "noises": noises,
    "cuts": cuts,
}
