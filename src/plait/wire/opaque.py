"""Joining a provider's own reasoning records from the pieces a stream sends.

Floor: 1. Owns: which pieces belong together; never: what is in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_JOINED = ("text", "thinking", "summary", "data")
"""Fields whose pieces are joined; every other field is the last one that came."""
_WHOLE = ("reasoning.encrypted", "redacted_thinking")
"""Types whose records come in one piece."""


def is_signed(record: object) -> bool:
    """Say whether a record can be sent back: a thinking block whose signature never came would be refused."""
    return not (isinstance(record, Mapping) and record.get("type") == "thinking" and not record.get("signature"))


class DetailMerger:
    """Joins `thinking_blocks` or `reasoning_details`: by index where they have one, else while the type stays."""

    def __init__(self) -> None:
        self._records: list[dict[str, object]] = []

    def add(self, pieces: Sequence[object]) -> str:
        """Take the records of one delta; return the readable text in them."""
        shown = []
        for piece in pieces:
            if isinstance(piece, Mapping):
                self._add_one(piece)
                shown += [text for name in _JOINED[:3] if isinstance(text := piece.get(name), str)]
        return "".join(shown)

    def items(self) -> list[dict[str, object]]:
        """Return the records as they stand."""
        return [dict(record) for record in self._records]

    def _add_one(self, piece: Mapping[str, object]) -> None:
        record = self._record_for(piece)
        if record is None:
            self._records.append(dict(piece))
            return
        for key, value in piece.items():
            old = record.get(key)
            if key in _JOINED and isinstance(old, str) and isinstance(value, str):
                record[key] = old + value
            elif value is not None and value != "":
                record[key] = value

    def _record_for(self, piece: Mapping[str, object]) -> dict[str, object] | None:
        index, kind = piece.get("index"), piece.get("type")
        if kind in _WHOLE:
            return None
        if index is not None:
            same = (item for item in self._records if item.get("index") == index and item.get("type") == kind)
            return next(same, None)
        last = self._records[-1] if self._records else None
        return last if last is not None and last.get("type") == kind and not last.get("signature") else None
