"""What a model sees: the parts of the request that a session would make next, each with its size.

Floor: 5. Owns: the list of parts, of a session that is kept and of one that would begin here; never: a request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from plait._version import __version__
from plait.context.machine import Where
from plait.context.sections import Section, sections_in
from plait.context.senses import Senses
from plait.core.clock import SystemClock
from plait.core.exchange import ToolSchema
from plait.core.facts import Observation
from plait.core.messages import Image, Message, ToolCall
from plait.core.values import dataclass
from plait.kernel.counting import TokenCounter, count_messages, count_tools
from plait.kernel.gauge import text_units, tool_units, units_of
from plait.kernel.ports import Setup
from plait.kernel.state import State, fold
from plait.kernel.tools import ToolTable
from plait.session.kept.heads import START, heads, setup_of
from plait.session.opening import init_session
from plait.session.readying import sections_now
from plait.session.senses.sensing import Before, Sensing
from plait.store.layout import SessionFolder
from plait.store.opening import load_journal
from plait.store.records import Told


@dataclass(frozen=True, slots=True)
class Seen:
    """One part of what a model sees."""

    kind: str
    """`system`, `tool`, `message`, or `next`: what goes with the next question."""
    name: str
    """A section's name, a tool's, or who speaks."""
    text: str
    tokens: int
    """About; nobody but the provider knows."""
    stability: str
    """`stable` for every session of a spec, `session` for this one; `volatile` was of one moment, and stays as sent."""


@dataclass(frozen=True, slots=True)
class Sight:
    """All of it, in the order of a request."""

    session: str
    """Empty for one that would begin here."""
    model: str
    parts: tuple[Seen, ...]
    senses: Senses
    instructions: tuple[Mapping[str, object], ...] = ()
    """The instructions files that were looked at when it began: `path`, `scope`, `chars`, `notice`, …"""
    reported_tokens: int | None = None
    """What the provider counted of the last request; None where it did not, or history was replaced since."""
    is_unfinished: bool = False
    """The last turn has not ended: the next one goes on with it."""

    @property
    def tokens(self) -> int:
        """About how many tokens the next request has, without the question."""
        return sum(part.tokens for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        names = ("kind", "name", "stability", "tokens", "text")
        return {
            "session": self.session or None,
            "model": self.model or None,
            "tokens": self.tokens,
            "reported_tokens": self.reported_tokens,
            "unfinished": self.is_unfinished,
            "senses": self.senses.status,
            "instructions": [dict(file) for file in self.instructions],
            "parts": [{name: getattr(part, name) for name in names} for part in self.parts],
        }


@dataclass(frozen=True, slots=True)
class _Scale:
    """Turns texts into tokens, as the provider has counted until now; exactly where there is a counter."""

    per_unit: float = 0.25
    count: TokenCounter | None = None

    def text(self, text: str) -> int:
        return self._tokens(text_units(text)) if self.count is None else self.count(text)

    def tool(self, tool: ToolSchema) -> int:
        return self._tokens(tool_units((tool,))) if self.count is None else count_tools((tool,), self.count).likely

    def message(self, message: Message) -> int:
        if self.count is None:
            return self._tokens(units_of((message,)))
        return count_messages((message,), self.count).likely

    def _tokens(self, units: int) -> int:
        return max(1, round(units * self.per_unit))


def look_at(place: SessionFolder) -> Sight:
    """Return what the model of a kept session sees; nothing is written, and the session may be open.

    Raises:
        JournalError: its journal cannot be read.
    """
    journal = load_journal(place.journal)
    facts = journal.facts
    state = fold(facts)
    told = heads(facts)
    setup = setup_of(told[-1][1]) if told else Setup()
    start: Mapping[str, Any] = next(
        (fact.data for fact in facts if isinstance(fact, Observation) and fact.type == START), {}
    )
    scale = _Scale(state.gauge.per_unit(text_units(setup.system or "") + tool_units(setup.tools), state.history))
    sections = sections_in(setup.system or "", start.get("sections"))
    files = start.get("instructions")
    newest = state.gauge.newest
    return Sight(
        place.path.name,
        str(start.get("model") or ""),
        (*_head(sections, setup, scale), *_messages(state, scale), *_beside(place, journal.told, start, state, scale)),
        Senses.told(start.get("senses")),
        tuple(files) if isinstance(files, (list, tuple)) else (),
        None if newest is None else newest.input,
        state.in_turn and not state.lacks_question,
    )


def _beside(place: SessionFolder, told: Told, start: Mapping[str, Any], state: State, scale: _Scale) -> Iterator[Seen]:
    """Yield what would go with the next question, if the session were opened now."""
    senses = Senses.told(start.get("senses"))
    if (state.in_turn and not state.lacks_question) or not any(senses.status.values()) or not told.times_ms:
        return
    where = Where(
        str(start.get("cwd") or ""),
        str(start.get("model") or ""),
        place.path.name,
        f"plait {__version__}",
        transcript=str(place.journal),
    )
    before = Before.of(told.times_ms[0], told.facts, told.times_ms)
    sensing = Sensing(senses, where, before, SystemClock(), lambda: (state, ToolTable()))
    try:
        texts, _ = sensing.beside_question()
    finally:
        sensing.scratch.close()
    for text in texts:
        yield Seen("next", "beside the question", text, scale.text(text), "volatile")


def look_ahead(schema: Mapping[str, Any], **options: Any) -> Sight:
    """Return what the model of a session that began here would see with its first question; nothing is started.

    Args:
        schema: an agent spec.
        options: keywords of `init_session` about senses and the prompt.

    Raises:
        ConfigError: the spec or an option cannot be used.
    """
    with init_session(schema, durable=False, hooks_enabled=False, trust=False, **options) as session:
        live = session._live
        setup, scale = live.conversation.terms.setup, _Scale(count=live.settings.rules.token_counter)
        texts = [] if live.sensing is None else live.sensing.beside_question()[0]
        tail = [Seen("next", "beside the question", text, scale.text(text), "volatile") for text in texts]
        files: Any = live.standing.told.get("instructions") or ()
        parts = (*_head(sections_now(live), setup, scale), *tail)
        return Sight("", str(session["model"]), parts, live.settings.wording.senses, tuple(files))


def _head(sections: Iterable[Section], setup: Setup, scale: _Scale) -> Iterator[Seen]:
    for tool in setup.tools:
        text = f"{tool.description}\n{json.dumps(tool.custom_format or tool.parameters, ensure_ascii=False)}".strip()
        yield Seen("tool", tool.name, text, scale.tool(tool), "stable")
    for section in sections:
        yield Seen("system", section.name, section.text, scale.text(section.text), section.stability)


def _messages(state: State, scale: _Scale) -> Iterator[Seen]:
    for message in state.history:
        yield Seen("message", message.role, _text_of(message), scale.message(message), "volatile")


def _text_of(message: Message) -> str:
    """Return a message as one text: its words, its calls, its results."""
    lines: list[str] = [f"[thoughts] {message.reasoning}"] if message.reasoning else []
    lines += [message.content] if message.content else []
    for part in message.parts:
        if isinstance(part, ToolCall):
            lines.append(f"→ {part.name} {part.raw}")
        elif isinstance(part, Image):
            lines.append("[a picture]")
    results: Sequence[str] = [f"[{result.call_id}] {result.content}" for result in message.tool_results]
    return "\n".join((*lines, *results))
