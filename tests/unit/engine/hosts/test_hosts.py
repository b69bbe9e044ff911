"""What both hosts do with tools: where they run, how they fail, when they are stopped."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.core.messages import ToolResult
from plait.engine.agent import Agent
from plait.engine.hosts import async_host, sync_host
from plait.engine.limits import Limits
from plait.kernel.history import fault_in
from plait.kernel.tools import Tool, ToolContext
from plait.testing import Call, ScriptedModel, Silence
from tests.unit.engine.runs import Colour, both, contents, run, statuses


@pytest.fixture
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait only a moment for tools that were told to stop."""
    for module in (sync_host, async_host):
        monkeypatch.setattr(module, "GRACE_S", 0.05)


def tool(fn: Callable[..., Any], **flags: Any) -> Tool:
    """Return a tool for a function, under its name."""
    return Tool(fn.__name__, "x", fn, **flags)


def test_a_lone_call_runs_in_the_callers_thread() -> None:
    """What belongs to a thread stays where it is: a single sync call is made by the thread of the run."""
    seen: list[int] = []

    def note() -> None:
        seen.append(threading.get_ident())

    with ScriptedModel([Call("note"), "done"]) as model:
        Agent(model, [tool(note)]).run("go")

    assert [threading.get_ident()] == seen


def test_a_lone_async_call_runs_in_the_callers_task() -> None:
    """In an event loop a single async call is awaited in place, without a task of its own."""
    seen: list[object] = []

    async def note() -> None:
        seen.append(asyncio.current_task())

    async def main() -> object:
        with ScriptedModel([Call("note"), "done"]) as model:
            await Agent(model, [tool(note)]).arun("go")
        return asyncio.current_task()

    assert [asyncio.run(main())] == seen


def test_async_tools_of_a_sync_run_share_one_loop() -> None:
    """Clients bind to the loop they were made in, so all async calls of an agent run in one."""
    loops: list[object] = []

    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    with ScriptedModel([Call("note"), Call("note"), "done", Call("note"), "done"]) as model:
        agent = Agent(model, [tool(note)])
        agent.run("go")
        agent.run("again")

    assert (3, 1) == (len(loops), len(set(map(id, loops))))


@both
def test_so_many_at_a_time(colour: Colour) -> None:
    """Never more calls run at the same time than the limit says, and every one runs."""
    running, most, lock = 0, 0, threading.Lock()

    def work(number: int) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return str(number)

    calls = [Call("work", {"number": number}) for number in range(7)]
    with ScriptedModel([calls, "done"]) as model:
        run(Agent(model, [tool(work, parallel_safe=True)], limits=Limits(tool_concurrency=2)), colour)

    assert 2 == most
    assert [str(number) for number in range(7)] == contents(model)


@both
def test_what_changes_something_runs_alone_and_in_order(colour: Colour) -> None:
    """Only calls that say that they may run side by side do; every other one waits for those before it."""
    log: list[str] = []

    def read(name: str) -> None:
        log.append(f"+{name}")
        time.sleep(0.002)
        log.append(f"-{name}")

    def write(name: str) -> None:
        read(name)

    calls = [Call("write", {"name": "1"}), Call("read", {"name": "2"}), Call("write", {"name": "3"})]
    with ScriptedModel([calls, "done"]) as model:
        run(Agent(model, [tool(read, parallel_safe=True), tool(write, mutates=True)]), colour)

    assert ["+1", "-1", "+2", "-2", "+3", "-3"] == log


@both
def test_tools_of_both_colours_side_by_side(colour: Colour) -> None:
    """Sync and async calls of one answer run at the same time."""
    meet = threading.Barrier(2, timeout=10)

    def here() -> str:
        meet.wait()
        return "sync"

    async def there() -> str:
        await asyncio.to_thread(meet.wait)
        return "async"

    with ScriptedModel([[Call("here"), Call("there")], "done"]) as model:
        run(Agent(model, [tool(here, parallel_safe=True), tool(there, parallel_safe=True)]), colour)

    assert ["sync", "async"] == contents(model)


@both
def test_the_callers_context_reaches_the_tool(colour: Colour) -> None:
    """Context variables of the caller are seen in tools, in threads too."""
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    who.set("me")

    def ask() -> str:
        return who.get()

    with ScriptedModel([[Call("ask"), Call("ask")], "done"]) as model:
        run(Agent(model, [tool(ask, parallel_safe=True)]), colour)

    assert ["me", "me"] == contents(model)


@both
@pytest.mark.parametrize(
    "value, text",
    [
        ("text", "text"),
        (None, ""),
        (("text", {"n": 1}), "text"),
        ({"a": [1, 2]}, '{"a":[1,2]}'),
        (3, "3"),
        (ToolResult("", "own"), "own"),
    ],
)
def test_what_a_tool_may_return(colour: Colour, value: object, text: str) -> None:
    """Text, text with data, a result, nothing, or any JSON value."""

    def give() -> object:
        return value

    with ScriptedModel([Call("give"), "done"]) as model:
        run(Agent(model, [tool(give)]), colour)

    assert [text] == contents(model)


