"""A session that opens gets its senses, and its prompt the words for them.

Floor: 5. Owns: where senses and instructions of a session come from, and what is recorded of them; never: a turn.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from plait._version import __version__
from plait.context.machine import Where
from plait.context.senses import VARIABLE, Senses, senses_wanted
from plait.core.exchange import ToolSchema
from plait.core.facts import Observation
from plait.core.values import dataclass
from plait.events.awareness_events import AwarenessChecklist
from plait.session import prompt
from plait.session.defaults import BENCH
from plait.session.kept.heads import START, Told, setup_of
from plait.session.kept.keeping import Kept
from plait.session.prompt import Wording
from plait.session.senses.sensing import Before, Sensing

if TYPE_CHECKING:
    from plait.context.instructions import InstructionsFile
    from plait.context.sections import Section
    from plait.engine.conversation import Conversation


@dataclass(frozen=True, slots=True)
class Sensed:
    """What a session's model is told, as far as it is settled when the session opens."""

    wording: Wording
    instructions: tuple[InstructionsFile, ...]
    model_version: str

    is_told: bool
    """A checklist of the senses is told: not for a bare session, nor where the environment turns all off."""

    def wording_of(self, recorded: Told | None, tools: Iterable[ToolSchema]) -> str:
        """Return the system prompt: the one that was recorded, else the one that is made today."""
        system = None if recorded is None else setup_of(recorded).system
        return prompt.compose(self.wording, tools) if system is None else system

    @property
    def checklist(self) -> tuple[AwarenessChecklist, ...]:
        """What is told of the senses when the session is open."""
        return (AwarenessChecklist(self.wording.senses.status),) if self.is_told else ()

    @property
    def told(self) -> dict[str, object]:
        """What is recorded of it when the session begins."""
        files = [file.to_dict() for file in self.instructions]
        return {"senses": self.wording.senses.to_dict(), **({"instructions": files} if files else {})}

    def begin(self, conversation: Conversation, values: Mapping[str, Any], kept: Kept, cwd: str) -> Sensing | None:
        """Return what tells the model beside questions and results; None where no sense is on."""
        senses = self.wording.senses
        if not any(senses.status.values()):
            return None
        transcript = "" if kept.place is None else str(kept.place.journal)
        harness = f"plait {__version__}"
        where = Where(cwd, values["model"], values["session_id"], harness, self.model_version, transcript)
        before = Before.of(round(values["session_start_ts"] * 1_000), kept.facts, kept.times_ms)
        return Sensing(senses, where, before, BENCH.clock, lambda: (conversation.state, conversation.terms.tools))


def sensed_by(
    schema: Mapping[str, Any],
    given: Mapping[str, Any],
    values: Mapping[str, Any],
    kept: Kept,
    earlier: Mapping[str, Any] | None,
) -> Sensed:
    """Return the senses and the wording of a session; instructions files are read only for one that begins."""
    start = next((fact.data for fact in kept.facts if isinstance(fact, Observation) and fact.type == START), None)
    senses = senses_of(given, schema, start, earlier)
    is_bare = bool(given["bare"])
    reads = start is None and not is_bare
    cwd = os.path.abspath(given["workspace"] or os.getcwd())
    files, sections = _instructions(cwd, is_with_users=senses.user) if reads else ((), ())
    model = str(values["model"])
    words = Wording(
        given["system_prompt_supplement"],
        is_bare,
        "" if given["profile"] is None else given["profile"].system_prompt or "",
        values["structured"],
        "" if is_bare else model,
        senses,
        sections,
    )
    is_told = not is_bare and (any(senses.status.values()) or VARIABLE not in os.environ)
    return Sensed(words, files, str(schema.get("version") or ""), is_told)


def _instructions(cwd: str, *, is_with_users: bool) -> tuple[tuple[InstructionsFile, ...], tuple[Section, ...]]:
    from plait.context.instructions import instruction_sections, read_instructions  # a resumed session reads none

    files = read_instructions(cwd, os.environ, user=is_with_users)
    return files, instruction_sections(files)


def senses_of(
    given: Mapping[str, Any],
    schema: Mapping[str, Any],
    started: Mapping[str, object] | None,
    earlier: Mapping[str, Any] | None,
) -> Senses:
    """Return a session's senses: as the caller says, else as it began with, else as the spec or the environment says.

    Args:
        started: what a session that goes on recorded when it began.
        earlier: the dict of the session that is restored.
    """
    fallback: Mapping[str, Any] = {**senses_wanted(os.environ), **schema, **(earlier or {})}
    if started is not None:
        fallback = Senses.told(started.get("senses")).keywords
    return Senses.of(given, fallback, bare=bool(given["bare"]))
