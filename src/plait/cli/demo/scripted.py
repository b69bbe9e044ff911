"""The demo with the scripted model: a copy, a server, an ordinary run, a verdict.

Floor: 7. Owns: what is around the run; never: the run, which is the one of `plait run`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from plait.cli.demo import sample_repository
from plait.cli.demo.script import MODEL, TASK, Script
from plait.cli.outcome import Outcome
from plait.cli.run_options import RunOptions
from plait.cli.running import run_and_report
from plait.cli.screen import Screen
from plait.core.errors import ToolFault
from plait.testing import ScriptServer

_INTRODUCTION = """\
The model in this demo is scripted: its answers were written in advance. Everything else is real: the agent, its
requests over HTTP, its tools, the edit and the tests. The repository is a copy in {folder}.
Task: {task}
"""


def run_scripted_demo(*, keep: bool, as_json: bool) -> int:
    """Run the demo and return its exit code: 0 only if the tests of the copy pass at the end."""
    os.environ.update(sample_repository.environment_for_tests())
    script = Script(sample_repository.command_for_tests())
    with _copy(keep) as folder, ScriptServer(script, models=[MODEL]) as server:
        options = RunOptions(
            durable=False,
            task=TASK,
            model=MODEL,
            endpoint=server.url,
            directory=str(folder),
            yes=True,
            form="json" if as_json else "text",
            is_show=True,
            introduction=_INTRODUCTION.format(folder=folder, task=TASK),
        )
        return run_and_report(options, lambda outcome, screen: _verdict(outcome, screen, folder, keep))


def _verdict(outcome: Outcome, screen: Screen, folder: Path, keep: bool) -> Outcome:
    """Run the tests once more, outside the agent, and show what was changed."""
    if outcome.status != "completed":
        return outcome
    is_green, printed = sample_repository.run_tests(folder)
    changes = sample_repository.diff(folder)
    verdict = "the tests pass" if is_green else "the tests do not pass"
    screen.add(f"\nWhat was changed:\n{changes}\nChecked once more, without the agent: {verdict}.")
    if keep:
        screen.add(f"The folder is kept: {folder}")
    kept = str(folder) if keep else None
    outcome = replace(outcome, structured={"tests_pass": is_green, "diff": changes, "folder": kept})
    if is_green:
        return outcome
    error = ToolFault(f"the tests of the sample repository do not pass: {printed.strip().splitlines()[-1]}")
    return replace(outcome, status="error", error=error)


@contextmanager
def _copy(keep: bool) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="plait-demo-"))
    try:
        sample_repository.copy_to(folder)
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
