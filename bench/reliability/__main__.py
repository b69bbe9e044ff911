"""`python -m bench.reliability`: break a system in the ways of `scripts.py` and count what that cost.

The system is installed in an environment of its own, whose interpreter `--python` names:

    python -m venv --without-pip /somewhere/agentknit
    uv pip install --python /somewhere/agentknit/bin/python agentknit==0.1025.0
    python -m bench.reliability --system agentknit --python /somewhere/agentknit/bin/python --seed 7

Systems: plait, agentknit, agentkernel-file, agentkernel-sqlite (one package with two stores). Raw lines go to `--out`,
one JSON object a case; the counts of each script are printed. Needs Linux and nothing but the standard library.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.reliability.model import Model
from bench.reliability.scripts import SCRIPTS, Bench, Line
from bench.reliability.trial import ROOT, Subject, Trial

SYSTEMS: Final = ("plait", "agentknit", "agentkernel-file", "agentkernel-sqlite")
_ABOUT: Final = """
import importlib, json, sys
from importlib.metadata import version
peer = importlib.import_module("bench.reliability.peers." + sys.argv[1])
print(json.dumps([peer.DIST, version(peer.DIST), peer.JOURNAL, peer.NOTE, sys.version.split()[0]]))
"""
_APART: Final = ("case", "bit", "bytes", "lost_bytes", "noise")
_ERROR_CHARS: Final = 60


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scripts on a system and print what came of them."""
    options = _options(arguments)
    dist, version, journal, note, python = _about(options.system, options.python)
    print(f"{dist} {version}, Python {python}, seed {options.seed}: {note}", flush=True)
    model = Model()
    out = options.out.open("a", encoding="utf-8") if options.out else None
    with (
        tempfile.TemporaryDirectory(prefix="reliability-") as scratch,
        Subject(options.system, options.python) as subject,
    ):
        Trial(subject, model, Path(scratch, "warming")).live(is_warming=True)
        for name in options.only or SCRIPTS:
            began_s = time.monotonic()
            place = Path(scratch, name)
            other = lambda: Subject(options.system, options.python)  # noqa: E731 - a name for what begins another
            bench = Bench(subject, model, place, journal, options.seed, options.cases, other)
            lines = []
            for line in SCRIPTS[name](bench):
                lines.append(line)
                if out:
                    out.write(json.dumps({"system": f"{dist} {version}", "script": name, **line}) + "\n")
            print(
                f"{name}: {json.dumps(counts(lines), ensure_ascii=False)} ({time.monotonic() - began_s:.0f} s)",
                flush=True,
            )
    model.close()
    if out:
        out.close()
    return 0


def counts(lines: Sequence[Line]) -> dict[str, Any]:
    """Add up the lines of a script: numbers are summed, words counted; what tells cases apart is left out."""
    told: dict[str, Any] = {"cases": len(lines)}
    for name in dict.fromkeys(name for line in lines for name in line if name not in _APART):
        values = [line[name] for line in lines if name in line]
        if all(isinstance(value, bool) for value in values):
            told[name] = sum(values)
        elif all(isinstance(value, int) or value is None for value in values):
            told[name] = sum(value or 0 for value in values)
            if name == "lost":
                told["cases_with_loss"] = sum(bool(value) for value in values)
        else:
            words = Counter(_word(value) for value in values)
            told[name] = {word: count for word, count in words.most_common() if word}
    return told


def _word(value: Any) -> str:
    text = re.sub(r"\d+", "N", value) if isinstance(value, str) else json.dumps(value) if value else ""
    return text if len(text) <= _ERROR_CHARS else f"{text[:_ERROR_CHARS]}…"


def _about(system: str, python: str) -> list[str]:
    command = [python, "-c", _ABOUT, system.partition("-")[0]]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{python} cannot load {system}; install it there first:\n{ran.stderr[-600:]}")
    about: list[str] = json.loads(ran.stdout)
    if system == "agentkernel-sqlite":
        about[2] = "memory/memory.db"
        about[3] = about[3].replace("'file'", "'sqlite'")
    return about


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.reliability", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--system", choices=SYSTEMS, required=True)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has it")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--cases", type=int, default=60, help="of each script that has any number of them")
    parser.add_argument("--only", nargs="*", choices=[*SCRIPTS], help="these scripts")
    parser.add_argument("--out", type=Path, help="a file that the raw lines are appended to")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
