"""`plait trust`: what a repository would run is shown before it is trusted, and nobody there is a no."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from plait.cli.trust_command import trust


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a script that runs, a server, and a name that would draw on a terminal."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    root = tmp_path / "clone"
    (root / ".plait" / "hooks").mkdir(parents=True)
    (root / ".git").mkdir()
    script = root / ".plait" / "hooks" / "stop.sh"
    script.write_text("#!/bin/sh\necho \x1b[2Jhi\n")
    script.chmod(0o755)
    (root / ".mcp.json").write_text('{"mcpServers": {}}\n')
    return root


def asked(*arguments: object) -> Result:
    """Run the command without a terminal."""
    return CliRunner().invoke(trust, [str(argument) for argument in arguments], standalone_mode=False)


def test_everything_is_shown_and_nobody_there_is_a_no(clone: Path) -> None:
    """Each part with its content, nothing in it that a terminal would act on, and exit code 2."""
    told = asked(clone)
    assert 2 == told.return_value
    lines = told.stdout.splitlines()
    assert f"{clone}: not trusted; this would be used" == lines[0]
    assert ["  + .mcp.json", "  + .plait/hooks/stop.sh (may be run)"] == [line for line in lines if line[2:3] == "+"]
    assert any("echo" in line and "x1b[2Jhi" in line for line in lines)
    assert "\x1b" not in told.output
    assert "not trusted" == lines[-1]
    assert "nobody is here to ask" in told.stderr


def test_a_yes_holds_until_something_changes(clone: Path) -> None:
    """The change is shown as a difference, and a second yes is needed."""
    assert (0, True) == ((said := asked("--yes", clone)).return_value, said.stdout.endswith("trusted\n"))
    assert (0, f"{clone}: trusted\n") == ((said := asked(clone)).return_value, said.stdout)
    (clone / ".mcp.json").write_text('{"mcpServers": {"evil": {"command": "evil"}}}\n')
    changed = asked(clone)
    assert (2, True) == (changed.return_value, "changed since it was trusted" in changed.stdout)
    assert ["  ~ .mcp.json"] == [line for line in changed.stdout.splitlines() if line[2:3] in "+-~"]
    assert '+{"mcpServers": {"evil"' in changed.stdout
    assert [f"{clone}\n", "it is trusted no longer\n", "it was not trusted\n", "none\n"] == [
        asked(*arguments).stdout for arguments in (("--list",), ("--revoke", clone), ("--revoke", clone), ("--list",))
    ]


def test_programs_read_json(clone: Path, tmp_path: Path) -> None:
    """One object says how the repository stands, and nothing is asked."""
    statuses = []
    for change in (None, "yes", "change"):
        if change == "change":
            (clone / ".mcp.json").write_text("{}")
        told = asked("--json", *(["--yes"] if change == "yes" else []), clone)
        data = json.loads(told.stdout)
        statuses.append((told.return_value, data["status"], len(data["changes"])))
    (tmp_path / "plain" / ".git").mkdir(parents=True)
    plain = asked("--json", tmp_path / "plain")
    statuses.append((plain.return_value, json.loads(plain.stdout)["status"], 0))
    assert [(2, "untrusted", 2), (0, "trusted", 0), (2, "changed", 1), (0, "nothing", 0)] == statuses
    assert {"trusted": [str(clone)]} == json.loads(asked("--list", "--json").stdout)


def test_what_cannot_be_trusted_is_not_asked_about(clone: Path) -> None:
    """A link among the parts is named, and `--yes` does not help."""
    (clone / "plait.toml").symlink_to("/etc/hostname")
    said = asked("--yes", clone)
    assert (2, True) == (said.return_value, "  ! plait.toml is a link" in said.stdout)
