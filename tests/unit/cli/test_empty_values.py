"""Values that are empty, and a standard input that is closed, are told as what they are."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from plait.cli import streams
from plait.cli.choosing import choose
from plait.cli.group import group
from plait.core.errors import ConfigError
from plait.models.subprocess_client import SubprocessOpenAI


def typed(*arguments: str) -> Result:
    """Run a command line in this process."""
    return CliRunner().invoke(group, arguments)


@pytest.mark.parametrize(
    "flag",
    ["--key-env", "-m", "--endpoint", "--session", "--spec", "-C", "--inference-db", "--image", "--output-schema"],
)
@pytest.mark.parametrize("value", ["", " "], ids=["empty", "blank"])
def test_an_empty_value_is_no_value(flag: str, value: str) -> None:
    """A variable that is not set leaves an empty word behind: the run says which option got it, and does not begin."""
    result = typed("run", "hi", flag, value)

    assert 2 == result.exit_code
    assert flag in result.output
    assert "it is empty" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("probe", "", "-m", "x"),
        ("probe", "openai", "-m", ""),
        ("probe", "openai", "-m", "x", "--key-env", ""),
        ("resume", ""),
        ("compact", ""),
    ],
    ids=" ".join,
)
def test_other_commands_refuse_them_too(arguments: tuple[str, ...]) -> None:
    """What names an endpoint, a model, a key or a session is never empty."""
    result = typed(*arguments)

    assert 2 == result.exit_code
    assert "it is empty" in result.output


@pytest.mark.parametrize("address", ["run://", "run:// "])
def test_a_program_without_a_path_is_a_configuration_error(address: str) -> None:
    """Nothing is started for an address that names no program, on the command line or in code."""
    with pytest.raises(ConfigError, match="names no program"):
        choose(None, address, None, {})
    with pytest.raises(ConfigError, match="names no program"):
        SubprocessOpenAI(address)


def test_a_closed_standard_input_is_not_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be read for `-` where standard input was closed; an empty one is read."""
    monkeypatch.setattr("sys.stdin", streams.Closed(io.BytesIO(), encoding="utf-8"))
    with pytest.raises(click.UsageError, match="standard input is closed"):
        streams.read_input("-")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert b"" == streams.read_input("-")


def test_a_standard_input_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that is open for writing only, or a folder, is a usage error that says so."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(_Folder(folder))))
        with pytest.raises(click.UsageError, match="cannot read standard input"):
            streams.read_input("-")
    finally:
        os.close(folder)


class _Folder(io.RawIOBase):
    """Standard input where the shell redirected it from a folder."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return len(os.read(self._number, len(buffer)))
