"""Answers that hold for the rest of a session: this exact call, leading where it led, needs no second yes.

Floor: 5. Owns: what is remembered, its record in the journal and the proof that it was written here; never: a prompt.

A journal can come from elsewhere, or be edited. So each record is signed with a key of this machine's user, together
with the session's id: an answer in an imported, copied or forged journal is no answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from plait.core.errors import ConfigError
from plait.core.facts import Fact, Observation
from plait.core.messages import ToolCall
from plait.core.strict_json import JsonInvalid
from plait.core.values import dataclass
from plait.engine.approval_signature import ApprovalRequest, KeyRing
from plait.store.layout import state_home

EVENT: Final = "approval_remembered"
KEY_FILE: Final = "approval.key"
_VERSION: Final = "remembered-1"
_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Answer:
    """A yes that holds on."""

    tool: str
    arguments: str
    """As they are read, in one form: JSON with sorted keys, or the text of a call that is no JSON."""
    leads_to: tuple[str, ...] = ()
    """Where its paths led."""
    why: str = ""
    """Why it was asked about, where a rule or a hook wanted that."""

    @classmethod
    def of(cls, call: ToolCall, leads_to: Iterable[str] = (), why: str = "") -> Answer:
        """Return what is remembered of a call."""
        try:
            text = call.raw if call.custom else json.dumps(call.arguments, sort_keys=True)
        except (JsonInvalid, TypeError):
            text = call.raw
        return cls(call.name, text, tuple(leads_to), why)

    def to_dict(self) -> dict[str, object]:
        """Return it as plain JSON."""
        return {"tool": self.tool, "arguments": self.arguments, "leads_to": list(self.leads_to), "why": self.why}

    @classmethod
    def from_dict(cls, told: Mapping[str, object]) -> Answer | None:
        """Read it, or return None for anything else."""
        texts, leads = [told.get(name) for name in ("tool", "arguments", "why")], told.get("leads_to")
        if not all(isinstance(text, str) for text in texts) or not isinstance(leads, (list, tuple)):
            return None
        return cls(str(texts[0]), str(texts[1]), tuple(map(str, leads)), str(texts[2]))


class Remembered:
    """The answers of one session that hold on."""

    def __init__(self, session_id: str, append: Callable[[tuple[Fact, ...]], object], facts: Iterable[Fact]) -> None:
        """Begin with what the facts of the session say; `append` writes further ones."""
        self._id = session_id
        self._append = append
        self._answers = set(answers_in(facts, session_id))

    def __contains__(self, answer: Answer) -> bool:
        return answer in self._answers

    def add(self, answer: Answer) -> None:
        """Remember a yes, and record it; durable with the call that it was for.

        Where the key that proves it cannot be made, the answer counts for this process alone.
        """
        self._answers.add(answer)
        try:
            signed = _ring(may_make=True).signed(_request(answer, self._id))
        except ConfigError:
            return
        told = {"event": EVENT, **answer.to_dict(), "signature": signed.signature}
        self._append((Observation("note", told),))


def answers_in(facts: Iterable[Fact], session_id: str) -> Sequence[Answer]:
    """Return the answers that a session's facts hold and that were written for it on this machine, in their order."""
    told = [f.data for f in facts if isinstance(f, Observation) and f.type == "note" and f.data.get("event") == EVENT]
    if not told:
        return ()
    try:
        ring = _ring(may_make=False)
    except ConfigError:
        return ()
    return [answer for each in told if (answer := _proved(each, session_id, ring)) is not None]


def _proved(told: Mapping[str, object], session_id: str, ring: KeyRing) -> Answer | None:
    answer, signature = Answer.from_dict(told), told.get("signature")
    if answer is None or not isinstance(signature, str):
        return None
    return answer if ring.vouches_for(_request(answer, session_id, signature)) else None


def _request(answer: Answer, session_id: str, signature: str = "") -> ApprovalRequest:
    digest = hashlib.sha256(json.dumps(answer.to_dict(), sort_keys=True).encode()).hexdigest()
    return ApprovalRequest("always", session_id, "", "", answer.tool, digest, _VERSION, signature=signature)


def _ring(*, may_make: bool) -> KeyRing:
    path = state_home(os.environ) / KEY_FILE
    try:
        if may_make:
            _make(path)
        return KeyRing([path.read_bytes()])
    except (OSError, ValueError) as error:
        raise ConfigError(f"the key of remembered answers {str(path)!r} cannot be used: {error}") from error


def _make(path: Path) -> None:
    """Make the key where there is none: whole under another name first, so that nobody reads half of it."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{KEY_FILE}.{secrets.token_hex(8)}")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(secrets.token_bytes(_KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink()
