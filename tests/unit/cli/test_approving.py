"""Who is asked before a call runs, and what an answer means."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from plait.cli.approving import RunApprover
from plait.cli.question import question
from plait.core.cancel import Cancel
from plait.core.messages import ToolCall
from plait.engine.permissions.rule import parse_rule
from plait.kernel.effects import Allow, Deny, Interrupted
from plait.kernel.tools import Tool, ToolContext
from plait.session.kept.remembering import Answer
from plait.tools.answer import as_answer
from plait.tools.toolbox import Toolbox, ToolboxOptions

Where = Literal["inside", "outside", "secret"]
READ = Tool("read_file", "", lambda path: "", parallel_safe=True)
WRITE = Tool("write_file", "", lambda path, content: "", mutates=True)
SHELL = Tool("exec_shell", "", lambda command: "", mutates=True, runs_code=True)
OWN = Tool("deploy", "", lambda: "", requires_approval=True)


class Person:
    """Answers questions with the given lines, in order."""

    def __init__(self, *lines: str | None, then: Callable[[], object] = lambda: None) -> None:
        self.lines = [*lines]
        self.asked: list[str] = []
        self._then = then

    def ask(self, text: str, cancel: Cancel) -> str | None:
        """Return the next line."""
        self.asked.append(text)
        self._then()
        return self.lines.pop(0)


class Looked:
    """A look that finds one kind of place."""

    targets = ()

    def __init__(self, place: Where) -> None:
        self.place = place
        self.needs_leave = place == "outside"
        self.is_closed = False

    def close(self) -> None:
        """Let go."""
        self.is_closed = True


class Floor:
    """A session whose file tools all lead to one kind of place."""

    def __init__(self, place: Where) -> None:
        self.place: Where = place
        self.looks: list[Looked] = []
        self.allowed: list[tuple[ToolCall, Looked]] = []
        self.answers: set[Answer] = set()
        self.fenced: set[str] = set()

    def look(self, call: ToolCall, tool: Tool | None = None) -> Any:
        """Look."""
        self.looks.append(Looked(self.place))
        return self.looks[-1]

    def allow_outside(self, call: ToolCall, look: Any) -> None:
        """Note what was allowed."""
        self.allowed.append((call, look))

    def is_fenced(self, tool: Tool) -> bool:
        """Say whether it is one of those behind a fence."""
        return tool.name in self.fenced

    def knows(self, answer: Answer) -> bool:
        """Say whether there is an answer."""
        return answer in self.answers

    def remember(self, answer: Answer) -> None:
        """Keep an answer."""
        self.answers.add(answer)


def approver(person: Person | None, leads: Where = "inside", **more: Any) -> RunApprover:
    """Make an approver whose file tools all lead to one kind of place."""
    floor = more.pop("floor", Floor(leads))
    return RunApprover(cancel=more.pop("cancel", Cancel()), ground=lambda: floor, person=person, **more)


def shell(command: str = "make", id: str = "c") -> ToolCall:
    """Make a call of the shell."""
    return ToolCall.of(id, "exec_shell", {"command": command})


def test_file_tools_inside_the_workspace_are_free() -> None:
    """Nobody is asked about a change inside the workspace."""
    call = ToolCall.of("c", "write_file", {"path": "a", "content": ""})

    assert Allow(call) == approver(None).approve(call, WRITE)


@pytest.mark.parametrize("tool, leads", [(SHELL, "inside"), (WRITE, "outside"), (OWN, "inside")])
def test_without_anybody_to_ask_the_answer_is_no(tool: Tool, leads: Literal["inside", "outside"]) -> None:
    """A command, a change outside and a tool that wants approval are denied with the way to allow them."""
    subject = approver(None, leads)

    answer = subject.approve(ToolCall.of("c", tool.name, {"path": "/etc/x"}), tool)

    assert isinstance(answer, Deny)
    assert "--yes" in answer.reason
    assert ["nobody"] == [denial.by for denial in subject.denials]


def test_what_runs_behind_a_fence_is_free() -> None:
    """Nobody is asked about it, but where the tool itself wants that, or a rule or a hook does."""
    floor, wanting = Floor("inside"), Tool("deploy", "", lambda: "", requires_approval=True, runs_code=True)
    floor.fenced |= {"exec_shell", "deploy"}
    subject = approver(None, floor=floor)

    assert Allow(shell()) == subject.approve(shell(), SHELL)
    assert not subject.would_ask(shell(), SHELL)
    assert isinstance(subject.approve(ToolCall.of("d", "deploy", {}), wanting), Deny)
    assert isinstance(subject.approve_asked(shell(), SHELL, "the rule ask Bash"), Deny)
    assert ["", "the rule ask Bash"] == [denial.wish for denial in subject.denials]

    outside = Floor("outside")
    outside.fenced |= {"write_file"}
    assert not approver(None, floor=outside).would_ask(ToolCall.of("w", "write_file", {"path": "/x"}), WRITE)


def test_yes_to_everything_asks_nobody() -> None:
    """With --yes each call runs."""
    subject = approver(None, "outside", says_yes=True)

    assert Allow(shell()) == subject.approve(shell(), SHELL)
    assert [] == subject.denials


@pytest.mark.parametrize("line, runs", [("y", True), (" YES ", True), ("n", False), ("no", False), ("a", True)])
def test_an_answer_is_read_as_people_type_it(line: str, runs: bool) -> None:
    """Case and blanks do not matter; a no of the user's is not an unanswered question."""
    subject = approver(Person(line))

    answer = subject.approve(shell(), SHELL)

    assert runs == isinstance(answer, Allow)
    assert ([] if runs else ["user"]) == [denial.by for denial in subject.denials]


