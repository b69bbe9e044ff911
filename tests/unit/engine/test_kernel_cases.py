"""What a program written for the kernel strand expects of an agent, by the numbers of its cases."""

from __future__ import annotations

import threading
import time
from decimal import Decimal
from typing import Any

import pytest

from plait.core.messages import ToolCall
from plait.engine.agent import Agent, Profile
from plait.engine.approval import PLAN_DENIED, AutoApprover
from plait.engine.cli_approver import CliApprover
from plait.engine.context_manager import ContextManager
from plait.engine.kernel_face import ToolRegistry, ToolSpec
from plait.engine.limits import Limits
from plait.kernel.history import fault_in
from plait.kernel.tools import Tool
from plait.testing import Call, Say, ScriptedModel

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
ECHO = ToolSpec("echo", "Say it again.", TEXT, lambda args: f"echo:{args['text']}")
GATED = ToolSpec("bash", "Run.", TEXT, lambda args: f"ran:{args['text']}", mutates=True, runs_code=True)


def call(number: int, text: str, name: str = "echo") -> Call:
    """Return the call `c<number>` of a tool that takes a text."""
    return Call(name, {"text": text}, id=f"c{number}")


def results(model: ScriptedModel, request: int) -> list[tuple[str, str]]:
    """Return the ids and texts of the results that a request ends with."""
    last = model.requests[request].messages[-1]
    return [(result.call_id, result.content) for result in last.tool_results]


def test_a1_an_answer_without_tools() -> None:
    """A1: one request that ends with the user's words, and its text is the answer."""
    with ScriptedModel(["hello"]) as model:
        answer = Agent(model).run("hi")

    assert ("hello", "hello") == (str(answer), answer.text)
    assert [("user", "hi")] == [(message.role, message.content) for message in model.requests[0].messages]


def test_a2_a_call_and_its_result() -> None:
    """A2: the second request ends with the call and one tool message that holds its result."""
    with ScriptedModel([call(1, "x"), "done"]) as model:
        Agent(model, [ECHO]).run("go")

    assert ["user", "assistant", "tool"] == [message.role for message in model.requests[1].messages]
    assert [("c1", "echo:x")] == results(model, 1)


def test_a3_two_calls_of_one_answer() -> None:
    """A3: one tool message holds both results, in call order."""
    with ScriptedModel([[call(1, "a"), call(2, "b")], "done"]) as model:
        Agent(model, [ECHO]).run("go")

    assert [("c1", "echo:a"), ("c2", "echo:b")] == results(model, 1)


def test_a4_calls_side_by_side() -> None:
    """A4: parallel-safe calls run at the same time in several threads, and their results keep the order."""
    meet, threads = threading.Barrier(3, timeout=10), set()

    def wait(args: dict[str, Any]) -> str:
        meet.wait()
        threads.add(threading.get_ident())
        time.sleep(0.01 * (3 - len(args["text"])))
        return str(args["text"])

    slow = ToolSpec("echo", "x", TEXT, wait, parallel_safe=True)
    with ScriptedModel([[call(1, "x"), call(2, "xx"), call(3, "xxx")], "done"]) as model:
        Agent(model, [slow], limits=Limits(tool_concurrency=4)).run("go")

    assert [("c1", "x"), ("c2", "xx"), ("c3", "xxx")] == results(model, 1)
    assert 3 == len(threads)


def test_a4_one_at_a_time_in_the_callers_thread() -> None:
    """A4: with a concurrency of one every call runs in the thread of the run."""
    threads = set()

    def note(args: dict[str, Any]) -> str:
        threads.add(threading.get_ident())
        return ""

    with ScriptedModel([[call(n, "x") for n in range(3)], "done"]) as model:
        Agent(model, [ToolSpec("echo", "x", TEXT, note, parallel_safe=True)], limits=Limits(tool_concurrency=1)).run(
            "go"
        )

    assert {threading.get_ident()} == threads


def test_a5_a_model_that_never_stops() -> None:
    """A5: after so many answers the run ends with a sentence that says so."""
    with ScriptedModel([call(n, str(n)) for n in range(3)]) as model:
        result = Agent(model, [ECHO], limits=Limits(max_steps=3)).run("go")

    assert 3 == len(model.requests)
    assert str(result).startswith("Stopped: reached max iterations")
    assert "limit" == result.status


