"""Reading long outputs in slices, by the name that a command's answer told.

Floor: 3. Owns: the tool `read_output`; never: where outputs are kept.
"""

from __future__ import annotations

from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.text import until_whole_character
from plait.tools.answer import Answer
from plait.tools.coding.artifacts import ArtifactStore
from plait.tools.coding.limits import CodingLimits
from plait.tools.coding.permission import Permission

_CHARACTER_BYTES: Final = 4
"""The longest in UTF-8: so much at least is read, so that every slice goes on."""


@dataclass(frozen=True, slots=True)
class CodingOutputs:
    """The tool that reads what commands have printed."""

    permission: Permission
    limits: CodingLimits
    artifacts: ArtifactStore

    def read_output(self, reference: str, offset: int = 0, limit: int | None = None) -> Answer:
        """Return a slice of an output; a slice never ends inside a character, and the next begins where it ended."""
        most = self.limits.read_bytes if limit is None else min(limit, self.limits.read_bytes)
        if offset < 0 or most < 1:
            raise Refusal("INVALID_INPUT", "there is no such slice", hint="give an offset from 0 and a limit from 1")
        self.permission.require("read_output", reference=reference, offset=offset, limit=most)
        found = self.artifacts.read(reference, offset, max(most, _CHARACTER_BYTES))
        if found is None:
            raise Refusal(
                "SPILL_REFERENCE_UNKNOWN",
                f"no output is kept as {reference!r}",
                hint="run the command again",
                details={"reference": reference},
            )
        end = offset + len(found.data)
        data = found.data if end >= found.size_bytes else until_whole_character(found.data) or found.data
        end, has_more = offset + len(data), offset + len(data) < found.size_bytes
        text = data.decode("utf-8", "replace")
        told: dict[str, object] = {"size_bytes": found.size_bytes, "offset": offset, "truncated": has_more}
        if has_more:
            told["next_offset"] = end
            text = f"{text}\n[bytes {offset}-{end} of {found.size_bytes}; go on with offset={end}]"
        return text or "(nothing)", told
