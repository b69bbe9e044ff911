"""A session once more: the loop of today on what was recorded, and every request beside the one that was sent.

Floor: 5. Owns: which setup and which model a replay asks about; never: a connection, a tool, a file's change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from plait.context.sections import sections_in
from plait.core.exchange import ToolSchema
from plait.core.facts import Fact, Observation
from plait.core.values import dataclass
from plait.engine.request_form import forms
from plait.kernel.effects import Think
from plait.kernel.ports import Model, Setup
from plait.kernel.rerun import Rerun, rerun
from plait.kernel.rules import Retry
from plait.kernel.tools import Tool, ToolTable
from plait.models.chat_model import ChatChannel
from plait.models.form import Form
from plait.models.line import Line
from plait.session import prompt
from plait.session.clients import Wishes, create_client, model_for
from plait.session.hooks.hooked import CONTEXT
from plait.session.kept.heads import PROMPT, START, heads, setup_of, told_of
from plait.session.kept.keeping import kept_at
from plait.session.live import Live
from plait.session.opening import init_session
from plait.store.layout import SessionFolder
from plait.store.opening import load_journal
from plait.store.sessions import Sessions

_PATIENT: Final = Retry(attempts_max=1_000_000, stated_wait_max_s=float("inf"))
"""How often and how long to try was the caller's: the log says when it gave up."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of every request that plait would send otherwise today."""

    name: str
    """`system` or `tools`."""
    recorded: object
    now: object


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay found."""

    told: Rerun
    sections: Sequence[Section] = ()
    """What a new session of today would begin with instead. The requests were compared on what was recorded."""
    body: bytes = b""
    """The request of today, where one differs."""
    common_bytes: int = 0
    """So much of it is also the beginning of the request before, which came out as it was sent."""

    @property
    def is_same(self) -> bool:
        """Say whether nothing differs."""
        return self.told.difference is None and not self.sections


def replay_session(session: SessionFolder | str | os.PathLike[str], schema: Mapping[str, Any]) -> Replay:
    """Run a session again from its journal, which may be open elsewhere; nothing is sent, run or written.

    Limits that end a turn were its caller's: where one did, the turn ends again.

    Args:
        session: its name, the beginning of one, or its folder.
        schema: the agent spec that it goes on with.

    Raises:
        ConfigError: the spec cannot be used, or there is no such session. JournalError: the journal cannot be read.
    """
    place = session if isinstance(session, SessionFolder) else _place(os.fspath(session))
    facts = load_journal(place.journal).facts
    told = heads(facts)
    setups = [(seq, setup_of(each)) for seq, each in told]
    start = _start(facts)
    supplement, bare = str(start.get("supplement") or ""), start.get("bare") is True
    with (
        create_client(schema) as client,
        init_session(
            schema,
            resumed_from=str(place.path),
            durable=False,
            system_prompt_supplement=supplement,
            bare=bare,
            hooks_enabled=False,
        ) as opened,
    ):
        live: Live = opened._live
        model = model_for(client, opened["model"], Wishes(opened["structured"], live.settings.streams))
        lines = _Lines(model, setups, forms(facts))
        tools = live.conversation.terms.tools
        table = _table(tools, {tool.name: tool for _, setup in setups for tool in setup.tools}.values(), facts)
        rules = replace(live.settings.rules, max_steps=None, retry=_PATIENT)
        found = rerun(facts, table, rules, lines.fingerprint)
        # Neither hooks nor files are asked again: what they had said is what they would say.
        said = sections_in(setups[0][1].system or "", start.get("sections")) if setups else ()
        files = tuple(section for section in said if section.name.startswith("instructions ("))
        system = prompt.compose(replace(live.settings.wording, instructions=files), tools.schemas)
        system = "\n\n".join(filter(None, (system, str(start.get(CONTEXT) or ""))))
        now = told_of(Setup(system, tools.schemas))
    sections = _sections(told[-1][1], now) if told else ()
    if found.difference is None or found.difference.ask is None:
        return Replay(found, sections)
    before, body = lines.last
    return Replay(found, sections, body, common_length(before, body))


def _place(text: str) -> SessionFolder:
    return kept_at(text) or Sessions.of(os.environ).find(text)


def common_length(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many characters, or bytes, two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (own, its) in pairs if own != its), min(len(one), len(other)))


class _Lines:
    """The lines that a session's requests went over, one for each setup and form; none is ever connected."""

    def __init__(self, model: Model, setups: Sequence[tuple[int, Setup]], forms: Sequence[tuple[int, Form]]) -> None:
        self._model = model
        self._setups = setups or [(0, Setup())]
        self._forms = forms
        self._open: dict[tuple[int, Form], Line] = {}
        self._asked: list[tuple[Think, int]] = []

    def fingerprint(self, ask: Think, seq: int) -> str:
        """Return by what the request is known that an entry answers."""
        self._asked = [*self._asked[-1:], (ask, seq)]
        return self._line(seq).fingerprint(ask)

    @property
    def last(self) -> tuple[bytes, bytes]:
        """The last request but one that was asked about, and the last one."""
        bodies = [self._line(seq).compose(ask).body for ask, seq in self._asked]
        return (bodies[0], bodies[1]) if len(bodies) == 2 else (b"", bodies[0])

    def _line(self, seq: int) -> Line:
        counting = [each for each in self._setups if each[0] <= seq]
        since, setup = counting[-1] if counting else self._setups[0]
        form = next((form for since, form in reversed(self._forms) if since <= seq), Form())
        if (since, form) not in self._open:
            channel = self._model.open(setup)
            assert isinstance(channel, ChatChannel), "whoever recorded a digest had a line"
            channel.line.take_on(form)
            self._open[since, form] = channel.line
        return self._open[since, form]