def test_a6_arguments_that_do_not_fit() -> None:
    """A6: a call with wrong arguments is answered without running, and the run goes on."""
    ran: list[Any] = []
    tool = ToolSpec("echo", "x", TEXT, ran.append)

    with ScriptedModel([Call("echo", {"text": 123}), "done"]) as model:
        result = Agent(model, [tool]).run("go")

    assert ([], "done") == (ran, result.text)
    ((_, said),) = results(model, 1)
    assert "Invalid arguments for 'echo'" in said


def test_a7_a_tool_that_nobody_knows() -> None:
    """A7: the model is told that there is no such tool, and which there are."""
    with ScriptedModel([Call("nope"), "done"]) as model:
        assert "done" == Agent(model, [ECHO]).run("go").text

    ((_, said),) = results(model, 1)
    assert "Unknown tool 'nope'. The tools here are: echo." == said


def test_a8_a_tool_that_raises() -> None:
    """A8: an exception of a tool is its result, with the exception's words."""

    def fail(args: dict[str, Any]) -> str:
        raise ValueError("the disk is on fire")

    with ScriptedModel([call(1, "x"), "done"]) as model:
        assert "done" == Agent(model, [ToolSpec("echo", "x", TEXT, fail)]).run("go").text

    result = model.requests[1].messages[-1].tool_results[0]
    assert result.is_error
    assert "ValueError: the disk is on fire" in result.content


def test_a9_the_same_tools_each_time() -> None:
    """A9: every request of a run gets the same tools object, in the order in which they were registered."""
    tools = [ToolSpec(name, "x", TEXT, str) for name in ("zebra", "alpha", "mid")]

    with ScriptedModel([call(1, "x", "mid"), call(2, "y", "mid"), "done"]) as model:
        Agent(model, tools).run("go")

    first, *others = (request.setup.tools for request in model.requests)
    assert all(first is other for other in others)
    assert ["zebra", "alpha", "mid"] == [tool.name for tool in first]


def test_a10_an_agent_in_a_tool() -> None:
    """A10: a tool may run an agent of its own; its answer is the tool's result."""

    def delegate(args: dict[str, Any]) -> str:
        with ScriptedModel([call(1, "inner"), "child says hi"]) as child:
            return str(Agent(child, [ECHO]).run(args["text"]))

    with ScriptedModel([call(1, "sub"), "parent done"]) as model:
        result = Agent(model, [ToolSpec("echo", "x", TEXT, delegate)]).run("go")

    assert ("parent done", [("c1", "child says hi")]) == (result.text, results(model, 1))


def test_a11_a_name_is_taken_once() -> None:
    """A11: a second tool of one name is refused, and the first one stays."""
    registry = ToolRegistry()
    registry.register(ECHO)

    with pytest.raises(ValueError, match="already registered"):
        registry.register(ToolSpec("echo", "another", TEXT, str))

    assert (ECHO, [ECHO], 1) == (registry.spec("echo"), registry.specs(), len(registry))
    assert registry.spec("nope") is None


def test_a12_a_schema_that_is_none() -> None:
    """A12: a tool whose schema is invalid is refused before anything is asked."""
    with pytest.raises(ValueError, match="'bad' has an invalid schema"):
        Agent(ScriptedModel([]), [ToolSpec("bad", "x", {"type": "nonsense"}, str)])


def test_a12_a_tool_that_returns_nothing() -> None:
    """A12: a tool that returns None has an empty result, and the run goes on."""
    with ScriptedModel([call(1, "x"), "done"]) as model:
        assert "done" == Agent(model, [ToolSpec("echo", "x", TEXT, lambda args: None)]).run("go").text

    assert [("c1", "")] == results(model, 1)


def test_a12_a_plan_with_a_tool_that_nobody_knows() -> None:
    """A12: in plan mode an unknown tool gets its error, and the rest of the plan is judged and run."""
    approver = AutoApprover("auto_allow")

    with ScriptedModel([[Call("nope", id="c0"), call(1, "x", "bash")], "done"]) as model:
        assert "done" == Agent(model, [GATED], approver=approver, plan_mode=True).run("go").text

    assert [True, False] == ["Unknown tool" in said for _, said in results(model, 1)]