def fail_with(error: BaseException) -> Tool:
    """Return a tool that raises."""

    def fail() -> None:
        raise error

    return tool(fail, parallel_safe=True)


def afail_with(error: BaseException) -> Tool:
    """Return an async tool that raises."""

    async def fail() -> None:
        raise error

    return tool(fail, parallel_safe=True)


class Mute(Exception):
    """An exception that cannot even say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Panic(BaseException):
    """What extension modules raise when they have failed; it is no `Exception`."""


@both
@pytest.mark.parametrize("make", [fail_with, afail_with])
@pytest.mark.parametrize("many", [1, 2])
@pytest.mark.parametrize(
    "error, said",
    [
        (ValueError("bad"), "ValueError: bad"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError("gone"), "CancelledError"),
        (StopIteration("over"), "StopIteration"),
        (TimeoutError("own"), "TimeoutError: own"),
        (Mute(), "Mute: Mute"),
        (Panic("in Rust"), "Panic: in Rust"),
    ],
)
def test_what_a_tool_raises_is_its_result(
    colour: Colour, make: Callable[[BaseException], Tool], many: int, error: BaseException, said: str
) -> None:
    """Whatever a tool raises, its call has failed, the other calls have their results, and the run goes on."""
    if isinstance(error, StopIteration) and make is afail_with:
        error = RuntimeError("coroutine raised StopIteration")
    with ScriptedModel([[Call("fail")] * many, "done"]) as model:
        result = run(Agent(model, [make(error)]), colour)

    assert "done" == result.text
    assert ["error"] * many == statuses(model)
    assert all(said in content for content in contents(model))


@both
def test_a_refusal_says_what_to_do_next(colour: Colour) -> None:
    """A refusal reaches the model with its advice, and a program with its code."""
    refusal = Refusal("CONFLICT", "the file has changed", hint="read it again", details={"path": "a"})
    with ScriptedModel([Call("fail"), "done"]) as model:
        run(Agent(model, [fail_with(refusal)]), colour)

    (result,) = model.requests[1].messages[-1].tool_results
    assert "the file has changed. read it again" == result.content
    assert {"ok": False, "error": "the file has changed", "code": "CONFLICT", "path": "a"} == result.data


@both
@pytest.mark.parametrize("many", [1, 2])
def test_a_deadline_that_a_tool_heeds(colour: Colour, many: int) -> None:
    """A tool that is told to stop at its deadline, and does, is told of as stopped in time."""

    def wait(context: ToolContext) -> None:
        context.cancel.wait(30)
        raise OSError("stopped")

    async def await_(context: ToolContext) -> None:
        await asyncio.sleep(30)

    tools = [tool(wait, timeout_s=0.03, parallel_safe=True), tool(await_, timeout_s=0.03, parallel_safe=True)]
    with ScriptedModel([[Call("wait")] * many, [Call("await_")] * many, "done"]) as model:
        run(Agent(model, tools), colour)

    late = "Stopped after 0.03 s: the tool did not finish in time."
    assert [late] * many == contents(model, 1) == contents(model, 2)


@both
@pytest.mark.usefixtures("_short_grace")
def test_a_deadline_that_a_tool_ignores(colour: Colour) -> None:
    """A thread cannot be ended: its call is given up a moment after the deadline, and the run goes on."""
    end = threading.Event()

    def ignore() -> str:
        end.wait(30)
        return "too late"

    began_s = time.monotonic()
    with ScriptedModel([Call("ignore"), "done"]) as model:
        result = run(Agent(model, [tool(ignore, timeout_s=0.03)]), colour)
    took_s = time.monotonic() - began_s
    end.set()

    assert ("done", ["unknown"]) == (result.text, statuses(model))
    assert "It may still be at work" in contents(model)[0]
    assert took_s < 20


@both
@pytest.mark.parametrize("many", [1, 3])
def test_a_cancel_keeps_what_tools_bring(colour: Colour, many: int) -> None:
    """A cancel stops running tools, keeps the results they bring, and leaves a valid history."""
    cancel = Cancel()
    started = threading.Barrier(many + 1, timeout=10)

    def work(context: ToolContext) -> str:
        started.wait()
        assert context.cancel.wait(30)
        return f"half done: {context.cancel.reason}"

    def stop() -> None:
        started.wait()
        cancel.cancel("shutdown")

    thread = threading.Thread(target=stop)
    thread.start()
    with ScriptedModel([[Call("work")] * many]) as model:
        result = run(Agent(model, [tool(work, parallel_safe=True)]), colour, cancel=cancel)
    thread.join()

    assert ("interrupted", "shutdown") == (result.status, result.reason)
    assert ["half done: shutdown"] * many == [answer.content for answer in result.messages[-1].tool_results]
    assert fault_in(result.messages) is None


@both
@pytest.mark.usefixtures("_short_grace")
def test_a_cancel_does_not_wait_for_a_tool_that_ignores_it(colour: Colour) -> None:
    """A call in a thread that goes on is closed as unknown after a moment; one that never began says so."""
    cancel, started, end = Cancel(), threading.Barrier(3, timeout=10), threading.Event()

    def ignore() -> str:
        started.wait()
        end.wait(30)
        return "too late"

    def stop() -> None:
        started.wait()
        cancel.cancel("interrupted")

    thread = threading.Thread(target=stop)
    thread.start()
    with ScriptedModel([[Call("ignore")] * 3]) as model:
        agent = Agent(model, [tool(ignore, parallel_safe=True)], limits=Limits(tool_concurrency=2))
        result = run(agent, colour, cancel=cancel)
    thread.join()
    end.set()

    assert "interrupted" == result.status
    assert ["unknown", "unknown", "cancelled"] == [answer.status for answer in result.messages[-1].tool_results]
    assert fault_in(result.messages) is None


@both
def test_a_cancel_in_the_middle_of_an_answer(colour: Colour) -> None:
    """What the model had said is kept and marked; the run is over at once."""
    cancel = Cancel()

    def hear(text: str) -> None:
        threading.Thread(target=cancel.cancel, args=("interrupted",)).start()

    with ScriptedModel([Silence(after=["I was about to"])]) as model:
        result = run(Agent(model), colour, cancel=cancel, on_text=hear)

    assert ("interrupted", "I was about to\n[interrupted]") == (result.status, result.messages[-1].content)


def test_a_cancelled_task_closes_the_run_and_raises() -> None:
    """A cancelled task raises CancelledError, as every await does, after the tool was told and the line given back."""
    told: list[str | None] = []

    def work(context: ToolContext) -> None:
        context.cancel.wait(30)
        told.append(context.cancel.reason)

    async def main(model: ScriptedModel) -> None:
        async with asyncio.timeout(0.05):
            await Agent(model, [tool(work)]).arun("go")

    with ScriptedModel([Call("work")]) as model, pytest.raises(TimeoutError):
        asyncio.run(main(model))

    assert (["interrupted"], 0) == (told, model.open_channels)


@pytest.mark.parametrize("depth", [20])
def test_agents_in_tools_of_agents_do_not_starve(depth: int) -> None:
    """Nested runs with calls side by side at every level need no thread that another level holds."""

    def nest(level: int) -> str:
        if level == 0:
            return "bottom"
        calls = [Call("nest", {"level": level - 1}), Call("leaf")]
        with ScriptedModel([calls, f"level {level}"]) as model:
            return Agent(model, [tool(nest, parallel_safe=True), tool(leaf, parallel_safe=True)]).run("go").text

    def leaf() -> str:
        return "leaf"

    assert f"level {depth}" == nest(depth)


def test_a_tool_that_is_told_of_its_call() -> None:
    """A parameter of the type ToolContext is filled in, is no argument of the model's, and has the call's key."""
    seen: list[ToolContext] = []

    def work(text: str, context: ToolContext) -> None:
        seen.append(context)

    with ScriptedModel([Call("work", {"text": "x"}, "c7"), "done"]) as model:
        Agent(model, [tool(work)]).run("go")

    (context,) = seen
    assert "c7" == context.call_id
    assert context.idempotency_key.endswith("/c7")
    assert context.idempotency_key.startswith(context.session_id)
    assert ["text"] == list(model.requests[0].setup.tools[0].parameters["properties"])


@both
def test_a_result_that_is_too_long(colour: Colour) -> None:
    """Head and tail are kept, and what was left out is counted; a secret is taken out before it is cut."""

    def talk() -> str:
        return "a" * 50 + "api_key=abcdefghijklmnop1234" + "b" * 400

    with ScriptedModel([Call("talk"), "done"]) as model:
        run(Agent(model, [tool(talk)], limits=Limits(max_tool_result_tokens=20)), colour)

    (said,) = contents(model)
    assert said.startswith("a" * 40)
    assert said.endswith("b" * 40)
    assert "characters left out" in said
    assert "abcdefghijklmnop1234" not in said


@both
def test_pictures_reach_the_model(colour: Colour) -> None:
    """Pictures go with the question where the model takes them."""
    from plait.core.errors import UnsupportedFeature
    from plait.core.messages import Image

    picture = Image("eA==")
    with ScriptedModel(["a cat"], supports_images=True) as model:
        run(Agent(model), colour, "what?", images=[picture])
    with pytest.raises(UnsupportedFeature, match="takes no images"):
        run(Agent(ScriptedModel([])), colour, "what?", images=[picture])

    assert (picture,) == model.requests[0].messages[0].images


def test_ctrl_c_during_a_tool() -> None:
    """Ctrl-C stops the tool of a run in the main thread; the run ends as interrupted and the call as unknown."""
    import os
    import signal

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)

    assert threading.current_thread() is threading.main_thread()
    with ScriptedModel([Call("work")]) as model:
        result = Agent(model, [tool(work)]).run("go")

    assert ("interrupted", ["unknown"]) == (
        result.status,
        [answer.status for answer in result.messages[-1].tool_results],
    )


@both
def test_an_agent_leaves_no_line_open_when_it_fails(colour: Colour) -> None:
    """Whatever ends a run, the line to the model is given back."""
    model = ScriptedModel([GeneratorExit("the process is going down")])

    with pytest.raises(GeneratorExit):
        run(Agent(model), colour)

    assert 0 == model.open_channels