def test_anything_unclear_is_asked_again() -> None:
    """An empty line or another word is no answer."""
    person = Person("", "maybe", "y")

    assert isinstance(approver(person).approve(shell(), SHELL), Allow)
    assert 3 == len(person.asked)


def test_always_means_this_exact_command() -> None:
    """The same command is not asked about again; another one is."""
    person = Person("a", "n")
    subject = approver(person)

    answers = [subject.approve(shell(c, c), SHELL) for c in ("make", "make", "make install")]

    assert [Allow, Allow, Deny] == [type(answer) for answer in answers]


def test_a_terminal_that_went_away_is_nobody() -> None:
    """A question at the end of the input is denied, and told as unanswered."""
    subject = approver(Person(None))

    assert isinstance(subject.approve(shell(), SHELL), Deny)
    assert ["nobody"] == [denial.by for denial in subject.denials]


def test_a_question_ends_with_the_run() -> None:
    """A stop signal while the question is open interrupts the turn and counts as no answer."""
    cancel = Cancel()
    subject = approver(Person("y", then=lambda: cancel.cancel("interrupted")), cancel=cancel)

    with pytest.raises(Interrupted):
        subject.approve(shell(), SHELL)
    assert [] == subject.denials


def test_the_question_shows_the_whole_command_and_hides_nothing() -> None:
    """Every line is there behind a mark of its own, controls are spelt out, other arguments are told."""
    call = ToolCall.of("c", "exec_shell", {"command": "make\x1b[2J\n# Allow? y", "timeout_s": 5})

    lines = question(call).splitlines()

    assert ["  | make\\x1b[2J", "  | # Allow? y", "  + timeout_s: 5"] == lines[2:5]


def test_the_question_of_a_change_outside_names_the_file() -> None:
    """The path and all arguments are shown."""
    text = question(ToolCall.of("c", "write_file", {"path": "/etc/hosts", "content": "x"}))

    assert "outside the workspace" in text
    assert "| /etc/hosts\n  + content: x\n" in text


def test_the_question_of_a_patch_shows_its_lines() -> None:
    """A patch is read as it is, line by line, and not as an argument."""
    text = question(ToolCall("c", "apply_patch", "*** Begin Patch\n-a\x1b[2K\n+b\n*** End Patch", custom=True))

    assert "apply this patch, which changes a file outside the workspace:\n  | *** Begin Patch\n" in text
    assert "\n  | -a\\x1b[2K\n  | +b\n" in text


