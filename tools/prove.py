"""Run the campaigns and print one table: campaign, cases, seeds, seconds, failures.

A campaign is a test module with tests that are marked `prove` or use the `campaign` fixture; it is called by its file
and by the code that its docstring begins with (C1, C2, …). The laws (hypothesis) are one more, and so are the rows of
the security table, whose second table adds up what every report says of each row. Each runs in a process of its own,
within its share of the time. What passed is kept in `.prove/` and not run again for the same code, part
and seed: a run that was stopped goes on where it was.

Usage: `python tools/prove.py [--part 1/4] [--seconds 600] [--seed N] [--quick] [--fresh]`; exit code 1 for a failure.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.prove_rows import Tally, nodes, table, tallies  # noqa: E402 - where it is is known only now

KEPT: Final = ROOT / ".prove"
QUICK_S: Final = 240
JOBS: Final = 2
"""So many campaigns run at a time."""
LAWS: Final = "laws (hypothesis)"
ROWS: Final = "security rows"
_MARKED: Final = "(prove or campaign) and not real_model and not real_mcp"
_HYPOTHESIS: Final = "hypothesis and not prove and not campaign and not real_model and not real_mcp"
_FIXED: Final = "not prove and not campaign and not real_model and not real_mcp"
_ALL: Final = "not real_model and not real_mcp"
_CODES: Final = re.compile(r"C\d+(?: and C\d+)*")
_IS_CAMPAIGN: Final = re.compile(r"\bcampaign: Campaign\b|\bmark\.prove\b")
_IS_SIZED: Final = re.compile(r"\bcampaign: Campaign\b")
_FOR_CASES: Final = 0.7
"""Of the time of a campaign; the rest is for what is around the cases."""
_FOREVER_S: Final = 24 * 3_600.0
_GRACE_S: Final = 10
_PATIENCE: Final = 3
"""So many times its share a campaign may take before it is ended: a busy machine takes long to begin one."""
_ROW: Final = "{:<44}{:>10}{:>14}{:>10}{:>10}  {}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a campaign."""

    name: str
    cases: int
    seconds: float
    failures: int
    note: str = ""
    """`cut` where the time was over first, `not reached` where it never began."""
    rows: dict[str, Tally] = field(default_factory=dict)
    """What it says of the rows of the security table."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is left to run and print the table."""
    options = _options(arguments)
    seconds = options.seconds or (QUICK_S if options.quick else None)
    kept = KEPT / f"{_code()}-{options.part.replace('/', 'of')}-{options.seed}-{'quick' if options.quick else 'full'}"
    if options.fresh and kept.exists():
        kept.unlink()
    done = {} if not kept.exists() else {name: Outcome(**told) for name, told in json.loads(kept.read_text()).items()}
    everything = [*campaigns(is_sized=options.quick)]
    mine = [each for number, each in enumerate(everything) if _is_mine(each[0], number, options.part)]
    ends_s = time.monotonic() + seconds if seconds else None
    print(f"seed {options.seed}, part {options.part}; again: --seed {options.seed} --part {options.part} --fresh")
    print(_ROW.format("campaign", "cases", "seeds", "seconds", "failures", ""))
    # Whoever ends this, by whatever signal, ends what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcomes = []
    runner = Runner(options, ends_s, len(mine))
    with ThreadPoolExecutor(JOBS) as pool:
        running = [
            pool.submit(runner.run, number, name, module) if name not in done else None
            for number, (name, module) in enumerate(mine)
        ]
        try:
            for (name, _), ran in zip(mine, running, strict=True):
                outcome = ran.result() if ran else done[name]
                outcomes.append(outcome)
                print(_row(outcome, options.seed), flush=True)
                if not outcome.failures and not outcome.note:
                    done[name] = outcome
                    KEPT.mkdir(exist_ok=True)
                    kept.write_text(json.dumps({each: asdict(told) for each, told in done.items()}))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            runner.stop()
            raise
    failures = sum(outcome.failures for outcome in outcomes)
    total_s = sum(outcome.seconds for outcome in outcomes)
    print(_ROW.format("all", sum(o.cases for o in outcomes), options.seed, f"{total_s:.1f}", failures, ""))
    print("", *table(outcome.rows for outcome in outcomes), sep="\n")
    return 1 if failures else 0


def _row(outcome: Outcome, seed: int) -> str:
    numbers = (outcome.cases, seed, f"{outcome.seconds:.1f}", outcome.failures)
    return _ROW.format(outcome.name, *numbers, outcome.note)


def campaigns(*, is_sized: bool = False) -> Iterator[tuple[str, str]]:
    """Give the campaigns as (name, module), those with a code first, and the laws; or those that come in any size.

    They are found in the text of the modules: pytest would take longer to find them than some take to run.
    """
    found = []
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        text = path.read_text(encoding="utf-8")
        if (_IS_SIZED if is_sized else _IS_CAMPAIGN).search(text):
            codes = _CODES.match(ast.get_docstring(ast.parse(text)) or "")
            name = path.stem.removeprefix("test_").replace("_", " ")
            where = path.parent.relative_to(ROOT / "tests")
            found.append((f"{codes[0]} {name}" if codes else f"{where}: {name}", str(path.relative_to(ROOT))))
    # What comes in one size only goes first: the others take what time is left.
    yield ROWS, "tests/security"
    yield from sorted(found, key=lambda each: (not _CODES.match(each[0]), each))
    yield LAWS, "tests"


