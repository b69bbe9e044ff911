"""Lives of a whole session: a turn whose steps are reduced, or summarised, a clear, a compaction and back.

For `tests.helpers.victim`. Whichever process comes next goes on with what it finds; what the tools did is written down
outside of the session.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from plait.core.events import Committed
from plait.engine.spec import default_specification
from plait.kernel.rules import Retry
from plait.session.history.resetting import clear_session, compact_session
from plait.session.opening import init_session
from plait.session.session import Session
from plait.session.summaries.uncompacting import uncompact_session
from plait.session.turns import run_turn
from plait.testing import Call, Say, ScriptedModel
from tests.helpers.victim import Life, watch_disk

WORDS: Final = "Do the task."
SUMMARY: Final = "Objective: what was asked before."
LONG: Final = "A long answer. " * 40
LONG_STEPS: Final = 9
TRIGGER_TOKENS: Final = 900
"""Met after a few of them, besides the tools and the system prompt."""
_STEPS: Final = (
    Say("I look.", calls=[Call("look", {"at": 1}, id="a1"), Call("write", {"at": 2}, id="a2")]),
    Say(calls=[Call("write", {"at": 3}, id="b1"), Call("look", {"at": 4}, id="b2")]),
    Say("Done."),
)
_SPEC: Final = default_specification("m", "http://127.0.0.1:1/v1")


def journal_in(folder: Path) -> Path:
    """Return the journal of the session that lives in a folder."""
    return folder / "sessions" / "s1" / "journal.jsonl"


def digest(session: Session, step: list[dict[str, Any]], *, client: object, model: str) -> list[dict[str, Any]]:
    """Keep of a step which tools were called."""
    names = ", ".join(call["function"]["name"] for call in step[0]["tool_calls"])
    return [{"role": "assistant", "content": f"({names})"}, {"role": "user", "content": "Go on."}]


class SessionLife(Life):
    """A life that opens the session, does one thing, and closes it."""

    def live(self) -> int:
        """Go on with the session; return how many points were passed."""
        os.environ["PLAIT_HOME"] = str(self._folder)
        watch_disk(self._points)
        with init_session(
            _SPEC,
            session_id="s1",
            tools=self._tools(),
            strict_cache_proof=False,
            bare=True,
            retry=Retry(attempts_max=1),
            workspace=str(self._folder),
            step_reducer=digest if self._order.kind == "reduce" else None,
            compaction_trigger_tokens=TRIGGER_TOKENS if self._order.kind == "shrink" else None,
        ) as session:
            session._live.conversation.observers.add(self._acknowledge, Committed)
            getattr(self, f"_{self._order.kind}")(session)
            self._note("acks", "0 returned")
        return self._points.passed

    def _reduce(self, session: Session) -> None:
        if not session["messages"][1:] or session._live.conversation.state.in_turn:
            is_begun = session.is_unfinished
            with ScriptedModel(_step) as model:
                assert run_turn(model, "m", session, None if is_begun else WORDS).error is None

    def _grow(self, session: Session) -> None:
        with ScriptedModel([LONG, LONG, "Short."]) as model:
            for task in ("One?", "Two?", "Three?"):
                assert run_turn(model, "m", session, task).error is None

    def _shrink(self, session: Session) -> None:
        if not session["messages"][1:] or session._live.conversation.state.in_turn:
            is_begun = session.is_unfinished
            with ScriptedModel(_long_step) as model:
                assert run_turn(model, "m", session, None if is_begun else WORDS).error is None

    def _undo(self, session: Session) -> None:
        uncompact_session(session)

    def _clear(self, session: Session) -> None:
        clear_session(session)

    def _compact(self, session: Session) -> None:
        with ScriptedModel([SUMMARY], allow_unused=True) as model:
            assert compact_session(model, "m", session, keep_last_turns=1).error is None


def _long_step(asked: Any) -> Say:
    """Which step is next is read off the last call, which no summary takes away."""
    if "about to be shortened" in asked.messages[-1].content:
        return Say(SUMMARY)
    done = max((int(call.id[1:]) for message in asked.messages for call in message.tool_calls), default=0)
    if done == LONG_STEPS:
        return Say("Done.")
    return Say(LONG, calls=[Call("write", {"at": done + 1}, id=f"t{done + 1}")])


def _step(asked: Any) -> Say:
    """Which step is next is read off the request: a reduced one is still one answer."""
    return _STEPS[min(sum(message.role == "assistant" for message in asked.messages), 2)]