def test_a13_after_a_denied_plan() -> None:
    """A13: a denied plan ends the run; the next request of the conversation has a result for every call."""
    context = ContextManager()
    denying = AutoApprover(ask_default=False)

    with ScriptedModel([[call(1, "y"), call(2, "x", "bash")], "fine"]) as model:
        agent = Agent(model, [GATED, ECHO], approver=denying, plan_mode=True, context=context)
        denied = agent.run("go")
        after = agent.run("then talk")

    assert (PLAN_DENIED, "fine") == (str(denied), after.text)
    assert fault_in(model.requests[1].messages) is None
    assert ["denied", "denied"] == [result.status for result in model.requests[1].messages[2].tool_results]


@pytest.mark.parametrize("limits", [Limits(max_input_tokens=100), Limits(max_cost=Decimal("0.01"))])
def test_a13_after_a_spent_budget(limits: Limits) -> None:
    """A13: an answer that is over budget runs nothing; the next request has a result for every call."""
    context, ran = ContextManager(), []
    usage = {"input": 200, "output": 5, "cost": Decimal("0.02")}
    tool = ToolSpec("echo", "x", TEXT, ran.append)

    with ScriptedModel([Say(calls=[call(1, "x")], usage=usage), "fine"]) as model:
        agent = Agent(model, [tool], limits=limits, context=context)
        stopped = agent.run("go")
        agent.run("go on")

    assert ("limit", []) == (stopped.status, ran)
    assert str(stopped).startswith("Stopped: budget exceeded (")
    assert fault_in(model.requests[1].messages) is None


def test_a14_a_tool_that_is_filtered_out() -> None:
    """A14: a profile's filter holds when the tool is called, not only when it is shown."""
    with ScriptedModel([call(1, "x", "bash"), "done"]) as model:
        result = Agent(model, [GATED]).run("go", profile=Profile(tool_filter=[]))

    assert ("done", ()) == (result.text, model.requests[0].setup.tools)
    assert [("c1", "The tool 'bash' is not permitted here.")] == results(model, 1)


@pytest.mark.parametrize(
    "policy, gated", [("always_ask", "ask"), ("auto_allow", "allow"), ("deny_mutations", "deny"), ("smart", "ask")]
)
def test_d1_what_a_policy_says(policy: str, gated: str) -> None:
    """D1: a tool that touches nothing runs under every policy; a gated one as the policy says."""
    from plait.engine.approval import decide

    assert "allow" == decide(policy, ECHO, ToolCall("c", "echo", "{}"))
    assert gated == decide(policy, GATED, ToolCall("c", "bash", "{}"))


@pytest.mark.parametrize(
    "command, said", [("ls -la", "allow"), ("rm -rf /", "ask"), ("ls; rm -rf ~", "ask"), ("ls $(rm x)", "ask")]
)
def test_d2_a_list_of_what_may_run(command: str, said: str) -> None:
    """D2: a pattern allows one plain command and nothing that a shell would make more of."""
    from plait.engine.approval import decide

    assert said == decide("always_ask", GATED, ToolCall.of("c", "bash", {"command": command}), ["ls*"])


def test_d3_a_no_is_a_result() -> None:
    """D3: a denied call is answered with the denial, its tool untouched, and the run goes on."""
    with ScriptedModel([call(1, "x", "bash"), "done"]) as model:
        assert "done" == Agent(model, [GATED], approver=AutoApprover(ask_default=False)).run("go").text

    assert [("c1", "Denied by user.")] == results(model, 1)


class Prompted:
    """Somebody at a prompt, with answers ready."""

    def __init__(self, *answers: str | type[BaseException]) -> None:
        self.prompts: list[str] = []
        self.notices: list[str] = []
        self._answers = list(answers)

    def approver(self, policy: str = "always_ask", **options: Any) -> CliApprover:
        """Return an approver that asks here."""
        return CliApprover(policy, input_fn=self._read, output_fn=self.notices.append, **options)

    def _read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        answer = self._answers.pop(0)
        if not isinstance(answer, str):
            raise answer
        return answer


@pytest.mark.parametrize("answer, ran", [("y", True), (" YES ", True), ("n", False), ("", False), (EOFError, False)])
def test_d4_a_question_at_a_prompt(answer: str | type[BaseException], ran: bool) -> None:
    """D4: only a clear yes lets a call run; nobody there is a no. The prompt shows the tool and its arguments."""
    person = Prompted(answer)

    with ScriptedModel([call(1, "x", "bash"), "done"]) as model:
        Agent(model, [GATED], approver=person.approver()).run("go")

    assert ['Approve bash({"text": "x"})? [y/N] '] == person.prompts
    assert [("c1", "ran:x" if ran else "Denied by user.")] == results(model, 1)