def test_arguments_that_cannot_be_read_are_shown_as_they_are() -> None:
    """A broken call is still shown whole."""
    assert '{"command": "ma' in question(ToolCall("c", "exec_shell", '{"command": "ma'))


def test_the_question_of_a_servers_tool_names_it() -> None:
    """Its arguments may be called like those of a shell: it is not taken for one."""
    for arguments in ({"command": "ls"}, {"path": "a.txt"}):
        asked = question(ToolCall("c", "mcp__evil__run", json.dumps(arguments)))
        assert "use the tool 'mcp__evil__run' with" in asked
        assert json.dumps(arguments) in asked


def test_the_screen_is_brought_up_to_date_before_a_question() -> None:
    """What was streamed stands above the question."""
    seen: list[str] = []
    person = Person("y", then=lambda: seen.append("asked"))

    approver(person, before_asking=lambda: seen.append("drained")).approve(shell(), SHELL)

    assert ["drained", "asked"] == seen


def test_a_hook_that_wants_the_user_to_be_asked() -> None:
    """The question says why, whatever the rules and `--yes` say; without a user the answer is no, with its reason."""
    read = ToolCall.of("c", "read_file", {"path": "a"})
    person = Person("y")

    assert Allow(read) == approver(person).approve_asked(read, READ, "big\x1b file")
    assert "plait wants to touch a file with 'read_file':" in person.asked[0]
    assert "  You are asked because of big\\x1b file" in person.asked[0]
    subject = approver(None, says_yes=True)
    answer = subject.approve_asked(read, READ, "why")
    assert isinstance(answer, Deny)
    assert (False, ["why"]) == ("--yes" in answer.reason, [denial.wish for denial in subject.denials])
    assert answer.reason == subject.denials[0].to_dict()["reason"]


def test_whether_somebody_would_be_asked() -> None:
    """Hooks answer only where there is a question: not for what is free, allowed, or answered for good."""
    always = Person("a")
    subject = approver(always)
    subject.approve(shell(), SHELL)
    assert 1 == len(always.asked)

    said = [subject.would_ask(shell(), SHELL), subject.would_ask(shell("ls"), SHELL), subject.would_ask(shell(), READ)]
    assert [False, True, False] == said
    assert not approver(None, says_yes=True).would_ask(shell(), SHELL)


@pytest.mark.parametrize(
    "command, rule",
    [
        ("git status", "Bash(git status)"),
        ("echo 'a b'", "Bash(echo 'a b')"),
        ("ls; pwd", None),
        ("ls *.py", None),
        ("ls $HOME", None),
        ("ls > x", None),
        ("find . -exec true ;", None),
        ("", None),
    ],
)
def test_the_rule_for_every_session_is_told_and_not_written(command: str, rule: str | None) -> None:
    """After `a` the user learns which rule would say the same everywhere, where one says just that."""
    told: list[str] = []
    approver(Person("a"), tell=told.append).approve(shell(command), SHELL)
    wanted = [] if rule is None else [f"in every session: plait permissions add {shlex.quote(rule)} --allow"]
    assert wanted == told
    if rule is not None:
        parse_rule(rule, "allow")


def test_a_yes_to_what_leads_outside_is_to_that_place() -> None:
    """What was looked at for the question is what the call may touch; without a yes nothing is held on to."""
    call = ToolCall.of("c", "write_file", {"path": "/x", "content": ""})
    floor, other = Floor("outside"), Floor("outside")

    approver(Person("y"), floor=floor).approve(call, WRITE)
    approver(Person("n"), floor=other).approve(call, WRITE)

    assert ([(call, floor.looks[0])], False) == (floor.allowed, floor.looks[0].is_closed)
    assert ([], True) == (other.allowed, other.looks[0].is_closed)


