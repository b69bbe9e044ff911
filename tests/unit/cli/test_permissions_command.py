"""`plait permissions`: what rules say, what they would have said of past calls, answers for good, a rule added."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from plait.cli.approving import RunApprover
from plait.cli.entry import run_command_line
from plait.core.cancel import Cancel
from plait.engine.spec import default_specification
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, Say, ScriptedModel

SPEC = default_specification("m", "http://127.0.0.1:1/v1")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, and a home of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    monkeypatch.chdir(root)
    return root


class Person:
    """Answers every question with one line, and counts them."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.asked = 0

    def ask(self, text: str, cancel: Cancel) -> str:
        """Answer."""
        self.asked += 1
        return self.line


def run(project: Path, person: Person | None, *calls: Call, name: str = "s1", resume: bool = False, **more: Any) -> Any:
    """Run calls in a kept session, one an answer, as a run of the command line would judge them."""
    model = ScriptedModel([Say(calls=[call]) for call in calls] + ["done"])
    approver = RunApprover(cancel=Cancel(), ground=lambda: session, person=person)
    place: dict[str, Any] = {"resumed_from": name} if resume else {"session_id": name}
    options: dict[str, Any] = {
        "workspace": project,
        "approver": approver,
        "durable": True,
        "outside": "cli",
        **place,
        **more,
    }
    with init_session(SPEC, **options) as session:
        run_turn(model, "m", session, "go").raise_for_status()
    return approver


def shell(command: str) -> Call:
    """Return a call of the shell."""
    return Call("exec_shell", {"command": command})


