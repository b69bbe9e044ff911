"""A trace of an agent's runs: one line of JSON for each answer of the model.

Floor: 4. Owns: the trace file and what a line says; never: a conversation in full (that is a journal's).

Arguments stand in a trace as a hash and a length unless it is verbose, and then without secrets. A trace that cannot be
written ends there: it never ends a run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from plait.core.events import Committed, Event
from plait.core.facts import Fact, MessageAdded, Reset, RoundClosed, ToolEnd, ToolStart, TurnEnd, TurnStart
from plait.core.ids import new_id
from plait.core.messages import ToolCall, ToolResult
from plait.core.strict_json import JsonInvalid
from plait.core.usage import Usage
from plait.core.values import dataclass
from plait.events.reducer import iso
from plait.store.disk import make_private_folder
from plait.tools.redaction import Redaction, without_secrets

_HASH_CHARS: Final = 12
_STOP: Final[Mapping[str, str]] = {"tool_calls": "tool_use", "length": "max_tokens"}
"""Reasons that the trace has its own words for."""


class NullTelemetry:
    """Keeps no trace."""

    path: Path | None = None

    def __init__(self, session_id: str | None = None) -> None:
        self.session_id = session_id or new_id("s")

    def handle(self, event: Event) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class JsonlTelemetry(NullTelemetry):
    """Appends to `<log_dir>/<session_id>.jsonl`, line by line, readable by its owner alone.

    Args:
        log_dir: made when the first line is written.
        model: the name that every line carries.
        verbose: arguments in full, but for their secrets.
        redact: takes secrets out of them; what looks like one goes unless given.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        model: str,
        *,
        session_id: str | None = None,
        verbose: bool = False,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(session_id)
        self.path = self._path = Path(log_dir) / f"{self.session_id}.jsonl"
        self.error: OSError | None = None
        """Why nothing more is written."""
        self._model = model
        self._verbose = verbose
        self._redact = redact or Redaction({})
        self._answer: _Answer | None = None
        self._number = 0
        self._compaction: dict[str, object] | None = None
        self._roles: list[str] = []

    def handle(self, event: Event) -> None:
        """Take an event of a run."""
        if isinstance(event, Committed):
            if event.entry.seq == 1:
                self._roles.clear()  # a run's conversation begins
            self._take(event.entry.fact, event.entry.at_ms)

    def close(self) -> None:
        """Write what is left; may be called twice."""
        self._finish()

    def _compacted(self, fact: Reset) -> dict[str, object]:
        """Return what the next line says of a summary; a call and its results are one of the turns that went."""
        before, after = fact.sizes or (None, None)
        turns = sum(role != "tool" for role in self._roles[fact.start : fact.end])
        return {"turns_collapsed": turns, "tokens_before": before, "tokens_after": after}

    def _take(self, fact: Fact, at_ms: int) -> None:
        answer = self._answer
        if isinstance(fact, TurnStart) and not fact.resumed:
            self._number = 0
        elif isinstance(fact, MessageAdded) and fact.message.role == "assistant" and fact.stop is not None:
            self._finish()
            self._answer = _Answer(at_ms, fact.usage or Usage.UNAVAILABLE, fact.stop, fact.message.tool_calls)
        elif isinstance(fact, ToolStart) and answer is not None:
            answer.started.add(fact.call_id)
        elif isinstance(fact, ToolEnd) and answer is not None:
            answer.results[fact.result.call_id] = fact.result
        elif isinstance(fact, Reset) and fact.why == "compaction":
            self._compaction = self._compacted(fact)
        elif isinstance(fact, RoundClosed | TurnEnd):
            self._finish()
        self._follow(fact)

    def _follow(self, fact: Fact) -> None:
        """Keep in mind what kind of message stands where."""
        if isinstance(fact, MessageAdded):
            self._roles.append(fact.message.role)
        elif isinstance(fact, RoundClosed):
            self._roles.append("tool")
        elif isinstance(fact, Reset):
            self._roles[fact.start : fact.end] = [message.role for message in fact.messages]

    def _finish(self) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            return
        cost = answer.usage.cost
        self._write(
            {
                "ts": iso(answer.at_ms),
                "session_id": self.session_id,
                "iteration": self._number,
                "model": self._model,
                "input_tokens": answer.usage.input_tokens,
                "output_tokens": answer.usage.output_tokens,
                "cache_read_tokens": answer.usage.cache_read_tokens,
                "cache_write_tokens": answer.usage.cache_write_tokens,
                "estimated_cost_usd": None if cost is None else round(float(cost), 6),
                "tool_calls": [answer.line(call, self._redact, verbose=self._verbose) for call in answer.calls],
                "stop_reason": _STOP.get(answer.stop, answer.stop),
                "compaction": self._compaction,
            }
        )
        self._number += 1
        self._compaction = None

    def _write(self, line: Mapping[str, object]) -> None:
        if self.error is not None:
            return
        try:
            make_private_folder(self._path.parent)
            with open(self._path, "a", encoding="utf-8", opener=_private) as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            self.error = error


@dataclass
class _Answer:
    """One answer of the model and what became of its calls."""

    at_ms: int
    usage: Usage
    stop: str
    calls: tuple[ToolCall, ...]
    started: set[str] = field(default_factory=set)
    results: dict[str, ToolResult] = field(default_factory=dict)

    def line(self, call: ToolCall, redact: Callable[[str], str], *, verbose: bool) -> dict[str, object]:
        """Return what the trace says of one call: `approved` is null for a call that was not valid."""
        result = self.results.get(call.id)
        denied = result is not None and result.status == "denied"
        approved = True if call.id in self.started else False if denied else None
        arguments = _arguments(call)
        if verbose:
            shown: dict[str, object] = {"arguments": without_secrets(arguments, redact)}
        else:
            text = json.dumps(arguments, sort_keys=True)
            digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARS]
            shown = {"args_sha256": digest, "args_len": len(text)}
        is_error = result is not None and result.is_error
        return {"name": call.name, "approved": approved, "is_error": is_error, **shown}


def _arguments(call: ToolCall) -> object:
    try:
        return call.arguments
    except JsonInvalid:
        return call.raw


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
