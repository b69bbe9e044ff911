"""What loops and sessions of coding agents are known to get wrong, one test a known trouble, by its number.

What belongs to a later step stands in the table with that step, so that no case is forgotten.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from plait.cli.specs import built_in_spec
from plait.core.errors import SessionBusy
from plait.core.facts import Observation
from plait.core.messages import Message, ToolCall, ToolResult, assistant, user
from plait.engine.agent import Agent
from plait.engine.limits import Limits
from plait.hooks.asking import HookSet
from plait.hooks.entry import HookEntry
from plait.hooks.runners import Ground
from plait.kernel.compact import compact
from plait.kernel.effects import Effect, End
from plait.kernel.history import fault_in
from plait.kernel.rules import Rules, Shrinking
from plait.kernel.scripted import play
from plait.kernel.spans import estimate_tokens, select
from plait.kernel.state import fold
from plait.kernel.tools import Tool
from plait.session.clients import create_client
from plait.session.history.resetting import compact_session
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.turns import run_turn
from plait.store.opening import load_journal
from plait.testing import Call, Fail, ScriptedModel, ScriptServer
from plait.tools.toolbox import Toolbox, ToolboxOptions
from tests.e2e.command import REPOSITORY, end_of, start, wait_until
from tests.helpers.journals import opened
from tests.helpers.processes import working_in
from tests.helpers.warm import Warm
from tests.helpers.worlds import World, call, look_at, said
from tests.unit.wire.cases import CASES

CORPUS: Final = [json.loads(line) for line in (CASES / "faults.jsonl").read_text("utf-8").splitlines()]
KNOWN: Final = {case["id"]: case for case in CORPUS if case["group"] == "loop-session"}
AT_ONCE_S: Final = 20
"""Far less than what it would take otherwise, also on a busy machine."""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep sessions here, and work in a folder of its own."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@contextmanager
def talk(server: ScriptServer, **options: Any) -> Iterator[tuple[Session, Any]]:
    """Open the session `s` at a server."""
    spec = built_in_spec("any", server.url)
    options = {"session_id": "s", "strict_cache_proof": False, **options}
    with create_client(spec) as client, init_session(spec, **options) as session:
        yield session, client


def history_of_rounds(rounds: int) -> list[Message]:
    """Make a task and so many rounds of a call and its result."""
    history = [user("the task")]
    for number in range(rounds):
        history += [assistant(calls=[look_at(f"c{number}")]), Message("tool", (ToolResult(f"c{number}", "x" * 200),))]
    return history


def the_same_call_again_and_again(_: Path) -> None:
    """01: it is told at three and stopped, alone and in turns and with a label that counts; polling may go on."""
    label = iter(range(1_000))
    for asked in (
        lambda n: {"p": "a"},
        lambda n: {"p": "AB"[n % 2]},
        lambda n: {"p": "a", "label": f"try {next(label)}"},
    ):
        world = World(
            lambda state, _, asked=asked: said(call("look", f"c{state.steps}", json.dumps(asked(state.steps)))),  # type: ignore[misc]
            results={f"c{number}": "same" for number in range(100)},
        )
        assert "loop_guard" == world.run().reason
        told = [message.content for message in world.state.history if message.marked("guard")]
        assert told[0].startswith("The last 3 rounds")
        assert len(world.thinks) <= 16
    polling = [said(call("look", f"c{n}")) for n in range(20)]
    assert "completed" == World([*polling, said("done")]).run().reason


def a_blocked_call_has_its_result(_: Path) -> None:
    """02: where the guard ends the turn, every call still has exactly one result."""
    world = World(
        lambda state, _: said(call("look", f"c{state.steps}")), results={f"c{number}": "same" for number in range(99)}
    )
    world.run()
    assert fault_in(world.state.history) is None
    assert "completed" == World(lambda *_: said("ok")).run().reason


def a_torn_line(tmp_path: Path) -> None:
    """06: what is appended after a torn tail stands on a line of its own, and stays readable."""
    log = opened(tmp_path / "j").log
    log.append((Observation("note", {"text": "one"}),))
    log.commit()
    log.close()
    with log.path.open("ab") as file:
        file.write(b'{"seq":3,"type":"no')
    for text in ("two", "three"):
        log = opened(tmp_path / "j").log
        log.append((Observation("note", {"text": text}),))
        log.commit()
        log.close()
    texts = [
        e.fact.data["text"]
        for e in load_journal(log.path).entries
        if isinstance(e.fact, Observation) and "text" in e.fact.data
    ]
    assert ["one", "two", "three"] == texts


def two_processes(tmp_path: Path) -> None:
    """08: the second one is refused by name, a killed one lets go, and a stranger with its id is not in the way."""
    folder = tmp_path / "j"
    command = [sys.executable, "-m", "tests.helpers.writer_process", str(folder), "a"]
    pipe = subprocess.PIPE
    with Warm(command, stdin=pipe, stdout=pipe, text=True, cwd=REPOSITORY) as writer:
        assert writer.stdout is not None
        assert "open" == writer.stdout.readline().strip()
        with pytest.raises(SessionBusy, match=str(writer.pid)):
            opened(folder)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
    # Whoever is named in the file is not believed to be there: the lock says it.
    signature = next(path for path in folder.iterdir() if path.name.endswith(".writer"))
    assert signature.exists()
    opened(folder).log.close()


def two_writers_of_one_file(tmp_path: Path) -> None:
    """09: of 2 × 60 additions to a file by two threads none is lost, and no temporary file stays."""
    (tmp_path / "work/list").write_text("end\n")
    box = Toolbox(tmp_path / "work", ToolboxOptions())
    replies: list[object] = []

    def add(name: str) -> None:
        replies.extend(box.str_replace("list", "end\n", f"{name}{number}\nend\n") for number in range(60))

    threads = [threading.Thread(target=add, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    box.close()
    assert 121 == len((tmp_path / "work/list").read_text().split())
    assert [] == [reply for reply in replies if isinstance(reply, ToolResult)]
    assert ["list"] == [path.name for path in (tmp_path / "work").iterdir()]


def compaction_during_a_turn(_: Path) -> None:
    """10: while a turn runs, a compaction is refused, and the turn goes on."""
    refused: list[str] = []

    def shrink() -> str:
        try:
            compact_session(client, "any", session)
        except SessionBusy as error:
            refused.append(error.message)
        return "ok"

    with (
        ScriptServer([Call("shrink", {}), "done"]) as server,
        talk(server, tools=[Tool("shrink", "Shrink.", shrink)]) as (session, client),
    ):
        assert "done" == run_turn(client, "any", session, "go").final_reply
    assert 1 == len(refused)


def overflow_after_many_rounds(_: Path) -> None:
    """13: what does not fit after 45 rounds is made to fit within the turn, which goes on."""
    steps = [Call("look", {"n": number}, f"c{number}") for number in range(45)]
    look = Tool("look", "Look.", lambda n: "x" * 2_000 + str(n), parameters={"type": "object"})
    script = [*steps, Fail("context_overflow", "too long"), "Notes: looked 45 times.", "done"]
    with ScriptedModel(script) as model:
        result = Agent(model, [look], limits=Limits(max_steps=60)).run("the task")
    assert ("completed", "done") == (result.status, result.text)
    after = model.requests[-1].messages
    assert fault_in(after) is None
    assert any("Notes: looked" in message.content for message in after)
    assert any("the task" == message.content for message in after)
    assert len(after) < 20


def size_is_looked_at_before_each_request(_: Path) -> None:
    """13: 45 rounds that would fill a window twice are summarised on the way, and no request comes near its end."""
    steps = [Call("look", {"n": number}, f"c{number}") for number in range(45)]
    look = Tool("look", "Look.", lambda n: "x " * 1_000 + str(n), parameters={"type": "object"})
    left = iter([*steps, "done"])
    with ScriptedModel(
        lambda asked: "Notes." if asked.purpose == "compaction" else next(left), context_window=16_000
    ) as model:
        result = Agent(model, [look], limits=Limits(max_steps=60)).run("the task")
    assert ("completed", "done") == (result.status, result.text)
    assert 12_500 > max(sum(map(estimate_tokens, asked.messages)) for asked in model.requests)
    assert any("compaction" == asked.purpose for asked in model.requests)
    assert all("the task" == asked.messages[0].content for asked in model.requests)
    overflow_after_many_rounds(_)


def each_step_fills_the_window(_: Path) -> None:
    """12: where every step fills it again, there are a few compactions in a hundred steps, not a hundred good ones."""
    steps = [Call("look", {"n": number}, f"c{number}") for number in range(108)]
    look = Tool("look", "Look.", lambda n: "x " * 4_000 + str(n), parameters={"type": "object"})
    left = iter([*steps, "done"])
    with ScriptedModel(lambda asked: "Notes." if asked.purpose == "compaction" else next(left)) as model:
        rules = Rules(shrinking=Shrinking(trigger_tokens=1_500, keep_last_units=1))
        result = Agent(model, [look], limits=Limits(max_steps=None), rules=rules).run("the task")
    assert ("completed", "done") == (result.status, result.text)
    assert 3 <= sum("compaction" == asked.purpose for asked in model.requests) <= 8


def a_cut_parts_no_pair(_: Path) -> None:
    """14: with the last four kept of u, a+call, r, a+call, r, a no result stands without its call."""
    history = [*history_of_rounds(2), assistant("a")]
    for keep in range(6):
        span = select(history, 0, keep)
        if span is not None:
            task = () if span.task is None else (span.task,)
            kept = [*history[: span.start], Message("summary"), *task, *history[span.end :]]
            assert fault_in(kept) is None, keep


def nothing_but_rounds(_: Path) -> None:
    """15: one question and 40 rounds can be cut inside, and the question stays word for word."""
    history = history_of_rounds(40)
    span = select(history, 0, 4)
    assert span is not None
    assert (1, True) == (span.start, span.end > 60)
    assert "the task" == history[0].content
    assert fault_in([*history[: span.start], Message("summary"), *history[span.end :]]) is None


def _ended(making_room: Generator[Effect, Any, bool]) -> Generator[Effect, Any, End]:
    gained = yield from making_room
    return End("gained" if gained else "not gained")


def no_summary(_: Path) -> None:
    """16, 17: a call, or blanks, in the place of a summary stand for nothing; a list of what went takes its place."""
    for answer in (said([call("look", "s1")]), said("  \n")):
        world = World(
            [*[said(look_at(f"c{n}")) for n in range(20)], said("done")],
            results={f"c{n}": "x" * 300 for n in range(20)},
        )
        world.run()
        trace = play(_ended(compact(world.state, Rules(shrinking=Shrinking(4)), "test")), iter([answer]))
        assert End("gained") == trace.end
        (summary,) = [message for message in world.state.history if message.role == "summary"]
        assert "Tools used: look" in summary.content
        assert fault_in(world.state.history) is None
        assert not any(call.id == "s1" for message in world.state.history for call in message.tool_calls)


def no_clock_in_the_prefix(_: Path) -> None:
    """18: what is sent first is the same bytes in a later request, and in a later process."""
    with ScriptServer(["one", "two", "three"]) as server:
        with talk(server) as (session, client):
            run_turn(client, "any", session, "first")
            with pytest.MonkeyPatch.context() as patch:
                real, real_ns = time.time, time.time_ns
                patch.setattr(time, "time", lambda: real() + 3_600)
                patch.setattr(time, "time_ns", lambda: real_ns() + 3_600 * 10**9)
                run_turn(client, "any", session, "second")
        with talk(server) as (session, client):
            run_turn(client, "any", session, "third")
        bodies = [request.body for request in server.requests]
    heads = {body[: body.index(b'"first"') + len(b'"first"')] for body in bodies}
    assert 1 == len(heads)


def hook(command: str, tmp_path: Path, event: str = "PostToolUse") -> tuple[Any, float]:
    """Ask one hook with a megabyte to read, and return what came of it, and how long it took."""
    ground = Ground(str(tmp_path), str(tmp_path), "")
    hooks = HookSet(ground, lambda text: "kept", [HookEntry(event, command=command, timeout_s=1.0)])
    began_s = time.monotonic()
    answer = hooks.ask(event, {"tool_name": "Bash", "tool_response": "x" * (1 << 20)}, ["Bash"])
    took_s = time.monotonic() - began_s
    hooks.close()
    return answer.decision, took_s


def a_hook_that_hangs(tmp_path: Path) -> None:
    """20: a hook that sleeps, and one that never reads, end at their time with an error that names it."""
    for command in ("cat >/dev/null; sleep 600", "sleep 600"):
        decision, took_s = hook(command, tmp_path)
        assert took_s < AT_ONCE_S
        assert decision.decision != "deny"
        assert any("1 s" in error for error in decision.errors), decision


def a_hook_that_says_nothing_or_too_much(tmp_path: Path) -> None:
    """22: nothing is no objection, half of JSON is an error and no objection, a flood is cut and does no harm."""
    for command, has_errors in (("true", False), ("echo '{'", True), ("yes | head -c 500M", None)):
        decision, took_s = hook(command, tmp_path, "PreToolUse")
        assert decision.decision != "deny", command
        assert took_s < AT_ONCE_S
        if has_errors is not None:
            assert has_errors == bool(decision.errors), command


def an_interrupt(tmp_path: Path) -> None:
    """24: SIGINT ends the command that runs, with all it started, closes the pairs, and exits with 130."""
    with ScriptServer([Call("exec_shell", {"command": "sleep 600 & touch begun; wait"})]) as server:
        process = start("run", "x", "--endpoint", server.url, "-m", "any", "--yes", "--json", cwd=tmp_path / "work")
        wait_until(lambda: "sleep 600" in working_in(tmp_path / "work"), "the command")
        began_s = time.monotonic()
        process.send_signal(signal.SIGINT)
        ran = end_of(process)
    assert (130, "interrupted") == (ran.code, ran.json["status"])
    assert time.monotonic() - began_s < AT_ONCE_S
    assert "sleep 600" not in working_in(tmp_path / "work")
    (journal,) = (tmp_path / "state/sessions").glob("*/journal.jsonl")
    state = fold([entry.fact for entry in load_journal(journal).entries])
    assert not state.in_turn
    assert fault_in(state.history) is None


def a_clock_that_jumps(tmp_path: Path) -> None:
    """25: order is by number, whatever the clock says; what waits, waits by another clock."""
    times = iter([5_000_000, 5_000_001, 1_400_000, 1_400_001, 9_000_000, 9_000_001, 9_000_002, 9_000_003])
    log = opened(tmp_path / "j", lambda: next(times)).log
    for text in ("one", "two", "three"):
        log.append((Observation("note", {"text": text}),))
        log.commit()
    log.close()
    entries = load_journal(log.path).entries
    assert [entry.seq for entry in entries] == sorted({entry.seq for entry in entries})
    texts = [e.fact.data["text"] for e in entries if isinstance(e.fact, Observation) and "text" in e.fact.data]
    assert ["one", "two", "three"] == texts
    assert any(late.at_ms < early.at_ms for early, late in itertools.pairwise(entries))


def malformed_arguments(_: Path) -> None:
    """26: bad JSON is said to be bad, with its place, and not to be cut."""
    broken = assistant(calls=[ToolCall("c1", "look", '{"at": "x",, }')])
    with ScriptedModel([said(broken), "done"]) as model:
        result = Agent(model, [Tool("look", "Look.", lambda at: at)]).run("go")
    (told,) = model.requests[1].messages[-1].tool_results
    assert "completed" == result.status
    assert told.is_error
    assert "Invalid arguments for 'look'" in told.content
    assert any(word in told.content for word in ("column", "char", "character", "position")), told.content
    assert "cut" not in told.content


def unknown_tools_and_odd_arguments(_: Path) -> None:
    """28: a list, a string and an unknown name get an error that says what there is."""
    calls = [ToolCall("c1", "look", "[]"), ToolCall("c2", "look", '"x"'), ToolCall("c3", "nope", "{}")]
    with ScriptedModel([said(assistant(calls=calls)), "done"]) as model:
        assert "done" == Agent(model, [Tool("look", "Look.", lambda at: at)]).run("go").text
    told = model.requests[1].messages[-1].tool_results
    assert [True] * 3 == [result.is_error for result in told]
    assert "Send one JSON object" in told[0].content
    assert "The tools here are: look" in told[2].content


TESTS: Final[dict[str, Callable[[Path], None]]] = {
    "loop-session-01": the_same_call_again_and_again,
    "loop-session-02": a_blocked_call_has_its_result,
    "loop-session-06": a_torn_line,
    "loop-session-08": two_processes,
    "loop-session-09": two_writers_of_one_file,
    "loop-session-10": compaction_during_a_turn,
    "loop-session-12": each_step_fills_the_window,
    "loop-session-13": size_is_looked_at_before_each_request,
    "loop-session-14": a_cut_parts_no_pair,
    "loop-session-15": nothing_but_rounds,
    "loop-session-16": no_summary,
    "loop-session-17": no_summary,
    "loop-session-18": no_clock_in_the_prefix,
    "loop-session-20": a_hook_that_hangs,
    "loop-session-22": a_hook_that_says_nothing_or_too_much,
    "loop-session-24": an_interrupt,
    "loop-session-25": a_clock_that_jumps,
    "loop-session-26": malformed_arguments,
    "loop-session-28": unknown_tools_and_odd_arguments,
}
LATER: Final[dict[str, str]] = {}
IN_PART: Final = {
    "loop-session-09": "step 9: memory and boards, which several processes write",
    "loop-session-24": "step 9: sub-agents",
}
"""What a test of above holds of a case now; the rest comes with its step."""


@pytest.mark.parametrize("case", [case for case in TESTS if case != "loop-session-17"])
def test_known_trouble(case: str, tmp_path: Path) -> None:
    """What the corpus expects of this trouble holds."""
    TESTS[case](tmp_path)


def test_every_known_trouble_has_its_test_or_its_step() -> None:
    """No case of the corpus is left out, and what waits says for what."""
    assert sorted(KNOWN) == sorted({*TESTS, *LATER})
    assert set() == TESTS.keys() & LATER.keys()
    assert IN_PART.keys() <= TESTS.keys()
