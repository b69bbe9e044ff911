"""Permission rules hold in a session: at every call, under every name, from every place they are written down in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plait.cli.specs import built_in_spec
from plait.core.errors import ConfigError
from plait.engine.spec import default_specification
from plait.kernel.effects import Allow
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, Say, ScriptedModel
from plait.tools.files import FileTools

SPEC = default_specification("m", "http://127.0.0.1:1/v1")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository to work in, and a home without settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    (tmp_path / "config" / "plait").mkdir(parents=True)
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".env").write_text("SECRET\n")
    (root / "a.txt").write_text("a\n")
    return root


class Yes:
    """An approver that counts how often it is asked."""

    asked = 0

    def approve(self, call: Any, tool: Any) -> Allow:
        """Say yes."""
        self.asked += 1
        return Allow(call)


def results(project: Path, *calls: Call, approver: Any = None, **options: Any) -> list[str]:
    """Return what each call came to in a session."""
    model = ScriptedModel([Say(calls=[call]) for call in calls] + ["done"])
    with init_session(
        {**options.pop("base", SPEC), **options.pop("spec", {})}, workspace=project, approver=approver, **options
    ) as session:
        run_turn(model, "m", session, "go").raise_for_status()
        return [str(message["content"]) for message in session["messages"] if message["role"] == "tool"]


def shell(command: str) -> Call:
    """Return a call of the shell."""
    return Call("exec_shell", {"command": command})


def test_a_denied_call_does_not_run_whatever_an_approver_says(project: Path) -> None:
    """The model is told which rule it was, other calls run, and the approver is not asked about what is decided."""
    approver = Yes()
    said = results(
        project,
        shell("echo hi"),
        shell("echo hi; touch b"),
        Call("read_file", {"path": ".env"}),
        Call("read_file", {"path": "a.txt"}),
        shell("true"),
        approver=approver,
        permissions={"allow": ["Bash(echo:*)"], "deny": ["Bash(touch:*)", "Read(./.env)"]},
    )
    assert ["hi", "a\n"] == [said[0], said[3]]
    assert ["the rule deny Bash(touch:*)", "the rule deny Read(./.env)"] == [
        text.partition("Denied by ")[2].partition(" (")[0] for text in said[1:3]
    ]
    assert not (project / "b").exists()
    assert 1 == approver.asked


def test_what_is_to_be_asked_about_is_refused_without_anybody_to_ask(project: Path) -> None:
    """An `ask` rule reaches tools that no approver is asked about otherwise, and fails closed."""
    call = Call("read_file", {"path": "a.txt"})
    approver = Yes()
    alone, asked = (results(project, call, approver=who, permissions={"ask": ["Read"]}) for who in (None, approver))
    assert "nobody to ask" in alone[0]
    assert (["a\n"], 1) == (asked, approver.asked)


@pytest.mark.parametrize("action", ["deny", "ask"])
def test_a_search_shows_nothing_of_what_may_not_be_read(project: Path, action: str) -> None:
    """Neither in the folder nor by way of a link to it; other files are searched, with ripgrep and without."""
    (project / "keys").mkdir()
    (project / "keys" / "id").write_text("SECRET\n")
    (project / "b.txt").write_text("SECRET\n")
    (project / "way").symlink_to(project / "keys")
    searches = [Call("search_files", {"pattern": "SECRET", "path": path}) for path in (".", "keys", "way", ".env")]
    spec = {"base": built_in_spec("m", "http://127.0.0.1:1/v1")}
    said = results(project, *searches, **spec, permissions={action: ["Read(./.env)", "Read(keys/)"]})
    assert "b.txt:1:SECRET" == said[0].splitlines()[0]
    assert not any("SECRET\n" in f"{text}\n" for text in (said[0].replace("b.txt:1:SECRET", ""), *said[1:])), said
    assert "b.txt:1:SECRET" in results(project, searches[0], **spec, permissions={action: ["Edit(b.txt)"]})[0]


def test_rules_of_a_spec_hold(project: Path) -> None:
    """An agent spec may carry its own."""
    said = results(project, shell("touch b"), spec={"permissions": {"deny": ["Bash"]}})
    assert "the rule deny Bash (the agent spec, deny 1)" in said[0]
    assert not (project / "b").exists()


def test_a_project_may_be_stricter_and_not_more_lenient(project: Path, tmp_path: Path) -> None:
    """What its file forbids is forbidden; what it allows counts when somebody vouches for it, as the user's does."""
    (project / "plait.toml").write_text('[permissions]\nallow = ["Bash(touch:*)"]\ndeny = ["Bash(echo:*)"]\n')
    calls = (shell("touch b"), shell("echo x"))

    def counted(**options: Any) -> tuple[int, bool]:
        approver = Yes()
        said = results(project, *calls, approver=approver, **options)
        return approver.asked, "Denied by the rule" in said[1]

    assert [(1, True), (1, True), (0, True)] == [counted(), counted(trust=False), counted(trust=True)]
    (tmp_path / "config" / "plait" / "plait.toml").write_text('[permissions]\nallow = ["Bash(touch b)"]\n')
    assert (0, True) == counted()


