"""The demo with a real model on this machine: one forced tool call, then an answer, both streamed.

Floor: 7. Owns: the parts it needs, the two questions; never: a promise that a model of this size can mend code.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from plait.cli.demo import sample_repository, weights
from plait.cli.demo.local_server import PACKAGE, REQUIREMENT, LocalServer
from plait.cli.outcome import Outcome
from plait.cli.running import report
from plait.cli.screen import Manner, Screen
from plait.core.cancel import Cancel
from plait.core.errors import ConfigError
from plait.core.events import Event
from plait.core.values import dataclass
from plait.engine.agent import Agent
from plait.engine.limits import Limits
from plait.engine.result import RunResult
from plait.events.reducer import Reducer
from plait.kernel.ports import Options
from plait.kernel.tools import Tool
from plait.models.chat_model import ChatModel, chat_model
from plait.store.layout import state_home

_INTRODUCTION: Final = f"""\
The model in this demo is real and very small ({weights.FILE_NAME}), served by llama.cpp on this
machine. It is made to call a tool once, and then asked for an answer. It is not able to mend code."""
_SYSTEM: Final = "You are a helpful assistant."
_FIRST: Final = "Which files are in the folder rota?"
_SECOND: Final = "These are the files of a program that keeps a calendar: {files}. Say in one sentence what it is for."
_FOLDERS: Final = ("rota", "tests")
_CALL_TOKENS_MAX: Final = 60
_ANSWER_TOKENS_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class _Stage:
    """What both questions share."""

    model: ChatModel
    show: Callable[[Event], None]
    cancel: Cancel

    def ask(self, question: str, options: Options, tools: tuple[Tool, ...] = ()) -> RunResult:
        """Ask once; the model's one answer is the end of it."""
        agent = Agent(
            self.model,
            tools,
            system=_SYSTEM,
            limits=Limits(max_steps=1),
            options=options,
            on_event=self.show,
        )
        return agent.run(question, cancel=self.cancel)


def run_local_demo(*, fetch: bool, as_json: bool) -> int:
    """Run the demo and return its exit code; 2 when a part is missing."""

    def attempt(screen: Screen, cancel: Cancel) -> Outcome:
        path = weights.place(state_home(os.environ))
        if fetch and not weights.are_right(path):
            weights.fetch(path, screen.add)
        _check_parts(path)
        screen.add(_INTRODUCTION)
        with LocalServer(path) as server:
            return _converse(server.url, screen, cancel)

    return report(attempt, Manner("json" if as_json else "text", is_show=True))


def _check_parts(path: Path) -> None:
    if importlib.util.find_spec(PACKAGE) is None:
        raise ConfigError(
            f"the local model needs the package {PACKAGE}, which is not installed",
            hint=f"pip install '{REQUIREMENT}' (the extra `local`), then: plait demo --model local --fetch",
        )
    if not weights.are_right(path):
        raise ConfigError(
            f"the local model's weights are not at {path}, or not whole",
            hint="plait demo --model local --fetch   gets them (93 MB)",
        )


def _converse(url: str, screen: Screen, cancel: Cancel) -> Outcome:
    reducer = Reducer()

    def show(event: Event) -> None:
        for found in reducer.feed(event):
            screen.view.show(found)

    with tempfile.TemporaryDirectory(prefix="plait-demo-") as folder:
        sample_repository.copy_to(Path(folder))
        model = chat_model(weights.FILE_NAME, url)
        try:
            return _two_questions(_Stage(model, show, cancel), _list_files(Path(folder)))
        finally:
            model.close()


def _two_questions(stage: _Stage, tool: Tool) -> Outcome:
    forced = Options(max_output_tokens=_CALL_TOKENS_MAX, temperature=0, tool_choice="required")
    first = stage.ask(_FIRST, forced, (tool,))
    calls = [call for message in first.messages for call in message.tool_calls]
    results = [result for message in first.messages for result in message.tool_results]
    if not results:
        return Outcome(first.status, error=first.error, steps=first.steps, usage=first.usage)
    files = ", ".join(results[0].content.split())
    second = stage.ask(_SECOND.format(files=files), Options(max_output_tokens=_ANSWER_TOKENS_MAX, temperature=0))
    said = [message.content for message in second.messages if message.role == "assistant" and message.content]
    # An answer that was cut at its token limit is an answer here: the limit is ours, and low.
    is_answered = bool(said) and second.status in ("completed", "limit")
    return Outcome(
        "completed" if is_answered else second.status,
        reply=said[0] if said else None,
        error=None if is_answered else second.error,
        steps=first.steps + second.steps,
        usage=first.usage + second.usage,
        structured={"call": calls[0].to_dict(), "result": results[0].content},
    )


def _list_files(root: Path) -> Tool:
    def list_files(folder: str) -> str:
        return "\n".join(sorted(path.name for path in (root / folder).iterdir() if path.is_file()))

    parameters = {
        "type": "object",
        "properties": {"folder": {"type": "string", "enum": list(_FOLDERS)}},
        "required": ["folder"],
        "additionalProperties": False,
    }
    return Tool(
        "list_files",
        "List the files of a folder.",
        list_files,
        parameters=parameters,
        parallel_safe=True,
        idempotent=True,
    )
