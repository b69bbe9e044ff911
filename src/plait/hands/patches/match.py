"""Where a hunk belongs in a file: by its lines, exactly if possible, and never in one of two places.

Floor: 2. Owns: the place of a hunk and in what its lines differ from those there; never: the new text.

Lines are compared in steps: as they are; but for line ends; but for blanks at their ends; but for an indentation by
which all are shifted alike; but for quotes, dashes and accents. The first step that finds a place decides. The place
that a unified diff names is taken where its lines are there; without that a place has to be the only one, or the
first behind the lines that `@@` names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Literal

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.hands.editing.near_match import Shift, folded, shift_between
from plait.hands.patches.hints import why_no_place
from plait.hands.patches.parts import Hunk

How = Literal["exactly", "line ends", "blanks", "indentation", "characters"]
"""In what the lines of a hunk and of its place differ."""

_HOW: Final[tuple[How, ...]] = ("exactly", "line ends", "blanks", "indentation", "characters")
_PLACES_MAX: Final = 20
_LINES_MAX: Final = 400_000
"""Longer files are matched exactly, or but for line ends."""
_BLANKS: Final = " \t"


@dataclass(frozen=True, slots=True)
class Placed:
    """A hunk at its place."""

    hunk: Hunk
    start: int
    """Index of the first line that it speaks of, or of the line before which it adds."""
    how: How = "exactly"

    @property
    def end(self) -> int:
        """Index behind the last line that it speaks of."""
        return self.start + len(self.hunk.old)


def bare(line: str) -> str:
    """Return a line without its end."""
    return line.removesuffix("\n").removesuffix("\r")


class Ground:
    """The lines of a file, each with its end, and what they are compared by."""

    def __init__(self, lines: Sequence[str], shown: str) -> None:
        self.lines = lines
        self.shown = shown
        self._keyed: dict[How, list[str]] = {}
        self._indexed: dict[How, dict[str, list[int]]] = {}

    def keyed(self, how: How) -> list[str]:
        """Return what the lines are compared by."""
        if how not in self._keyed:
            self._keyed[how] = [_key(line, how) for line in self.lines]
            if how != "exactly" and self.lines and self.lines[0].startswith("\ufeff"):
                self._keyed[how][0] = _key(self.lines[0][1:], how)
        return self._keyed[how]

    def find(self, wanted: Sequence[str], how: How, *, is_at_end: bool) -> list[int]:
        """Return where the wanted lines stand; not more places than are worth naming."""
        if is_at_end:
            at = len(self.lines) - len(wanted)
            return [at] if self.is_there(wanted, how, at) else []
        # Where the rarest of the lines is: a patch may have many hunks, and a file many lines that are alike.
        places = self._places(how)
        offset, rarest = min(enumerate(wanted), key=lambda each: len(places.get(each[1], ())))
        found = (at - offset for at in places.get(rarest, ()) if self.is_there(wanted, how, at - offset))
        return list(islice(found, _PLACES_MAX + 1))

    def _places(self, how: How) -> dict[str, list[int]]:
        """Return where each line stands."""
        if how not in self._indexed:
            indexed: dict[str, list[int]] = {}
            for at, line in enumerate(self.keyed(how)):
                indexed.setdefault(line, []).append(at)
            self._indexed[how] = indexed
        return self._indexed[how]

    def is_there(self, wanted: Sequence[str], how: How, at: int) -> bool:
        """Say whether the wanted lines stand at a place."""
        keyed, last = self.keyed(how), at + len(wanted) - 1
        if at < 0 or last >= len(keyed) or keyed[at] != wanted[0] or keyed[last] != wanted[-1]:
            return False
        return keyed[at : last + 1] == wanted


def place(ground: Ground, hunk: Hunk, after: int, of: int) -> Placed:
    """Find the place of a hunk.

    Args:
        after: where the one before it ends: what comes there is preferred.
        of: how many hunks the file has.

    Raises:
        Refusal: `CONFLICT`, with the hunk, where it is in the patch, and the lines of the file that are nearest.
    """
    if not hunk.old:
        return Placed(hunk, _place_of_addition(ground, hunk, after, of))
    smaller = hunk.without_gap()
    for tried in (hunk,) if smaller == hunk or not smaller.lines else (hunk, smaller):
        if not tried.old:
            return Placed(tried, _place_of_addition(ground, tried, after, of))
        placed = _search(ground, tried, after, of)
        if placed is not None:
            return placed
    raise _refused(ground, hunk, of, "does not match", why_no_place(ground.lines, hunk))


def _search(ground: Ground, hunk: Hunk, after: int, of: int) -> Placed | None:
    for how in _HOW if len(ground.lines) <= _LINES_MAX else _HOW[:2]:
        wanted = _wanted(hunk, how)
        if how not in ("exactly", "line ends") and not any(line.strip() for line in wanted):
            continue  # blank lines are alike everywhere
        at = _only(ground, hunk, how, wanted, (after, of))
        if at is not None and (how != "indentation" or _is_shifted_alike(ground, hunk, at)):
            return Placed(hunk, at, how)
    return None


def _only(ground: Ground, hunk: Hunk, how: How, wanted: list[str], where: tuple[int, int]) -> int | None:
    """Return the one place that can be meant; None where there is none."""
    if hunk.line is not None and ground.is_there(wanted, how, hunk.line - 1):
        return hunk.line - 1
    found = ground.find(wanted, how, is_at_end=hunk.is_at_end)
    if not found and hunk.is_at_end:
        found = ground.find(wanted, how, is_at_end=False)
    if len(found) > 1 and hunk.anchors:
        found = _behind(ground, hunk, found, where[1])
    if len(found) > 1:
        found = [at for at in found if at >= where[0]] or found
    if len(found) > 1:
        lines = ", ".join(str(at + 1) for at in found[:_PLACES_MAX]) + (", …" if len(found) > _PLACES_MAX else "")
        advice = "add lines around it, or an @@ line with the function or class that it is in"
        raise _refused(ground, hunk, where[1], f"could be at any of the lines {lines}", advice)
    return found[0] if found else None


def _behind(ground: Ground, hunk: Hunk, found: list[int], of: int) -> list[int]:
    """Return the places that come first behind the anchors."""
    starts = _anchored(ground, hunk)
    if not starts:
        raise _refused(ground, hunk, of, f"names a line that is not there: {hunk.anchors[-1]!r}", _COPY)
    # A hunk may begin with the very line that its anchor names.
    return sorted(
        {next((at for at in found if at >= start - 1), found[-1]) for start in starts if start - 1 <= found[-1]}
    )


def _anchored(ground: Ground, hunk: Hunk) -> list[int]:
    """Return the indices behind the lines that the last anchor names, behind those of the anchors before it."""
    floor = 0
    places: list[int] = []
    for anchor in hunk.anchors:
        places = _named(ground.lines, anchor, floor)
        if not places:
            return []
        floor = places[0]
    return places


def _named(lines: Sequence[str], anchor: str, floor: int) -> list[int]:
    """Return the indices behind the lines that an anchor names: the same text, else what begins or contains it."""
    anchor = anchor.strip()
    tests: tuple[Callable[[str], bool], ...] = (
        lambda line: line == anchor,
        lambda line: line.startswith(anchor),
        lambda line: anchor in line,
        lambda line: folded(line) == folded(anchor),
    )
    for test in tests:
        found = [at + 1 for at in range(floor, len(lines)) if test(lines[at].strip())]
        if found:
            return found
    return []


def _place_of_addition(ground: Ground, hunk: Hunk, after: int, of: int) -> int:
    """Return where a hunk belongs that only adds lines: where the diff says, behind its anchor, or at the end."""
    if hunk.line is not None:
        if hunk.line > len(ground.lines):
            raise _refused(ground, hunk, of, f"adds lines after line {hunk.line}", _shorter(ground))
        return hunk.line
    if not hunk.anchors:
        return len(ground.lines)
    starts = _anchored(ground, hunk)
    if not starts:
        raise _refused(ground, hunk, of, f"names a line that is not there: {hunk.anchors[-1]!r}", _COPY)
    starts = [at for at in starts if at >= after] or starts
    if len(starts) > 1:
        lines = ", ".join(str(at) for at in starts[:_PLACES_MAX])
        raise _refused(ground, hunk, of, f"could be behind any of the lines {lines}", "add lines around it")
    return starts[0]


_COPY: Final = "copy the line behind @@ from the file, or leave the @@ line empty and give lines around the change"


def _shorter(ground: Ground) -> str:
    return f"the file has {len(ground.lines)} lines; read it again"


def _wanted(hunk: Hunk, how: How) -> list[str]:
    if how == "exactly":
        return [line.text + ("\n" if line.has_end else "") for line in hunk.old]
    return [_key(line.text.removeprefix("\ufeff") if at == 0 else line.text, how) for at, line in enumerate(hunk.old)]


def _key(line: str, how: How) -> str:
    if how == "exactly":
        return line
    line = bare(line)
    if how == "line ends":
        return line
    if how == "blanks":
        return line.rstrip(_BLANKS)
    return line.strip(_BLANKS) if how == "indentation" else folded(line).rstrip(_BLANKS)


def _is_shifted_alike(ground: Ground, hunk: Hunk, at: int) -> bool:
    return shift_of(hunk, ground.lines[at : at + len(hunk.old)]) is not None


def shift_of(hunk: Hunk, here: Sequence[str]) -> Shift | None:
    """Return the rule that gives the hunk's indentations as they are in the file; None without one rule for all."""
    return shift_between([line.text.rstrip("\r") for line in hunk.old], [bare(line) for line in here])


def _refused(ground: Ground, hunk: Hunk, of: int, what: str, hint: str) -> Refusal:
    which = f"hunk {hunk.number} of {of}" if of > 1 else "the hunk"
    return Refusal(
        "CONFLICT",
        f"{which} for {ground.shown!r} (line {hunk.patch_line} of the patch) {what}",
        hint=hint,
        details={"path": ground.shown, "hunk": hunk.number, "patch_line": hunk.patch_line},
    )