@pytest.mark.parametrize("place", ["keyword", "spec", "user", "project"])
def test_a_rule_that_cannot_be_used_opens_no_session(project: Path, tmp_path: Path, place: str) -> None:
    """Wherever it stands, it is a mistake with its place, and never no rule."""
    table = {"deny": ["Bash("]}
    if place in ("user", "project"):
        folder = tmp_path / "config" / "plait" if place == "user" else project
        (folder / "plait.toml").write_text('[permissions]\ndeny = ["Bash("]\n')
    schema = {**SPEC, "permissions": table} if place == "spec" else SPEC
    named = {"keyword": "permissions, deny 1", "spec": "the agent spec, deny 1"}.get(place, "plait.toml, deny 1")
    with pytest.raises(ConfigError, match=named):
        init_session(schema, workspace=project, permissions=table if place == "keyword" else None)


def test_what_a_rule_or_a_hook_allows_outside_is_that_place(project: Path, tmp_path: Path) -> None:
    """Where file tools write nothing outside by themselves, a yes opens the one place that it was given for."""
    outside, other = tmp_path / "outside", tmp_path / "other"
    outside.mkdir()
    other.mkdir()
    (project / "link").symlink_to(outside)
    allow = {"permissions": {"allow": [f"Edit(/{outside}/**)"]}}
    calls = [Call("write_file", {"path": path, "content": "x"}) for path in ("link/a", f"{other}/b")]
    said = results(project, *calls, outside="cli", **allow)
    assert (["OK", "ERR"], ["a"], []) == (
        [text[:2] if text.startswith("OK") else "ERR" for text in said],
        [path.name for path in outside.iterdir()],
        [*other.iterdir()],
    )

    def say(payload: dict[str, Any]) -> dict[str, Any]:
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}

    hooks = {"PreToolUse": [{"hooks": [say]}]}
    assert results(project, calls[1], outside="cli", hooks=hooks, approver=Yes())[0].startswith("OK")
    assert not results(project, calls[1], outside="cli", approver=Yes())[0].startswith("OK")


def test_a_path_that_is_swapped_after_a_rule_allowed_it_is_stale(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X04: a rule's yes is to where it looked."""
    outside, other = tmp_path / "outside", tmp_path / "other"
    outside.mkdir()
    other.mkdir()
    (project / "link").symlink_to(outside)
    write = FileTools.write_file

    def swapped(self: FileTools, *args: Any, **more: Any) -> Any:
        (project / "link").unlink()
        (project / "link").symlink_to(other)
        return write(self, *args, **more)

    monkeypatch.setattr(FileTools, "write_file", swapped)
    (said,) = results(
        project,
        Call("write_file", {"path": "link/a", "content": "x"}),
        outside="cli",
        permissions={"allow": [f"Edit(/{outside}/**)"]},
    )
    assert ("stale" in said, [], []) == (True, [*outside.iterdir()], [*other.iterdir()])


def test_what_is_opened_is_judged_once_more(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X04: a link that was swapped after the rules looked gets nobody at what they deny, for reading or for writing."""
    link = project / "link"
    link.symlink_to("a.txt")

    def swapping(name: str) -> None:
        plain = getattr(FileTools, name)

        def swapped(self: FileTools, *args: Any, **more: Any) -> Any:
            link.unlink()
            link.symlink_to(".env")
            return plain(self, *args, **more)

        monkeypatch.setattr(FileTools, name, swapped)

    calls = [Call("read_file", {"path": "link"}), Call("write_file", {"path": "link", "content": "x"})]
    rules = {"deny": ["Read(./.env)", "Edit(./.env)"]}
    assert "a\n" == results(project, calls[0], permissions=rules)[0]
    for name in ("read_file", "write_file"):
        swapping(name)
    for call in calls:
        link.unlink()
        link.symlink_to("a.txt")
        (said,) = results(project, call, permissions=rules)
        assert "'link' is denied by the rule deny" in said
        assert "SECRET" not in said
    assert ("SECRET\n", "a\n") == ((project / ".env").read_text(), (project / "a.txt").read_text())
