"""Limits, approvers, results: small decisions, each with its table."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from plait.core.errors import LimitReached, ModelProtocolError, SessionBusy
from plait.core.exchange import ProviderFailed
from plait.core.facts import MessageAdded, TurnStart
from plait.core.messages import Image, ToolCall, ToolResult, assistant, user
from plait.core.usage import Usage
from plait.engine.agent import Agent, Profile
from plait.engine.approval import DENIED, PLAN_DENIED, as_verdict
from plait.engine.calls import bounded
from plait.engine.context_manager import ContextManager, estimate_tokens
from plait.engine.limits import Limits, check
from plait.engine.result import RunResult, error_of, status_of, text_of
from plait.engine.validation import compile_schema
from plait.kernel.effects import Allow, Ask, Deny, End
from plait.kernel.state import fold
from plait.kernel.tools import Tool
from plait.testing import Call, ScriptedModel
from tests.unit.engine.runs import Colour, both, contents, run

CALL = ToolCall("c", "t", "{}")


@pytest.mark.parametrize(
    "limits, seconds, said",
    [
        (Limits(), 9e9, None),
        (Limits(max_cost=Decimal("0.5")), 0, "cost 0.5 of 0.5"),
        (Limits(max_cost=Decimal("0.6")), 0, None),
        (Limits(max_input_tokens=100), 0, "100 of 100 input tokens"),
        (Limits(max_input_tokens=101), 0, None),
        (Limits(max_wall_s=60), 61, "61 of 60 seconds"),
        (Limits(max_wall_s=60), 59, None),
    ],
)
def test_when_enough_is_spent(limits: Limits, seconds: float, said: str | None) -> None:
    """A ceiling that is reached is a stop that says which one, in numbers."""
    usage = Usage(input=100, output=5, cost=Decimal("0.5"))
    stop = check(fold((TurnStart(), MessageAdded(assistant("x"), usage))), limits, seconds)

    assert said is None if stop is None else said is not None and said in stop.detail


@pytest.mark.parametrize("name", ["max_steps", "max_output_tokens", "tool_concurrency", "max_input_tokens"])
def test_a_limit_that_allows_nothing_is_refused(name: str) -> None:
    """A ceiling below one is a mistake, told at once."""
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        Limits(**{name: 0})


@pytest.mark.parametrize(
    "said, verdict",
    [
        (True, Allow(CALL)),
        (False, Deny(DENIED)),
        (None, Deny(DENIED)),
        ("yes", Deny(DENIED)),
        (1, Deny(DENIED)),
        (Ask("r"), Ask("r")),
        (Deny("no"), Deny("no")),
    ],
)
def test_only_a_clear_yes_is_a_yes(said: object, verdict: object) -> None:
    """Anything an approver says that is not True or a verdict is a no."""
    assert verdict == as_verdict(said, CALL)


class Sync:
    """An approver that blocks, with one answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def approve(self, call: ToolCall, tool: Tool) -> Any:
        """Answer."""
        self.asked.append(call.name)
        return self.answer


class Async(Sync):
    """The same, to be awaited."""

    async def approve(self, call: ToolCall, tool: Tool) -> Any:
        """Answer."""
        return super().approve(call, tool)


class AsyncPlan(Async):
    """One that is asked about whole plans."""

    async def approve_plan(self, calls: list[ToolCall], tools: list[Tool]) -> bool:
        """Answer."""
        self.asked.append("+".join(call.name for call in calls))
        return bool(self.answer)


FREE = Tool("free", "x", lambda: "ran free")
GATED = Tool("gated", "x", lambda text="": f"ran {text}", requires_approval=True)
NOTHING = Tool("gated", "x", lambda: "never", requires_approval=True)


@both
@pytest.mark.parametrize("kind", [Sync, Async])
@pytest.mark.parametrize(
    "answer, said",
    [
        (True, "ran "),
        (False, DENIED),
        (Deny("not on a Friday"), "not on a Friday"),
        (Allow(ToolCall("call_1_0", "gated", '{"text":"changed"}')), "ran changed"),
    ],
)
def test_an_approver_of_either_colour(colour: Colour, kind: type[Sync], answer: Any, said: str) -> None:
    """Sync and async approvers judge gated calls in both hosts, and may change the arguments; others are not asked."""
    approver = kind(answer)
    with ScriptedModel([Call("gated"), Call("free"), "done"]) as model:
        run(Agent(model, [GATED, FREE], approver=approver), colour)

    assert (["gated"], [said], ["ran free"]) == (approver.asked, contents(model, 1), contents(model, 2))