def _is_mine(name: str, number: int, part: str) -> bool:
    """Campaigns with a code share their cases among the parts; of the others each part has some whole."""
    mine, _, parts = part.partition("/")
    return bool(_CODES.match(name)) or number % int(parts) == int(mine) - 1


class Runner:
    """Runs campaigns, several at a time, within the time that there is."""

    def __init__(self, options: argparse.Namespace, ends_s: float | None, count: int) -> None:
        self._options = options
        self._ends_s = ends_s
        self._count = count
        self._processes: set[subprocess.Popen[str]] = set()

    def run(self, number: int, name: str, module: str) -> Outcome:
        """Run a campaign; the ones after its number have to have their share of the time as well."""
        share_s = limit_s = _FOREVER_S
        if self._ends_s is not None:
            left_s = self._ends_s - time.monotonic()
            share_s = min(left_s, JOBS * left_s / (self._count - number))
            # It keeps to its share by itself; it is ended well after that, and never after the whole time.
            limit_s = left_s if name == ROWS else min(_PATIENCE * share_s, left_s)
        if share_s < 1:
            return Outcome(name, 0, 0.0, 0, "not reached")
        KEPT.mkdir(exist_ok=True)
        report = KEPT / f"report-{os.getpid()}-{number}.xml"
        environ = {**os.environ, "PROVE_PART": self._options.part, "PROVE_SEED": str(self._options.seed)}
        if self._ends_s is not None:
            environ["PROVE_SECONDS"] = str(share_s * _FOR_CASES)
        began_s = time.monotonic()
        code, output = self._limited(_command(name, module, report, is_quick=self._options.quick), environ, limit_s)
        seconds = time.monotonic() - began_s
        if code is None and not report.exists():
            return Outcome(name, 0, seconds, 0, "cut")
        # One that was ended has told what it did until then.
        cases, failures, is_cut = _read(report)
        rows = tallies(report) if name != LAWS else {}  # they run beside what the rows have run already
        report.unlink(missing_ok=True)
        if code is None:
            return Outcome(name, cases, seconds, failures, "cut", rows)
        if code not in (0, 5):
            print(output[-6_000:])
            failures = max(1, failures)
        return Outcome(name, cases, seconds, failures, "cut" if is_cut else "", rows)

    def stop(self) -> None:
        """End what runs, children and all."""
        for process in [*self._processes]:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _limited(self, command: Sequence[str], environ: dict[str, str], limit_s: float) -> tuple[int | None, str]:
        """Run a command in a session of its own; None where its time was over and it was ended, children and all."""
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._processes.add(process)
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.communicate(timeout=_GRACE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            return None, ""
        finally:
            self._processes.discard(process)
        return process.returncode, output


def _command(name: str, module: str, report: Path, *, is_quick: bool) -> list[str]:
    # Of a module with a code everything belongs to the campaign, also what takes no size.
    marked = {LAWS: _HYPOTHESIS, ROWS: _FIXED}.get(name, _ALL if _CODES.match(name) else _MARKED)
    what = nodes() if name == ROWS else [module]
    command = [sys.executable, "-m", "pytest", *what, "-m", marked, "-q", "-p", "no:cacheprovider"]
    command += ["-o", "faulthandler_timeout=0", "-o", "junit_family=xunit1", f"--junitxml={report}"]
    return command if is_quick else [*command, "--hypothesis-profile=prove"]


def _read(report: Path) -> tuple[int, int, bool]:
    """Cases, failures, and whether a campaign ran out of time."""
    cases = failures = 0
    is_cut = False
    for case in ElementTree.parse(report).iter("testcase"):
        told = {each.get("name"): each.get("value") for each in case.iter("property")}
        cases += int(told.get("cases") or 1)
        is_cut |= told.get("cut") == "True"
        failures += any(case.find(kind) is not None for kind in ("failure", "error"))
    return cases, failures, is_cut


def _code() -> str:
    """A number for the code as it stands, so that what was proved of other code is not believed."""
    digest = hashlib.sha256()
    for folder in ("src", "tests", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="prove", description=__doc__)
    parser.add_argument("--part", default="1/1", metavar="N/OF")
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed unless given")
    parser.add_argument("--quick", action="store_true", help=f"what comes in any size, within {QUICK_S} seconds")
    parser.add_argument("--fresh", action="store_true", help="run again what has passed")
    options = parser.parse_args(arguments)
    mine, slash, parts = options.part.partition("/")
    if not slash or not mine.isdecimal() or not parts.isdecimal() or not 1 <= int(mine) <= int(parts):
        parser.error(f"{options.part!r} is no part: write it as 1/4")
    if options.seed is None:
        # A run that is gone on with has to be the same run; a fresh one draws anew.
        options.seed = random.SystemRandom().randrange(1, 10**6) if options.fresh else 1
    return options


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on where this was")