def _start(facts: Iterable[Fact]) -> Mapping[str, object]:
    """Return what the session said of itself first of all."""
    said = (fact.data for fact in facts if isinstance(fact, Observation) and fact.type == START)
    return next(said, {})


def _table(tools: ToolTable, schemas: Iterable[ToolSchema], facts: Iterable[Fact]) -> ToolTable:
    """Return today's tools, and of those that only the session had, who made it, as much as a replay needs."""

    told = [fact.data for fact in facts if isinstance(fact, Observation) and fact.type in (START, PROMPT)]

    def names(key: str) -> frozenset[str]:
        return frozenset(str(name) for data in told if isinstance(found := data.get(key), list) for name in found)

    side_by_side, ending = names("side_by_side"), names("ends_turn")
    gone = [
        Tool(
            schema.name,
            schema.description,
            _never,
            schema.parameters,
            custom_format=schema.custom_format,
            parallel_safe=schema.name in side_by_side,
            ends_turn=schema.name in ending,
        )
        for schema in schemas
        if tools.get(schema.name) is None
    ]
    return tools.of([*tools, *gone]) if gone else tools


def _never() -> None:
    raise AssertionError("a replay runs no tool")


def _sections(recorded: Mapping[str, object], now: Mapping[str, object]) -> tuple[Section, ...]:
    """Say what today's plait would begin a request with instead; tools of the session's own maker are his affair."""
    known = {tool["name"]: tool for tool in _tools(now)}
    before = [tool for tool in _tools(recorded) if tool["name"] in known]
    found = []
    if "system" in recorded and recorded["system"] != now["system"]:
        found.append(Section("system", recorded["system"], now["system"]))
    if "tools" in recorded and before != list(known.values()):
        found.append(Section("tools", before, list(known.values())))
    return tuple(found)


def _tools(told: Mapping[str, object]) -> list[Mapping[str, object]]:
    tools = told.get("tools")
    return [tool for tool in tools if isinstance(tool, Mapping) and "name" in tool] if isinstance(tools, list) else []
