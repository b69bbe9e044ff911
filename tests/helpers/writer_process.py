"""A process that writes a journal until it is told to stop: `python -m tests.helpers.writer_process FOLDER NAME`.

Tries to open the journal of a folder; prints `busy PID` or `open`. Then every line on stdin is a fact to commit, which
it answers with `done` or the error's code.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from plait.core.errors import JournalError, SessionBusy
from plait.core.facts import Observation
from plait.store import disk
from plait.store.opening import open_journal


def main(folder: str, name: str, *options: str) -> None:
    """Open, then commit what is asked for."""
    if "lying-lock" in options:
        disk.lock = lambda fd: True
    try:
        log = open_journal(Path(folder), "s1", lambda: time.time_ns() // 1_000_000).log
    except SessionBusy as error:
        print(f"busy {error.owner_pid}", flush=True)
        return
    print("open", flush=True)
    for line in sys.stdin:
        try:
            log.append((Observation("note", {"by": name, "text": line.strip()}),))
            log.commit()
        except JournalError as error:
            print(error.code, flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
