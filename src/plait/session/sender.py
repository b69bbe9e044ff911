"""Who speaks, when it is not the user: one line above the task.

Floor: 5. Owns: the kinds of senders and the line; never: what a task says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SENDER_KINDS: Final = frozenset({"human", "supervisor", "launcher", "peer", "hook"})
"""What may ask an agent for something; everybody but `human` is named to the model."""


def sender_header(sender: Mapping[str, object] | None) -> str:
    """Return the line that tells the model who speaks; empty for a person.

    Args:
        sender: `{"kind": one of SENDER_KINDS, "name": text}`; None is a person.

    Raises:
        ValueError: the kind is unknown.
    """
    kind, name = _read(sender)
    return "" if kind == "human" else f"[This turn is from the {kind} {name}, not typed by the operator.]"


def senders_noted(before: Mapping[str, object] | None, sender: Mapping[str, object] | None) -> dict[str, object]:
    """Return what the list of messages says of who asked.

    Args:
        before: the item of an unanswered question that this one goes on from; None where there is none.
    """
    own = [dict(sender)] if sender is not None and sender_label(sender) else []
    if before is None:
        return {"sender": own[0]} if own else {}
    earlier = before.get("sender")
    known = list(earlier) if isinstance(earlier, (list, tuple)) else [earlier] if earlier else []
    return {"sender": [*known, *own]} if known or own else {}


def sender_label(sender: Mapping[str, object] | None) -> str:
    """Return `kind:name` for the record, empty for a person; raise `ValueError` for an unknown kind."""
    kind, name = _read(sender)
    return "" if kind == "human" else f"{kind}:{name}"


def _read(sender: Mapping[str, object] | None) -> tuple[str, str]:
    if sender is None:
        return "human", ""
    kind = sender.get("kind")
    if kind not in SENDER_KINDS:
        raise ValueError(f"no sender is of the kind {kind!r}; the kinds are {', '.join(sorted(SENDER_KINDS))}")
    # One line, so that a name cannot put words of its own into the operator's mouth.
    name = " ".join(str(sender.get("name") or "").split()).replace("]", ")")
    return str(kind), name or "unnamed"