@both
@pytest.mark.parametrize(
    "kind, asked",
    [(Sync, ["gated"]), (Async, ["gated"]), (AsyncPlan, ["free+gated"])],
)
@pytest.mark.parametrize("answer", [True, False])
def test_a_plan_with_an_approver_of_either_colour(
    colour: Colour, kind: type[Sync], asked: list[str], answer: bool
) -> None:
    """In plan mode one decision holds for all calls, and none of them has run before it is made."""
    ran: list[str] = []
    tools = [
        Tool("free", "x", lambda: ran.append("free")),
        Tool("gated", "x", lambda: ran.append("gated"), mutates=True),
    ]
    approver = kind(answer)
    with ScriptedModel([[Call("free"), Call("gated")], "done"], allow_unused=True) as model:
        result = run(Agent(model, tools, approver=approver, plan_mode=True), colour)

    assert asked == approver.asked
    assert ((["free", "gated"], "done") if answer else ([], PLAN_DENIED)) == (ran, str(result))


@both
def test_arguments_that_an_approver_made_invalid(colour: Colour) -> None:
    """Changed arguments are checked like the model's own; a call that fails the check does not run."""
    tool = Tool("gated", "x", lambda text: "never", requires_approval=True)
    approver = Sync(Allow(ToolCall("call_1_0", "gated", '{"text": 5}')))
    with ScriptedModel([Call("gated", {"text": "x"}), "done"]) as model:
        run(Agent(model, [Tool("gated", "x", echo_text, requires_approval=True)], approver=approver), colour)

    assert tool.gated
    assert "Invalid arguments" in contents(model)[0]


def echo_text(text: str) -> str:
    """Say it again."""
    return text


@pytest.mark.parametrize(
    "reason, status",
    [
        ("completed", "completed"),
        ("max_steps", "limit"),
        ("limit", "limit"),
        ("loop_guard", "limit"),
        ("truncated", "limit"),
        ("plan_denied", "limit"),
        ("approval_required", "waiting"),
        ("waiting", "waiting"),
        ("interrupted", "interrupted"),
        ("cancelled", "interrupted"),
        ("superseded", "interrupted"),
        ("shutdown", "interrupted"),
        ("timeout", "interrupted"),
        ("content_filter", "error"),
        ("error", "error"),
        ("never heard of", "error"),
    ],
)
def test_how_an_end_reads(reason: str, status: str) -> None:
    """Every reason has one status; what nobody knows is an error, never a success."""
    assert status == status_of(reason)


def test_the_error_of_an_end() -> None:
    """A failed model and plait's own errors are the error, a ceiling is LimitReached, and a bug is raised."""
    busy = SessionBusy("busy")

    def of(end: End) -> object:
        return error_of(end, model="m", endpoint="http://x/v1")

    assert of(End("completed", "x")) is None
    assert of(End("interrupted")) is None
    assert of(End("error", error=busy)) is busy
    assert "ModelTimeout" == type(of(End("error", error=ProviderFailed("timeout", "slow")))).__name__
    assert isinstance(of(End("error", detail="odd")), ModelProtocolError)
    for end, limit in ((End("max_steps", detail="3 steps"), "max_steps"), (End("timeout"), "timeout")):
        error = of(end)
        assert isinstance(error, LimitReached)
        assert limit == error.context["limit"]
    with pytest.raises(KeyError):
        of(End("error", error=KeyError("bug")))


