"""The list of commands, and what is said of words that are none."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from plait.cli.entry import run_command_line
from plait.cli.group import group


def test_help_lists_the_commands_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` is answered from the table: no command's module is loaded for it."""
    code = (
        "import sys; from plait.cli.entry import run_command_line\n"
        "code = run_command_line(['--help'])\n"
        "print(code, [name for name in sys.modules if name.endswith('_command') or name.startswith('rich')])"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "0 []" == ran.stdout.splitlines()[-1]
    assert all(f"\n  {name} " in ran.stdout for name in ("run", "demo", "doctor", "wire"))


@pytest.mark.parametrize("name", ["run", "demo", "doctor"])
def test_each_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` of a command is 0 and shows its options."""
    assert 0 == run_command_line([name, "--help"])
    assert f"Usage: plait {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "word, sentence, advice",
    [
        ("tui", "'tui' is not there yet", "later version"),
        ("dmeo", "'dmeo' is not a command", "did you mean `plait demo`?"),
        ("fix the bug", "'fix the bug' is not a command", 'plait run "..."'),
        ("\x1b[2J", "is not a command", "plait run"),
    ],
)
def test_a_word_that_is_no_command_is_answered(
    word: str, sentence: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Planned commands, slips and bare tasks each get the way on; exit code 2, nothing on stdout."""
    assert 2 == run_command_line([word])

    out, err = capsys.readouterr()
    assert "" == out
    assert sentence in err
    assert advice in err
    assert "\x1b" not in err


def test_without_a_command_help_and_a_start_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody can go on typing, that is a usage error."""
    assert 2 == run_command_line([])
    assert "plait demo" in capsys.readouterr().out


def test_a_wrong_option_is_one_sentence_and_with_json_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """The reader of JSON gets an object for a mistake on the command line too."""
    assert 2 == run_command_line(["run", "--bogus", "x"])
    out, err = capsys.readouterr()
    assert ("", True) == (out, "--bogus" in err)

    assert 2 == run_command_line(["run", "--bogus", "--json", "x"])
    document = json.loads(capsys.readouterr().out)
    assert ("error", "UsageError") == (document["status"], document["error"]["class"])


def test_the_table_and_the_commands_agree() -> None:
    """The line of the help is the command's own first sentence."""
    for name, command in [(name, group.get_command(None, name)) for name in ("run", "demo", "doctor")]:  # type: ignore[arg-type]
        assert command is not None
        assert name == command.name
