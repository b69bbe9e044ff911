"""The one turn of a run: tools, model and conversation put together.

Floor: 7. Owns: what a run's session is made of; never: how it is shown.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plait.cli.approving import CliApprover
from plait.cli.outcome import Outcome
from plait.cli.terminal import Terminal
from plait.core.messages import Image, user
from plait.engine.base_host import Policy, rules_of
from plait.engine.calls import Finishing
from plait.engine.conversation import Conversation, Terms, Workbench
from plait.engine.limits import Limits
from plait.engine.result import error_of, status_of
from plait.engine.validation import compile_schema
from plait.events.reducer import Reducer
from plait.kernel.ports import Options, Setup
from plait.kernel.rules import Rules
from plait.kernel.tools import ToolTable
from plait.models.chat_model import chat_model
from plait.tools.toolbox import Toolbox, ToolboxOptions

if TYPE_CHECKING:
    from plait.cli.choosing import Choice
    from plait.cli.running import RunOptions
    from plait.cli.screen import Screen
    from plait.core.cancel import Cancel

SYSTEM = "You are a coding agent."


@dataclass(frozen=True, slots=True)
class Work:
    options: RunOptions
    choice: Choice
    images: Sequence[Image]
    cancel: Cancel
    screen: Screen


def carry_out(work: Work) -> Outcome:
    options = work.options
    toolbox = Toolbox(os.getcwd(), ToolboxOptions(policy="read_outside" if options.yes else "cli"))
    person = None if options.yes or not Terminal.is_there() else Terminal()
    approver = CliApprover(
        cancel=work.cancel,
        leads=toolbox.leads,
        person=person,
        says_yes=options.yes,
        before_asking=work.screen.settle,
    )
    model = chat_model(work.choice.model, work.choice.endpoint, key_env=work.choice.key_env)
    tools = ToolTable(toolbox.tools(), compile=compile_schema)
    limits = Limits(max_steps=options.max_steps)
    terms = Terms(
        tools,
        Setup(SYSTEM, tools.schemas, Options()),
        Policy(approver, limits, Finishing(8000, None)),
        rules_of(limits, Rules()),
    )
    conversation = Conversation(model, terms, Workbench())
    reducer = Reducer()

    def see(event: object) -> None:
        for found in reducer.feed(event):  # type: ignore[arg-type]
            work.screen.view.show(found)

    conversation.observers.add(see)
    try:
        end = conversation.turn((user(options.task, work.images),), cancel=work.cancel)
    finally:
        conversation.close()
        model.close()
        toolbox.close()
    conversation.observers.raise_fault()
    error = error_of(end, model=model.name, endpoint=model.endpoint)
    return Outcome(
        status_of(end.reason),
        end.reply,
        error,
        conversation.id,
        conversation.state.steps,
        conversation.state.turn_usage,
        denials=approver.denials,
    )
