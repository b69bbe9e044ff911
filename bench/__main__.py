"""`python -m bench`: plait beside a loop on a raw socket, as ratios, CPU first."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from bench import report
from bench.plan import MEASURES, Measure
from bench.running import Failed, Figure, figure_of, profile_of, serving

_QUICK_ROUNDS_MAX = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 when a measurement failed, or with `--gate` when a goal was missed."""
    options = _options(arguments)
    chosen = [measure for measure in MEASURES if _is_wanted(measure, options)]
    with serving() as url:
        return _profile(chosen, url) if options.profile else _compare(chosen, url, options)


def _compare(chosen: Sequence[Measure], url: str, options: argparse.Namespace) -> int:
    last = report.last_ratios()
    started_s = time.monotonic()
    figures: list[Figure] = []
    missed: list[str] = []
    failed: list[str] = []
    print("CPU (user and system) beside the floor measured in the same round; medians over the rounds.")
    print(report.head())
    for measure in chosen:
        rounds = min(measure.rounds, _QUICK_ROUNDS_MAX) if options.quick else measure.rounds
        try:
            figure = figure_of(measure, url, rounds)
        except Failed as why:
            failed.append(f"{measure.name}: {why}")
            print(report.row(measure, None, last), flush=True)
            continue
        figures.append(figure)
        print(report.row(measure, figure, last), flush=True)
        if not report.meets(measure, figure):
            missed.append(measure.name)
    print(f"\n{time.monotonic() - started_s:.0f} s; figures in {report.save(figures, keep=options.keep)}")
    for line in failed:
        print(f"not measured: {line}")
    if missed:
        print(f"goals missed: {', '.join(missed)}")
    return 1 if failed or (options.gate and missed) else 0


def _profile(chosen: Sequence[Measure], url: str) -> int:
    for measure in chosen:
        if measure.kind == "worker":
            print(f"{measure.name}\n{profile_of(measure, url)}")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no 800 steps, no 256 conversations")
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows whose name contains this")
    parser.add_argument("--keep", action="store_true", help="write the figures to bench/last.json, to be committed")
    parser.add_argument("--gate", action="store_true", help="exit with 1 when a goal is missed")
    parser.add_argument("--profile", action="store_true", help="show where plait's time goes instead of comparing")
    return parser.parse_args(arguments)


def _is_wanted(measure: Measure, options: argparse.Namespace) -> bool:
    return options.only in measure.name and (measure.quick or not options.quick)


if __name__ == "__main__":
    sys.exit(main())