@pytest.mark.parametrize(
    "end, text",
    [
        (End("completed", "hello"), "hello"),
        (End("completed"), ""),
        (End("max_steps", detail="reached max iterations (3 steps)"), "Stopped: reached max iterations (3 steps)"),
        (End("plan_denied", detail=PLAN_DENIED), PLAN_DENIED),
        (End("interrupted"), "Stopped: interrupted"),
        (End("approval_required"), "Stopped: approval required"),
        (End("loop_guard", "so far", detail="empty"), "so far"),
    ],
)
def test_what_a_run_says(end: End, text: str) -> None:
    """The text is the answer, or a sentence that says why there is none."""
    assert text == text_of(end, error_of(end, model="m", endpoint=""))


def test_a_result_raises_its_error() -> None:
    """`raise_for_status` returns a good result and raises the error of another; `str` is the text."""
    good = RunResult("hi", "completed", "completed", None, Usage.ZERO, (), 1)
    bad = RunResult("Failed", "error", "error", ModelProtocolError("cut"), Usage.ZERO, (), 1)

    assert (good, "hi") == (good.raise_for_status(), str(good))
    with pytest.raises(ModelProtocolError):
        bad.raise_for_status()


@pytest.mark.parametrize("text, chars", [("", 10), ("short", 10), ("x" * 10, 10), ("anything", 0)])
def test_text_that_fits_is_left_alone(text: str, chars: int) -> None:
    """Text within the cap, and any text without one, is not touched."""
    assert text is bounded(text, chars)


def test_a_check_tells_what_is_wrong() -> None:
    """Each problem is told with its place, at most a few, and a long value is cut short."""
    properties = {"n": {"type": "integer"}, "list": {"type": "array", "items": {"type": "string"}}}
    fits = compile_schema({"type": "object", "properties": properties, "required": ["n"]})

    assert fits({"n": 1}) is None
    said = fits({"list": ["x", 5]}) or ""
    assert "at 'list.1'" in said
    assert '"n" is a required property' in said
    assert len(fits({"n": "y" * 10_000}) or "") < 300
    with pytest.raises(ValueError, match="nonsense"):
        compile_schema({"type": "nonsense"})


def test_a_context_is_what_a_run_goes_on_with() -> None:
    """Messages can be added, replaced and cleared; the list that is returned is a copy."""
    context = ContextManager()
    context.add(user("one"))
    context.messages().clear()
    assert [user("one")] == context.messages() == context.window()
    context.replace([user("two"), user("three")])
    assert 2 == len(context.messages())
    context.clear()
    assert [] == context.messages()


def test_a_guess_at_tokens() -> None:
    """A quarter of the characters of everything that is sent, a thousand a picture, at least one."""
    calls = assistant("abcd", [ToolCall("c", "name", '{"a":1}')])
    results = [ToolResult("c", "x" * 40)]

    assert (1, 1001, 3) == (
        estimate_tokens(user("")),
        estimate_tokens(user("abcd", [Image("eA==")])),
        estimate_tokens(calls),
    )
    assert 10 == estimate_tokens(type(calls)("tool", tuple(results)))


def test_a_profile_is_a_way_of_working_for_one_run() -> None:
    """A profile's prompt stands first, its filter narrows the tools, its effort is sent; the next run is as before."""
    with ScriptedModel(["one", "two"]) as model:
        agent = Agent(model, [FREE, GATED], system="Own.")
        agent.run("a", profile=Profile(system_prompt="Plan.", tool_filter=["free"], reasoning="high"))
        agent.run("b")

    first, second = model.requests
    assert ("Plan.\n\nOwn.", ["free"], "high") == (
        first.setup.system,
        [tool.name for tool in first.setup.tools],
        first.setup.options.reasoning,
    )
    assert ("Own.", 2, None) == (second.setup.system, len(second.setup.tools), second.setup.options.reasoning)


def test_another_model_for_one_run() -> None:
    """A profile may name another model where the model knows others; one that does not is refused."""
    from plait.core.errors import UnsupportedFeature

    class Many(ScriptedModel):
        def with_model(self, name: str) -> ScriptedModel:
            return ScriptedModel([f"I am {name}"], name=name)

    assert "I am big" == Agent(Many([])).run("x", profile=Profile(model_override="big")).text
    with pytest.raises(UnsupportedFeature, match="cannot be exchanged for 'big'"):
        Agent(ScriptedModel([])).run("x", profile=Profile(model_override="big"))
