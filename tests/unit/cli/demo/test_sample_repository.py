"""The sample repository is broken in one place, and mended by one change."""

from __future__ import annotations

from pathlib import Path

from plait.cli.demo import sample_repository
from plait.cli.demo.script import _BUG, _MENDED


def test_a_copy_fails_until_it_is_mended(tmp_path: Path) -> None:
    """The tests tell a broken copy from a mended one, and the diff shows the change and nothing else."""
    sample_repository.copy_to(tmp_path)
    code = tmp_path / "rota/intervals.py"

    before = (sample_repository.run_tests(tmp_path)[0], sample_repository.diff(tmp_path))
    code.write_text(code.read_text().replace(_BUG, _MENDED))
    passes, printed = sample_repository.run_tests(tmp_path)

    assert (False, "") == before
    assert (True, True) == (passes, printed.endswith("OK\n"))
    changed = [line for line in sample_repository.diff(tmp_path).splitlines() if line[:1] in "+-"]
    assert [f"-            {_BUG}", f"+            {_MENDED}"] == changed[2:]


def test_the_command_finds_this_interpreter() -> None:
    """The tests run under the Python that runs plait, wherever that is."""
    program = sample_repository.command_for_tests().split()[0]
    first = sample_repository.environment_for_tests()["PATH"].split(":")[0]

    assert (Path(first) / program).is_file()