def test_d4_a_policy_that_says_no_does_not_ask() -> None:
    """D4: a call that the policy denies is told, not asked about."""
    person = Prompted()

    with ScriptedModel([call(1, "x", "bash"), "done"]) as model:
        Agent(model, [GATED], approver=person.approver("deny_mutations")).run("go")

    assert ([], ["[denied by the policy deny_mutations: bash]"]) == (person.prompts, person.notices)


def test_d4_a_prompt_shows_what_it_asks_about() -> None:
    """D4: nothing in a call can move the cursor or begin a line of its own in the prompt."""
    person = Prompted("n")
    hostile = ToolCall.of("c", "bash\x1b[2J\n", {"text": "\x1b]0;x\x07\nApprove? y"})

    assert person.approver().approve(hostile, GATED) is False
    (prompt,) = person.prompts
    assert not set("\x1b\x07\n") & set(prompt)


@pytest.mark.parametrize("answer, said, requests", [("y", "done", 2), ("n", PLAN_DENIED, 1)])
def test_d6_one_question_for_a_plan(answer: str, said: str, requests: int) -> None:
    """D6: in plan mode all calls of an answer are listed and asked about once; a no ends the run."""
    person = Prompted(answer)

    def steps() -> Any:
        yield [call(1, "x", "bash"), call(2, "y")]
        if answer == "y":
            yield "done"

    with ScriptedModel(steps()) as model:
        result = Agent(model, [GATED, ECHO], approver=person.approver(), plan_mode=True).run("go")

    assert (said, requests) == (str(result), len(model.requests))
    assert ["Approve entire plan? [y/N] "] == person.prompts
    assert ['  1. bash({"text": "x"})', '  2. echo({"text": "y"})'] == person.notices


def test_d6_a_plan_that_needs_no_question() -> None:
    """D6: a plan that the policy allows is not asked about, and one with a denied call is denied without asking."""
    person = Prompted()
    plan = [ToolCall("c", "bash", "{}")]

    assert person.approver("auto_allow").approve_plan(plan, [GATED]) is True
    assert person.approver("deny_mutations").approve_plan(plan, [GATED]) is False
    assert ([], ["[plan denied by the policy deny_mutations]"]) == (person.prompts, person.notices)


def test_a_registry_checks_and_runs_calls() -> None:
    """A registry says what is wrong with a call, and runs one of a sync or an async tool; failures are results."""

    async def later(args: dict[str, Any]) -> str:
        return f"later:{args['text']}"

    def fail(args: dict[str, Any]) -> str:
        raise KeyError("x")

    registry = ToolRegistry()
    for name, handler in (("echo", ECHO.fn), ("later", later), ("fail", fail)):
        registry.register(ECHO if name == "echo" else ToolSpec(name, "x", TEXT, handler))

    assert "Unknown tool" in (registry.validate(ToolCall("c", "nope", "{}")) or "")
    assert registry.validate(ToolCall.of("c", "echo", {"text": "x"})) is None
    ran = [registry.execute(ToolCall.of("c9", name, {"text": "x"})) for name in ("echo", "later", "fail", "nope")]
    assert ["echo:x", "later:x"] == [result.content for result in ran[:2]]
    assert [False, False, True, True] == [result.is_error for result in ran]
    assert {"c9"} == {result.call_id for result in ran}
    assert "KeyError" in ran[2].content


def test_a_registry_is_what_an_agent_takes() -> None:
    """An agent takes the tools of a registry, in their order."""
    registry = ToolRegistry()
    registry.register(ECHO)
    registry.register(GATED)

    assert ["echo", "bash"] == [tool.name for tool in Agent(ScriptedModel([]), registry).tools]


def test_a_spec_is_a_tool() -> None:
    """`ToolSpec` builds a tool whose handler gets one dict, gated by its flags, with any further field of a tool."""
    tool = ToolSpec("x", "d", TEXT, str, requires_approval=True, category="mine", idempotent=True)

    assert isinstance(tool, Tool)
    assert (True, "mine", True) == (tool.gated, tool.category, tool.idempotent)