def test_the_question_about_a_servers_tool_has_its_description() -> None:
    """X33: a person sees what a server says of its tool before saying yes; plait's own tools say nothing."""
    person = Person("y", "y")
    subject = approver(person)
    subject.approve(
        ToolCall("c", "mcp__s__t", "{}"), Tool("mcp__s__t", "Reads.\nEvil", str, category="mcp", runs_code=True)
    )
    subject.approve(shell(), Tool("exec_shell", "Runs.", str, runs_code=True))
    assert ["  # Reads.\n  #   Evil\n" in person.asked[0], "Runs." in person.asked[1]] == [True, False]


def test_what_other_programs_obey_is_asked_about(tmp_path: Path) -> None:
    """X05: in the workspace and in every repository inside, through links too; the yes is to where it led then."""
    (tmp_path / "sub/.git").mkdir(parents=True)
    (tmp_path / ".envrc").write_text("")
    (tmp_path / "innocent").symlink_to(".envrc")
    box = Toolbox(tmp_path, ToolboxOptions(policy="cli"))
    asked = [".github/workflows/ci.yml", "innocent", "sub/.vscode/tasks.json", "plait.toml", ".claude/settings.json"]
    free = [".github/notes", "docs/.vscode/tasks.json", "src/.envrc.py", "sub/plait.py"]

    class Real(Floor):
        def look(self, call: ToolCall, tool: Tool | None = None) -> Any:
            return box.look(call, tool)

        def allow_outside(self, call: ToolCall, look: Any) -> None:
            box.allow_outside(call.id, look)

    person = Person(*["y"] * len(asked))
    subject = RunApprover(cancel=Cancel(), ground=lambda: ground, person=person)
    ground = Real("inside")
    calls = [ToolCall.of(path, "write_file", {"path": path, "content": "x"}) for path in (*asked, *free)]
    for call in calls:
        assert Allow(call) == subject.approve(call, WRITE)
    assert len(asked) == len(person.asked)
    assert "plait wants to change a file that other programs obey with 'write_file':" in person.asked[0]
    assert f"  > leads to {tmp_path / '.envrc'}" in person.asked[1]
    nobody = RunApprover(cancel=Cancel(), ground=lambda: ground, person=None)
    said = [type(nobody.approve(call, WRITE)) for call in calls]
    assert [Deny] * len(asked) + [Allow] * len(free) == said
    (tmp_path / "innocent").unlink()
    (tmp_path / "innocent").symlink_to("plain")
    (tmp_path / "plain").write_text("")
    context = ToolContext("innocent", "key", Cancel())
    assert "stale" in as_answer(box.write_file("innocent", "x", call=context))[0]
    box.close()


def test_what_has_changed_about_a_tool_stands_behind_a_mark_of_its_own() -> None:
    """X34: line by line, with all that hides in it spelt out; no line of it can be taken for one of the call."""
    person = Person("n")
    tool = Tool("mcp__s__t", "Reads.", str, category="mcp", requires_approval=True)
    why = "the tool 't' has changed\n-Reads.\n+Reads.\u200b\n | rm -rf ~"
    approver(person).approve_asked(ToolCall("c", "mcp__s__t", "{}"), tool, why)
    assert "\n  ~ -Reads.\n  ~ +Reads.\\u200b\n  ~  | rm -rf ~\nAllow?" in person.asked[0]


def test_a_call_that_a_rule_denied_is_told_with_the_rule() -> None:
    """Programs learn which rule it was; it is no question that nobody answered."""
    subject = approver(None)
    subject.ruled(shell(), SHELL, "the rule deny Bash (x)")

    (told,) = [denial.to_dict() for denial in subject.denials]
    assert ("rule", "the rule deny Bash (x)") == (told["by"], told["rule"])


def test_an_answer_for_good_is_not_one_to_another_wish() -> None:
    """What was answered because of one rule is asked again because of another."""
    person = Person("a", "n")
    subject = approver(person)
    said = [subject.approve_asked(shell(), SHELL, why) for why in ("one", "one", "two")]
    assert [Allow, Allow, Deny] == [type(each) for each in said]
