"""What a hook said by ending like this: the same for a command and a function."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from plait.hooks.asking import HookSet
from plait.hooks.decision import NOTHING, HookDecision, RawHookResult, combine
from plait.hooks.entry import HookBlock, HookEntry
from plait.hooks.events import EVENTS
from plait.hooks.runners import Ground
from plait.hooks.verdict import verdict


class End(NamedTuple):
    """How a hook ends: as a command, and as the function that does the same."""

    code: int = 0
    said: str | Mapping[str, Any] | None = None
    errors: str = ""

    @property
    def stdout(self) -> str:
        """What the command prints."""
        return self.said if isinstance(self.said, str) else "" if self.said is None else json.dumps(self.said)

    def script(self) -> str:
        """Return the command as a line for the shell."""
        return (
            f"printf %s {shlex.quote(self.stdout)}; printf %s {shlex.quote(self.errors)} >&2; cat >/dev/null;"
            f" exit {self.code}"
        )

    def function(self, payload: dict[str, Any]) -> object:
        """Be the function."""
        assert payload["hook_event_name"] in EVENTS
        if self.code == 2:
            raise HookBlock(self.errors)
        if self.code:
            raise RuntimeError(self.errors)
        return self.said


def own(event: str, **members: object) -> dict[str, Any]:
    """Return JSON that speaks through `hookSpecificOutput`."""
    return {"hookSpecificOutput": {"hookEventName": event, **members}}


def permission(behavior: str, **more: object) -> dict[str, Any]:
    """Return the answer to a question for permission."""
    return own("PermissionRequest", decision={"behavior": behavior, **more})


ASKED_AND_CHANGED = own(
    "PreToolUse", permissionDecision="ask", permissionDecisionReason="sure?", updatedInput={"command": "ls"}
)
TEXT_ERROR = "it printed text where JSON is wanted: well done"
CASES: list[tuple[str, End, HookDecision]] = [
    *((event, End(), NOTHING) for event in EVENTS),
    *((event, End(said={}), NOTHING) for event in EVENTS),
    *((event, End(2, errors="no"), HookDecision("deny", "no")) for event, trait in EVENTS.items() if trait.can_block),
    *(
        (event, End(2, errors="ah"), HookDecision(messages=("ah",)))
        for event, trait in EVENTS.items()
        if not trait.can_block
    ),
    *(
        (event, End(1, errors="boom"), HookDecision(errors=("it ended with exit code 1: boom",)))
        for event in ("PreToolUse", "Stop", "SessionEnd")
    ),
    *(
        (event, End(said={"decision": "block", "reason": "tests first"}), HookDecision("deny", "tests first"))
        for event, trait in EVENTS.items()
        if trait.can_block
    ),
    *(
        (event, End(said=own(event, additionalContext="seen")), HookDecision(context=("seen",)))
        for event, trait in EVENTS.items()
        if trait.takes_context
    ),
    *(
        (
            event,
            End(said="well done"),
            {"context": HookDecision(context=("well done",)), "error": HookDecision(errors=(TEXT_ERROR,))}.get(
                trait.text_is, NOTHING
            ),
        )
        for event, trait in EVENTS.items()
    ),
    *(
        (
            event,
            End(said={"continue": False, "stopReason": "enough"}),
            HookDecision("deny", "enough")
            if event == "PreToolUse"
            else HookDecision(is_stop=True, stop_reason="enough"),
        )
        for event in ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "PreCompact")
    ),
    ("PreToolUse", End(said=own("PreToolUse", permissionDecision="allow")), HookDecision("allow")),
    ("PreToolUse", End(said=own("PreToolUse", permissionDecision="defer")), NOTHING),
    ("PreToolUse", End(said={"decision": "approve", "reason": "fine"}), HookDecision("allow", "fine")),
    ("PostToolUse", End(said={"decision": "approve"}), NOTHING),
    ("PreToolUse", End(said=ASKED_AND_CHANGED), HookDecision("ask", "sure?", updated_input={"command": "ls"})),
    (
        "PostToolUse",
        End(said={**own("PostToolUse", updatedToolOutput="***"), "systemMessage": "hidden", "suppressOutput": True}),
        HookDecision(updated_output="***", messages=("hidden",)),
    ),
    ("PermissionRequest", End(said=permission("allow")), HookDecision("allow")),
    ("PermissionRequest", End(said=permission("deny", message="never")), HookDecision("deny", "never")),
    *(
        (
            "PermissionRequest",
            End(said=permission("allow", **{name: value})),
            HookDecision("deny", f"a hook wants {name!r} with its answer, which is not honoured here"),
        )
        for name, value in (("updatedInput", {"command": "ls"}), ("interrupt", True))
    ),
]


@pytest.mark.parametrize("event, end, expected", CASES)
def test_a_command_and_a_function_say_the_same(event: str, end: End, expected: HookDecision, tmp_path: Path) -> None:
    """For every event and every kind of end, the decision of a script equals that of a function."""
    entries = [HookEntry(event, command=end.script()), HookEntry(event, fn=end.function)]

    answer = HookSet(Ground(str(tmp_path), str(tmp_path), ""), lambda text: None, entries).ask(event, {"a": 1})

    assert [expected, expected] == [said for _, said in answer.parts]


VIOLATIONS = [
    ("PreToolUse", "[1]", "it printed an array where a JSON object is wanted"),
    ("PreToolUse", '"yes"', "it printed a string where a JSON object is wanted"),
    ("PreToolUse", "{", "it printed JSON that cannot be read: "),
    ("PreToolUse", '{"decision": 1}', "it says 'decision' with a number, which is a text"),
    ("PreToolUse", '{"decision": "maybe"}', "it says decision 'maybe', which is 'block' or 'approve'"),
    ("SessionEnd", '{"decision": "block"}', "it says block, and nothing can be blocked at SessionEnd"),
    ("PreToolUse", own("PostToolUse"), "its hookSpecificOutput is for 'PostToolUse' and not for 'PreToolUse'"),
    ("PreToolUse", '{"hookSpecificOutput": {"permissionDecision": "deny"}}', "its hookSpecificOutput is for None"),
    ("PreToolUse", own("PreToolUse", permissionDecision="perhaps"), "it says permissionDecision 'perhaps'"),
    ("PreToolUse", own("PreToolUse", updatedInput={"a": 1}), "updatedInput means something with"),
    ("PostToolUse", own("PostToolUse", updatedInput={"a": 1}), "it says 'updatedInput', which means nothing at"),
    ("Notification", own("Notification", additionalContext="x"), "it says 'additionalContext', which reaches nobody"),
    ("PermissionRequest", permission("perhaps"), "its decision is an object whose 'behavior' is allow or deny"),
]


@pytest.mark.parametrize("event, printed, error", VIOLATIONS)
def test_what_breaks_the_rules_decides_nothing(event: str, printed: str | dict[str, Any], error: str) -> None:
    """JSON that hooks may not print is an error of the hook and, unless its errors are a no, stops nothing."""
    raw = RawHookResult(stdout=printed if isinstance(printed, str) else json.dumps(printed))
    said = verdict(event, raw)

    assert (None, True) == (said.decision, said.errors[0].startswith(error)), said
    assert ("deny" if EVENTS[event].can_block else None) == verdict(event, raw, "deny").decision


@pytest.mark.parametrize("raw", [RawHookResult(1), RawHookResult(None, failure="it took longer than 1 s")])
def test_a_gate_fails_closed(raw: RawHookResult) -> None:
    """What crashed or took too long is a no where the hook says so, at every moment that knows a no."""
    assert {event for event, trait in EVENTS.items() if trait.can_block} == {
        event for event in EVENTS if verdict(event, raw, "deny").decision == "deny"
    }
    printed = json.dumps(own("PreToolUse", permissionDecision="allow"))
    assert "deny" == verdict("PreToolUse", RawHookResult(1, printed), "deny").decision


def test_a_no_keeps_its_reason_wherever_it_stands() -> None:
    """Exit code 2 takes the reason from the JSON, else from stderr, else it says that none was given."""
    printed = json.dumps(own("PreToolUse", permissionDecision="allow", permissionDecisionReason="from JSON"))

    reasons = [
        verdict("PreToolUse", RawHookResult(2, stdout, "from stderr" if stdout else "")).reason
        for stdout in ('{"reason": "plain"}', printed, "{", "")
    ]

    assert ["plain", "from JSON", "from stderr", "blocked by a hook that gave no reason"] == reasons


def test_what_goes_to_a_model_or_a_user_is_bounded() -> None:
    """A reason without end is cut, and stays a no."""
    said = verdict("Stop", RawHookResult(2, stderr="x" * 100_000))
    told = verdict("Stop", RawHookResult(stdout=json.dumps({"systemMessage": "y" * 100_000})))

    assert ("deny", 10_001, 10_001) == (said.decision, len(said.reason), len(told.messages[0]))


def test_output_that_is_cut_is_not_half_read() -> None:
    """JSON of which a part is missing is an error, whatever its beginning says."""
    assert ("it printed more JSON than is read",) == verdict(
        "PreToolUse", RawHookResult(stdout='{"decision": "approve"}', is_cut=True)
    ).errors


def test_deny_beats_ask_beats_allow() -> None:
    """Several answers come to the strictest; its reasons and first change count, everything that was said is kept."""
    allow = HookDecision("allow", "yes", updated_input={"a": 1}, context=("1",))
    ask = HookDecision("ask", "sure?", updated_input={"a": 2}, errors=("e",))
    also = HookDecision("ask", "really?", updated_input={"a": 3}, messages=("m",))
    stop = HookDecision(is_stop=True, stop_reason="enough", updated_output="x")

    assert HookDecision("ask", "sure?\nreally?", False, "", {"a": 2}, None, ("1",), ("m",), ("e",)) == combine(
        [allow, NOTHING, ask, also]
    )
    said = combine([ask, stop, HookDecision("deny", "no", updated_output="y"), allow])
    assert ("deny", "no", True, "enough", None, "x") == (
        said.decision,
        said.reason,
        said.is_stop,
        said.stop_reason,
        said.updated_input,
        said.updated_output,
    )
    assert ("enough", True, "no") == (said.why, said.says_no, HookDecision("deny", "no").why)
    assert NOTHING == combine([])
