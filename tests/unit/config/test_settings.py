"""A settings file is read whole, or its fault is named with its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plait.config.settings import settings_in, user_settings
from plait.core.errors import ConfigError


def test_settings_are_what_the_file_says(tmp_path: Path) -> None:
    """A byte order mark is no fault, and no file is no settings."""
    path = tmp_path / "plait.toml"
    assert {} == settings_in(path)
    path.write_bytes(b'\xef\xbb\xbf[permissions]\ndeny = ["Bash(rm:*)"]\n')
    assert {"permissions": {"deny": ["Bash(rm:*)"]}} == settings_in(path)


@pytest.mark.parametrize(
    "content, said",
    [
        (b"a = ?\nb = 1\n", "line 1"),
        (b"\xff", "no TOML"),
        (b"a = 1\na = 2\n", "line 2"),
        (b"#" * 4_000_001, "more than"),
        (None, "Is a"),
    ],
)
def test_a_fault_is_named_with_its_place(tmp_path: Path, content: bytes | None, said: str) -> None:
    """The message has the file, and the line where one is known."""
    path = tmp_path / "plait.toml"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"plait\.toml") as caught:
        settings_in(path)
    assert said in str(caught.value)


def test_the_users_settings_stand_in_the_configuration_folder(tmp_path: Path) -> None:
    """Where the XDG specification puts them."""
    assert tmp_path / "plait" / "plait.toml" == user_settings({"XDG_CONFIG_HOME": str(tmp_path)})


def test_a_pipe_is_no_settings(tmp_path: Path) -> None:
    """What a repository put in the place of the file is refused at once, and nobody waits for it."""
    os.mkfifo(tmp_path / "plait.toml")
    with pytest.raises(ConfigError, match="no ordinary file"):
        settings_in(tmp_path / "plait.toml")
