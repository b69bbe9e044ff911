"""A prompt as named sections, each with how long it stays as it is.

Floor: 3. Owns: the order of joining and the way back from a recorded prompt; never: what a section says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from plait.core.values import dataclass

Stability = Literal["stable", "session", "volatile"]
"""`stable`: the same for every session of a spec. `session`: fixed when a session begins. `volatile`: never in the
prompt, but in messages, where it stays as it was sent."""

_BETWEEN: Final = "\n\n"
REST: Final = "added"
"""What stands in a prompt behind its sections: a hook's context, or a host's words."""


@dataclass(frozen=True, slots=True)
class Section:
    """A named part of what a model is told."""

    name: str
    stability: Stability
    text: str

    def to_dict(self) -> dict[str, object]:
        """Return what is recorded of it: its length finds it again in the prompt."""
        return {"name": self.name, "stability": self.stability, "chars": len(self.text)}


def joined(sections: Iterable[Section]) -> str:
    """Return the prompt: the sections that say something, a blank line between two."""
    return _BETWEEN.join(section.text for section in sections if section.text)


def with_rest(sections: Sequence[Section], prompt: str) -> tuple[Section, ...]:
    """Return the sections of a prompt to which something was added; one section where they are not in it any more."""
    told = [section for section in sections if section.text]
    text = joined(told)
    if text == prompt:
        return tuple(told)
    if text and prompt.startswith(text + _BETWEEN):
        return (*told, Section(REST, "session", prompt[len(text + _BETWEEN) :]))
    return (Section("system", "session", prompt),) if prompt else ()


def sections_in(prompt: str, recorded: object) -> tuple[Section, ...]:
    """Cut a prompt into what was recorded of its sections; one section where that does not fit it."""
    found: list[Section] = []
    at = 0
    for each in recorded if isinstance(recorded, (list, tuple)) else ():
        if not isinstance(each, Mapping) or not isinstance(each.get("chars"), int):
            break
        size = int(each["chars"])
        stability: Stability = "stable" if each.get("stability") == "stable" else "session"
        found.append(Section(str(each.get("name", "")), stability, prompt[at : at + size]))
        at += size + len(_BETWEEN)
    return with_rest(found, prompt)
