"""`plait hooks list`: what a run here would ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from plait.cli.hooks_command import hooks
from plait.core.errors import ConfigError

GUARD = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"command": "guard.sh", "timeout": 30, "onError": "deny"}]}]}


def test_the_hooks_of_a_folder(tmp_path: Path) -> None:
    """The user's and the named ones are listed with their places; the repository's own are named, and not counted."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".plait/hooks").mkdir(parents=True)
    own = Path.home() / ".config/plait/hooks.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"Stop": [{"hooks": [{"command": "true", "async": True}]}], "WorktreeCreate": []}))
    (tmp_path / "more.json").write_text(json.dumps(GUARD))

    told = CliRunner().invoke(hooks, ["list", "-C", str(tmp_path), "--hooks", "more.json"])

    more = tmp_path / "more.json"
    assert [
        f"PreToolUse Bash: guard.sh (30 s, has to agree; {more}: PreToolUse[0].hooks[0])",
        f"Stop: true (60 s, async; {own}: Stop[0].hooks[0])",
    ] == told.stdout.splitlines()
    assert [
        f"plait: {own}: WorktreeCreate: no event is called 'WorktreeCreate' here, so its hooks are left out",
        "plait: the repository's own hooks are not run, because it is not trusted: "[:40],
    ] == [line[: 40 if "repository" in line else None] for line in told.stderr.splitlines()]
    data = json.loads(CliRunner().invoke(hooks, ["list", "-C", str(tmp_path), "--json"]).stdout)
    assert (["Stop"], [str(tmp_path / ".plait/hooks")]) == (
        [hook["event"] for hook in data["hooks"]],
        data["untrusted"],
    )
    own.unlink()
    assert "there are no hooks here\n" == CliRunner().invoke(hooks, ["list", "-C", "/"]).stderr


def test_a_place_without_hooks_is_an_error(tmp_path: Path) -> None:
    """A guard that was named and is not there is no guard."""
    told = CliRunner().invoke(hooks, ["list", "-C", str(tmp_path), "--hooks", "no.json"])

    assert isinstance(told.exception, ConfigError)
    assert "there are no hooks at 'no.json'" == str(told.exception)
    with pytest.raises(ConfigError):
        raise told.exception
