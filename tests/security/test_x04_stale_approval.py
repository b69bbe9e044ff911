"""X04: what is executed is what was approved; a call or a path that was changed in between is refused as stale."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from plait.cli.approving import RunApprover
from plait.core.cancel import Cancel
from plait.core.messages import ToolCall, ToolResult
from plait.engine.agent import Agent
from plait.engine.spec import default_specification
from plait.kernel.effects import Allow
from plait.kernel.tools import Tool, ToolContext
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, Say, ScriptedModel
from plait.tools.toolbox import Toolbox, ToolboxOptions
from tests.helpers.campaigns import Campaign

SPEC = default_specification("m", "http://127.0.0.1:1/v1")
OLD = "what was there\n"


class Ground:
    """A workspace, a folder beside it that a link leads to, and another one that nobody may touch."""

    def __init__(self, top: Path) -> None:
        self.work, self.good, self.victim = top / "work", top / "good", top / "victim"
        for folder in (self.work, self.good, self.victim):
            folder.mkdir()
            (folder / "f").write_text(OLD)
        self.link = self.work / "link"
        self.link.symlink_to(self.good)
        self.box = Toolbox(self.work, ToolboxOptions(policy="cli"))

    def point(self, at: Path) -> None:
        """Have the link lead elsewhere, in one step."""
        new = self.work / ".new"
        new.symlink_to(at)
        os.rename(new, self.link)

    def is_untouched(self) -> bool:
        """Say whether nothing happened where nobody may do anything."""
        return {"f"} == set(os.listdir(self.victim)) and OLD == (self.victim / "f").read_text()


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """Make the ground."""
    made = Ground(tmp_path)
    yield made
    made.box.close()


def other_link(ground: Ground) -> None:
    ground.point(ground.victim)


def other_folder(ground: Ground) -> None:
    os.rename(ground.good, ground.good.with_name("moved"))
    ground.good.mkdir()
    (ground.good / "f").write_text(OLD)


def folder_becomes_a_link(ground: Ground) -> None:
    os.rename(ground.good, ground.good.with_name("moved"))
    ground.good.symlink_to(ground.victim)


def file_becomes_a_link(ground: Ground) -> None:
    (ground.good / "f").unlink()
    (ground.good / "f").symlink_to(ground.victim / "f")


def file_becomes_a_hard_link(ground: Ground) -> None:
    (ground.good / "f").unlink()
    os.link(ground.victim / "f", ground.good / "f")


def other_file(ground: Ground) -> None:
    (ground.good / "new").write_text(OLD)
    os.replace(ground.good / "new", ground.good / "f")


def other_content(ground: Ground) -> None:
    (ground.good / "f").write_text("somebody else's\n")


def no_file(ground: Ground) -> None:
    (ground.good / "f").unlink()


def other_mode(ground: Ground) -> None:
    (ground.good / "f").chmod(0o4755)


SWAPS: list[Callable[[Ground], None]] = [
    other_link,
    other_folder,
    folder_becomes_a_link,
    file_becomes_a_link,
    file_becomes_a_hard_link,
    other_file,
    other_content,
    no_file,
    other_mode,
]
CALLS = {
    "write_file": {"path": "link/f", "content": "new\n"},
    "str_replace": {"path": "link/f", "old_str": OLD, "new_str": "new\n"},
    "edit_file": {"path": "link/f", "old": OLD, "new": "new\n"},
    "apply_patch": {"input": f"*** Begin Patch\n*** Update File: link/f\n@@\n-{OLD}+new\n*** End Patch"},
}


def carried_out(ground: Ground, name: str) -> ToolResult:
    """Run a call as the approver left it."""
    context = ToolContext("c", "key", Cancel())
    tools: Any = ground.box if name != "apply_patch" else ground.box.patching
    said = getattr(tools, name)(**CALLS[name], call=context)
    return said if isinstance(said, ToolResult) else ToolResult("c", str(said))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("swap", [None, *SWAPS], ids=lambda swap: "nothing" if swap is None else swap.__name__)
def test_a_path_that_was_swapped_after_the_yes_is_stale(
    ground: Ground, name: str, swap: Callable[[Ground], None] | None
) -> None:
    """Whatever stands there now, nothing is done to it; without a swap the call runs."""
    call = ToolCall.of("c", name, CALLS[name])
    look = ground.box.look(call)
    assert ("outside", [str(ground.good / "f")]) == (look.place, [led.real for led in look.targets])
    ground.box.allow_outside("c", look)
    if swap is not None:
        swap(ground)
    before = {path: path.read_bytes() for path in ground.good.parent.rglob("f")}
    result = carried_out(ground, name)
    if swap is None:
        assert ("ok", "new\n") == (result.status, (ground.good / "f").read_text())
        return
    assert (True, True) == (result.is_error, "stale" in result.content)
    assert before == {path: path.read_bytes() for path in ground.good.parent.rglob("f")}
    assert ground.is_untouched()


class Person:
    """Somebody who does something between the question and the answer."""

    def __init__(self, does: Callable[[str], object]) -> None:
        self.does = does
        self.asked: list[str] = []

    def ask(self, text: str, cancel: Cancel) -> str:
        """Say yes, after that."""
        self.asked.append(text)
        self.does(text)
        return "y"


def test_a_swap_while_the_question_is_open(ground: Ground) -> None:
    """The person saw where it led; the yes is to that, and the model is told that it is stale."""
    person = Person(lambda text: ground.point(ground.victim))
    approver = RunApprover(cancel=Cancel(), ground=lambda: session, person=person)
    model = ScriptedModel([Call("write_file", {"path": "link/f", "content": "new\n"}), "done"])
    with init_session(SPEC, workspace=ground.work, approver=approver, outside="cli") as session:
        run_turn(model, "m", session, "go").raise_for_status()
        (told,) = [str(each["content"]) for each in session["messages"] if each["role"] == "tool"]
    assert f"> leads to {ground.good / 'f'}" in person.asked[0]
    assert "the approval is stale" in told
    assert ground.is_untouched()


def exchanging(ground: Ground, targets: tuple[Path, Path], stop: threading.Event) -> threading.Thread:
    """Have a link lead here and there, as fast as can be."""

    def work() -> None:
        while not stop.is_set():
            for target in targets:
                ground.point(target)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("inside", [False, True], ids=["outside and outside", "inside and outside"])
def test_a_race_for_the_path(ground: Ground, campaign: Campaign, inside: bool) -> None:
    """While a link is swapped all the time, only what was looked at and approved is ever written to.

    Approved is what leads to the one folder; with the other one inside the workspace, nothing outside ever is.
    """
    own = ground.work / "own"
    own.mkdir()
    stop, outcomes = threading.Event(), {"ok": 0, "stale": 0, "denied": 0}
    thread = exchanging(ground, (own if inside else ground.good, ground.victim), stop)
    try:
        for number in campaign.each(range(100_000), 150):
            name = f"n{number}"
            call = ToolCall.of(name, "write_file", {"path": f"link/{name}", "content": "x"})
            look = ground.box.look(call)
            if not inside and [str(ground.good / name)] == [led.real for led in look.targets]:
                ground.box.allow_outside(name, look)
            else:
                look.close()
            result = ground.box.write_file(f"link/{name}", "x", call=ToolContext(name, "key", Cancel()))
            assert isinstance(result, ToolResult) or result is not None
            text = str(getattr(result, "content", result))
            outcomes["stale" if "stale" in text else "ok" if "OK" in text else "denied"] += 1
            assert ground.is_untouched(), (number, text)
    finally:
        stop.set()
        thread.join()
    assert min(outcomes["ok"], outcomes["denied"]) > 0, outcomes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=6), JSON, max_size=4))
def test_the_bytes_that_were_approved_are_those_that_run(arguments: dict[str, Any]) -> None:
    """The approver sees the call whole, and the tool gets just that, whatever an approver does to its own copy."""
    approved: list[ToolCall] = []
    ran: list[dict[str, Any]] = []

    class Approver:
        def approve(self, call: ToolCall, tool: Tool) -> Allow:
            approved.append(call)
            call.arguments.clear()  # what it reads is its own
            return Allow(call)

    schema = {"type": "object", "properties": {"given": {}}}
    tool = Tool("t", "", lambda given: ran.append(given) or "ok", schema, mutates=True)
    with ScriptedModel([Say(calls=[Call("t", {"given": arguments})]), "done"]) as model:
        Agent(model, [tool], approver=Approver()).run("go")
    assert [arguments] == ran
    assert [arguments] == [call.arguments["given"] for call in approved]


def test_a_call_that_a_hook_changed_is_approved_as_it_will_run(ground: Ground) -> None:
    """Hooks speak before the person: what is shown is what runs; a hook that changes it later has it refused."""

    def change(payload: dict[str, Any]) -> dict[str, Any]:
        updated = {"command": "echo changed"}
        return {
            "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask", "updatedInput": updated}
        }

    def late(payload: dict[str, Any]) -> dict[str, Any]:
        decision = {"behavior": "allow", "updatedInput": {"command": "echo late"}}
        return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}

    for hooks, shown, ran in (
        ({"PreToolUse": [{"hooks": [change]}]}, "  | echo changed\n", "changed"),
        ({"PermissionRequest": [{"hooks": [late]}]}, "", "ERROR: tool call denied by hook"),
    ):
        person = Person(lambda text: None)
        approver = RunApprover(cancel=Cancel(), ground=lambda: session, person=person)
        model = ScriptedModel([Call("exec_shell", {"command": "echo asked"}), "done"])
        with init_session(SPEC, workspace=ground.work, approver=approver, hooks=hooks, durable=False) as session:
            run_turn(model, "m", session, "go").raise_for_status()
            (told,) = [str(each["content"]) for each in session["messages"] if each["role"] == "tool"]
        assert told.startswith(ran)
        assert shown in "".join(person.asked)
