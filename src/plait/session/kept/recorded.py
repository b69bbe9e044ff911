"""What a session says of itself when it begins, and what that means for whoever goes on with it.

Floor: 5. Owns: the terms that are kept for a resume (endpoint, model, where the key is), and porting to others;
never: a key, a request.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from plait._version import __version__
from plait.core.facts import Entry, Fact, MessageAdded, Observation
from plait.core.values import dataclass
from plait.engine.agent_spec import endpoint_of, model_of
from plait.models.endpoint import kept_address
from plait.session.kept.heads import START
from plait.session.spec_terms import key_source_of
from plait.store.glance import said_at_start
from plait.store.layout import SessionFolder
from plait.store.opening import load_journal
from plait.store.salvage import write_journal
from plait.store.sharing import share_contents

Schema = Mapping[str, Any]

_KEY_FIELDS: Final = ("auth", "inference_db", "key_env", "keyring_service", "keyring_username")
_NAME_CHARS: Final = 50
PINNED: Final = "provider_pinned"
"""What is recorded when a router's requests stay with a provider."""


@dataclass(frozen=True, slots=True)
class RecordedTerms:
    """The terms that a session began on; empty where it did not say."""

    model: str = ""
    endpoint: str = ""
    key: Mapping[str, str] | None = None
    """Where its key is: fields of an agent spec, never a key. None where it did not say."""
    cwd: str = ""
    ported_from: Mapping[str, object] = field(default_factory=dict)
    tools: frozenset[str] = frozenset()
    """The names of those that it was shown."""

    @classmethod
    def of(cls, place: SessionFolder) -> RecordedTerms:
        """Read what a session said first of all; raise `JournalError` where it cannot be read."""
        return cls.told(said_at_start(place.journal))

    @classmethod
    def told(cls, said: Mapping[str, object]) -> RecordedTerms:
        """Understand what a session said."""
        key = said.get("key", said.get("auth"))
        ported = said.get("ported_from")
        return cls(
            _text(said.get("model")),
            _text(said.get("endpoint")),
            {name: str(key[name]) for name in _KEY_FIELDS if key.get(name)} if isinstance(key, Mapping) else None,
            _text(said.get("cwd")),
            ported if isinstance(ported, Mapping) else {},
            _names(said.get("tools")),
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """An agent spec on the terms of a session that goes on."""

    schema: Schema
    notice: str = ""
    """What of the given spec is not used, as one line; empty for nothing."""


def start_of(session: Mapping[str, Any], key: Mapping[str, str], cwd: str, setup: Mapping[str, object]) -> Observation:
    """Return what is recorded of a session when its first turn begins; `setup` is what its requests have in common."""
    told: dict[str, object] = {
        "model": session["model"],
        "endpoint": session["endpoint"],
        "key": dict(key),
        "cwd": cwd,
        **setup,
        "structured": session["structured"],
        "plait": __version__,
    }
    return Observation(START, told)


def _names(tools: object) -> frozenset[str]:
    entries = tools if isinstance(tools, list) else []
    return frozenset(str(entry.get("name", "")) for entry in entries if isinstance(entry, Mapping))


def provider_recorded(facts: Iterable[Fact]) -> str | None:
    """Return the provider that a router's requests stayed with, None where there was none."""
    found: object = None
    for fact in facts:
        if isinstance(fact, Observation) and fact.type == PINNED:
            found = fact.data.get("provider")
    return found if isinstance(found, str) else None


def bind(schema: Schema, recorded: RecordedTerms) -> Bound:
    """Return a spec that asks where the session was begun, with the key from where it came; the given one stays."""
    bound: dict[str, Any] = copy.copy(schema) if isinstance(schema, dict) else dict(schema)
    unused: list[str] = []
    given = kept_address(endpoint_of(schema))
    if recorded.endpoint and given.rstrip("/") != recorded.endpoint.rstrip("/"):
        bound["endpoint"] = recorded.endpoint
        unused += [f"endpoint {given}"] if given else []
    own = key_source_of(schema)
    if recorded.key is not None and own != dict(recorded.key):
        for name in _KEY_FIELDS:
            bound.pop(name, None)
        bound.update(recorded.key)
        unused += [f"{name} {value}" for name, value in own.items() if recorded.key.get(name) != value]
    if not unused:
        return Bound(bound)
    key = ", ".join(f"{name} {value}" for name, value in (recorded.key or {}).items()) or "its own key"
    where = f"{recorded.model} at {recorded.endpoint} with {key}"
    return Bound(bound, f"the session goes on with {where}; not used: {', '.join(unused)}")


def port(place: SessionFolder, id: str, schema: Schema) -> SessionFolder:
    """Return a session's copy for another model or provider; made now, or the one that was made before.

    The session itself is left as it is; its messages stay valid for the other model, whatever its wire.
    """
    new = SessionFolder(place.path.with_name(ported_name(id, schema)))
    if new.journal.exists():
        return new
    journal = load_journal(place.journal)
    said = next((fact.data for fact in journal.facts if isinstance(fact, Observation) and fact.type == START), {})
    source = {"session_id": id, "model": said.get("model", ""), "endpoint": said.get("endpoint", "")}
    told = {
        **said,
        "model": model_of(schema),
        "endpoint": kept_address(endpoint_of(schema)),
        "key": key_source_of(schema),
    }
    start = Observation(START, {**told, "ported_from": source})
    facts: list[tuple[int, Fact]] = [(journal.told.times_ms[0] if journal.seq else 0, start)]
    for entry in journal.entries:
        fact = entry.fact
        if isinstance(fact, MessageAdded):
            fact = replace(fact, sent="")  # nobody ever sent this to the other model
        # The copy may ask another model, which the provider of this one need not have.
        if not (isinstance(fact, Observation) and fact.type in (START, PINNED)):
            facts.append((entry.at_ms, fact))
    entries = [Entry(seq, at_ms, "", fact) for seq, (at_ms, fact) in enumerate(facts, 1)]
    write_journal(new.path, new.path.name, {**journal.header, "ported_from": source}, entries)
    share_contents(place.path, new.path)
    return new


def ported_name(id: str, schema: Schema) -> str:
    """Return what a session's copy for another model is called: always the same for the same model and endpoint."""
    where = f"{model_of(schema)}\n{endpoint_of(schema).rstrip('/')}"
    return f"{id[:_NAME_CHARS]}-{hashlib.sha256(where.encode()).hexdigest()[:8]}"


def home_of(recorded: RecordedTerms) -> Path | None:
    """Return the folder that a session works in, None where it did not say or it is gone."""
    return Path(recorded.cwd) if recorded.cwd and Path(recorded.cwd).is_dir() else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