def plait(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run a command; return its code and what it printed."""
    capsys.readouterr()
    code = run_command_line(["permissions", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_what_a_rule_set_would_have_flipped(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls that ran and would not have, and calls that were denied and would have run, each with its rule."""
    run(
        project,
        Person("y"),
        shell("echo a; touch b"),
        shell("git status"),
        Call("write_file", {"path": "x", "content": ""}),
    )
    run(project, Person("n"), shell("ls"), shell("rm x"), name="s2")
    rules = project / "rules.toml"
    rules.write_text(
        '[permissions]\nallow = ["Bash(ls)"]\nask = ["Edit(./x)"]\ndeny = ["Bash(touch:*)", "Bash(rm x)"]\n'
    )
    code, out, err = plait(capsys, "try", str(rules), "--json")
    told = json.loads(out)
    assert (0, "", 2, 5) == (code, err, told["sessions"], told["calls"])
    flips = {(each["was"], each["would"], each["rule"]) for each in told["flips"]}
    assert {
        ("ran", "denied", "deny Bash(touch:*)"),
        ("ran", "asked", "ask Edit(./x)"),
        ("denied", "run", "allow Bash(ls)"),
    } == flips

    (project / "rules.json").write_text(json.dumps({"deny": ["Bash(touch:*)"]}))
    code, out, _ = plait(capsys, "try", str(project / "rules.json"), "--sessions", "s1")
    assert (0, True, True) == (code, "1 of 3 calls in 1 sessions" in out, "s1 exec_shell: echo a; touch b" in out)
    assert "ran, would be denied: the rule deny Bash(touch:*)" in out


def test_trying_rules_writes_nothing(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Journals are read only; one that is damaged is named, and the others are looked at."""
    run(project, Person("y"), shell("true"))
    run(project, Person("y"), shell("true"), name="s2")
    home = tmp_path / "state"
    journal = next(home.rglob("s2/*.jsonl"))
    journal.write_bytes(journal.read_bytes().replace(b"turn_start", b"turn_sturt", 1))
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*") if path.is_file()}
    rules = project / "rules.toml"
    rules.write_text('deny = ["Bash"]\n')
    code, out, err = plait(capsys, "try", str(rules), "--all", "--json")
    assert before == {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in home.rglob("*") if p.is_file()}
    told = json.loads(out)
    assert (1, 1, 1, ["s2"]) == (
        code,
        told["sessions"],
        len(told["flips"]),
        [each["session"] for each in told["unread"]],
    )
    assert "s2 was not read" in err


def test_rules_that_are_none(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake is told with its place, before any session is read."""
    rules = project / "rules.toml"
    rules.write_text('[permissions]\ndeny = ["Bash("]\n')
    code, _, err = plait(capsys, "try", str(rules))
    assert (2, True) == (code, "rules.toml, deny 1" in err)
    (project / "rules.json").write_text("[")
    assert 2 == plait(capsys, "try", str(project / "rules.json"))[0]
    assert 2 == plait(capsys, "try", str(rules), "--all", "--sessions", "x")[0]


def test_what_the_rules_here_say(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command is judged as it would be, with the reason and the commands that the line holds."""
    assert plait(capsys, "add", "Bash(git status)", "--allow")[0] == 0
    assert plait(capsys, "add", "Bash(rm:*)", "--deny")[0] == 0
    (project / "plait.toml").write_text('[permissions]\nallow = ["Bash(make)"]\nask = ["Read(*.pem)"]\n')

    def action(*words: str) -> Any:
        return json.loads(plait(capsys, "check", "--json", *words)[1])["action"]

    assert ["allow", None, "deny", None] == [
        action(command) for command in ("git status", "git status; ls", "ls && sudo rm x", "make")
    ]
    assert "ask" == action("--tool", "Read", "keys/a.pem")
    _, out, _ = plait(capsys, "check", "git status; rm 'a b'")
    assert "denied: the rule deny Bash(rm:*)" in out
    assert "  = [rm] [a b]\n" in out
    told = json.loads(plait(capsys, "list", "--json")[1])["rules"]
    assert {("allow", "Bash(git status)"), ("deny", "Bash(rm:*)"), ("ask", "Read(*.pem)")} == {
        (each["action"], each["rule"]) for each in told
    }


def test_a_rule_is_added_to_the_users_own_file(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands there stays; a rule that is none, or that says nothing of what it does, is not written."""
    path = tmp_path / "config" / "plait" / "plait.toml"
    path.parent.mkdir(parents=True)
    path.write_text("# my settings\n[permissions]\nallow = [\n  'Bash(ls)', # look\n]\n")
    assert (0, True) == (lambda said: (said[0], "added to" in said[1]))(
        plait(capsys, "add", "Bash(git log:*)", "--allow")
    )
    assert "stands already in" in plait(capsys, "add", "Bash(git log:*)", "--allow")[1]
    wanted = "# my settings\n[permissions]\nallow = [\n  'Bash(ls)', # look\n  \"Bash(git log:*)\",\n]\n"
    assert wanted == path.read_text()
    for words in (["Bash(", "--deny"], ["Bash(x)"], ["Bash(x)", "--deny", "--allow"], ["Bash(ls; rm x)", "--allow"]):
        code, _, err = plait(capsys, "add", *words)
        assert (2, True) == (code, bool(err))
    assert wanted == path.read_text()
    assert not (project / "plait.toml").exists()


def test_an_answer_for_good_survives_a_resume_and_is_listed(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`a` is asked about once in a session, also after a resume; another call, another session and a copy are asked."""
    always, other = Person("a"), Person("y")
    run(project, always, shell("touch one"), shell("touch one"), shell("touch two"))
    assert 2 == always.asked
    run(project, other, shell("touch one"), shell("touch three"), resume=True)
    assert 1 == other.asked
    told = json.loads(plait(capsys, "list", "s1", "--json")[1])["answers"]
    assert ['{"command": "touch one"}', '{"command": "touch two"}'] == [each["arguments"] for each in told]
    assert 'exec_shell {"command": "touch one"}\n' in plait(capsys, "list", "s1")[1]
    assert "nothing was answered for good" in (run(project, other, name="s9"), plait(capsys, "list", "s9")[2])[1]

    home = tmp_path / "state"
    assert 0o600 == (home / "approval.key").stat().st_mode & 0o777
    (home / "approval.key").write_bytes(bytes(32))
    third = Person("n")
    run(project, third, shell("touch one"), resume=True)
    assert 1 == third.asked


def test_a_journal_from_elsewhere_answers_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A copy under another name, and an imported one, hold the record of an answer and no answer."""
    run(project, Person("a"), shell("touch one"))
    home = next((tmp_path / "state").rglob("s1")).parent
    shutil.copytree(home / "s1", tmp_path / "elsewhere")
    assert 0 == run_command_line(["sessions", "import", str(tmp_path / "elsewhere"), "--as", "s2"])
    assert [] == json.loads(plait(capsys, "list", "s2", "--json")[1])["answers"]
    person = Person("n")
    run(project, person, shell("touch one"), name="s2", resume=True)
    assert 1 == person.asked
