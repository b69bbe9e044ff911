"""Glob patterns over relative paths, compiled so that no pattern and no name can make matching slow.

Floor: 2. Owns: `*` `?` `[…]` `{a,b}` `**`; never: the file system.

`*` and `?` stay within one name and match a leading dot; `**/` is any number of directories, also none; a last `**`
is everything below; a `/` at the end means directories only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from plait.core.errors import Refusal
from plait.core.values import dataclass

_CHARS_MAX: Final = 1_000
_ALTERNATIVES_MAX: Final = 100
_ANY_DEPTH_MAX: Final = 4
"""`**` more often than this in one pattern would let matching time grow with the depth to that power."""
_MAGIC: Final = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True)
class Glob:
    """A compiled pattern; `base` are the directories that it names literally, `matches` is told what is below."""

    base: tuple[str, ...]
    _whole: re.Pattern[str]
    only_directories: bool

    def matches(self, path: str, *, is_directory: bool = False) -> bool:
        """Say whether a path below `base` fits."""
        return (is_directory or not self.only_directories) and self._whole.fullmatch(path) is not None


def compile_glob(pattern: str, *, at_any_depth: bool = False, splits_base: bool = True) -> Glob:
    """Compile a relative pattern. Raises `Refusal` for one that is absolute, leads upwards or is too large.

    With `at_any_depth` a pattern without `/` matches a name in any directory, as in a `.gitignore`. With
    `splits_base` the leading directories without wildcards become `base`.
    """
    _refuse_unusable(pattern)
    only_directories = pattern.endswith("/")
    names = [name for name in pattern.split("/") if name not in {"", "."}]
    if ".." in names:
        raise Refusal("INVALID_INPUT", f"the pattern {pattern!r} has '..'", hint="a pattern only leads downwards")
    if at_any_depth and len(names) == 1:
        names = ["**", *names]
    base = [*_literal_directories(names)] if splits_base else []
    alternatives = list(_expand("/".join(names[len(base) :]) or "**", pattern))
    whole = "|".join(_translate(alternative, pattern) for alternative in alternatives)
    return Glob(tuple(base), re.compile(f"(?s:{whole})"), only_directories)


def split_absolute(pattern: str) -> tuple[str, str]:
    """Split an absolute pattern into the path of its literal directories and a pattern below it."""
    names = pattern.split("/")
    count = 1 + len(list(_literal_directories(names[1:])))
    return "/".join(names[:count]) or "/", "/".join(names[count:]) or "**"


def translate_name(name: str, *, escapes: bool = False) -> str:
    """Return the regular expression of a pattern for one name.

    `escapes` is the way of a `.gitignore`: `\\` takes the next character as it is, and a `[` that is never closed
    makes a pattern that fits nothing (elsewhere it stands for itself).
    Between two stars the earliest fit is taken for good (an atomic group), as a later one can never do better.
    """
    pieces = [""]
    at = 0
    while at < len(name):
        character = name[at]
        at += 1
        if character == "*":
            pieces += [""] if pieces[-1] or len(pieces) == 1 else []
        elif character == "?":
            pieces[-1] += "[^/]"
        elif character == "[" and (found := _character_class(name, at, escapes)):
            text, at = found
            pieces[-1] += text
        elif character == "[" and escapes:
            return "(?!)"
        elif character == "\\" and escapes and at < len(name):
            pieces[-1] += re.escape(name[at])
            at += 1
        else:
            pieces[-1] += re.escape(character)
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle) + f"[^/]*{last}"


def split_names(pattern: str) -> list[str]:
    """Split a `.gitignore` pattern at its slashes, but for those in brackets, where one is a character."""
    names = [""]
    at = 0
    while at < len(pattern):
        found = _character_class(pattern, at + 1, True) if pattern[at] == "[" else None
        end = found[1] if found else at + 2 if pattern[at] == "\\" else at + 1
        if pattern[at:end] == "/":
            names.append("")
        else:
            names[-1] += pattern[at:end]
        at = end
    return names


def _refuse_unusable(pattern: str) -> None:
    if not pattern or len(pattern) > _CHARS_MAX:
        raise Refusal(
            "INVALID_INPUT", f"a pattern of {len(pattern)} characters", hint=f"use between 1 and {_CHARS_MAX}"
        )
    if pattern.startswith("/"):
        raise Refusal("INVALID_INPUT", f"the pattern {pattern!r} is absolute", hint="make it relative to the workspace")
    if "\\" in pattern or "\0" in pattern:
        raise Refusal(
            "INVALID_INPUT",
            f"the pattern {pattern!r} has a backslash or NUL",
            hint="separate names by '/'; a wildcard character is matched literally in brackets: [*]",
        )


def _literal_directories(names: list[str]) -> Iterator[str]:
    for name in names[:-1]:
        if _MAGIC.search(name):
            return
        yield name


def _expand(pattern: str, whole: str) -> Iterator[str]:
    """Yield a pattern once for each choice of its braces."""
    waiting = [pattern]
    count = 0
    while waiting:
        current = waiting.pop(0)
        found = _first_braces(current)
        if found is None:
            yield current
            count += 1
        else:
            before, choices, after = found
            waiting += [f"{before}{choice}{after}" for choice in choices]
        if count + len(waiting) > _ALTERNATIVES_MAX:
            raise Refusal(
                "INVALID_INPUT", f"the braces of {whole!r} give too many patterns", hint=f"{_ALTERNATIVES_MAX} at most"
            )


def _first_braces(pattern: str) -> tuple[str, list[str], str] | None:
    """Split at the first balanced braces with a comma in them: what is before, the choices, what is after."""
    start = pattern.find("{")
    while start >= 0:
        depth, cuts = 0, [start]
        for at in range(start, len(pattern)):
            if pattern[at] == "{":
                depth += 1
            elif pattern[at] == "," and depth == 1:
                cuts.append(at)
            elif pattern[at] == "}":
                depth -= 1
                if not depth:
                    cuts.append(at)
                    break
        if not depth and len(cuts) > 2:
            choices = [pattern[one + 1 : other] for one, other in pairwise(cuts)]
            return pattern[:start], choices, pattern[cuts[-1] + 1 :]
        start = pattern.find("{", start + 1)
    return None


def _translate(pattern: str, whole: str) -> str:
    names: list[str] = []
    for name in pattern.split("/"):
        if not (name == "**" and names[-1:] == ["**"]):
            names.append(name)
    if names.count("**") > _ANY_DEPTH_MAX:
        raise Refusal("INVALID_INPUT", f"{whole!r} has '**' too often", hint=f"{_ANY_DEPTH_MAX} times at most")
    pieces: list[str] = []
    for at, name in enumerate(names):
        is_last = at == len(names) - 1
        if name == "**":
            pieces.append(".+" if is_last else "(?:[^/]+/)*")
        else:
            pieces.append(translate_name(name) + ("" if is_last else "/"))
    return "".join(pieces)


def _character_class(name: str, at: int, escapes: bool) -> tuple[str, int] | None:
    """Translate what follows a `[`; None when it is never closed, so that it stands for itself."""
    is_negated = name[at : at + 1] in {"!", "^"}
    at += is_negated
    items: list[str] = []
    first = True
    while at < len(name) and (first or name[at] != "]"):
        first = False
        if name.startswith("[:", at) and (end := name.find(":]", at)) > 0 and name[at + 2 : end] in _NAMED:
            items.append(_NAMED[name[at + 2 : end]])
            at = end + 2
            continue
        low, at = _class_character(name, at, escapes)
        if name[at : at + 1] == "-" and name[at + 1 : at + 2] not in {"", "]"}:
            high, at = _class_character(name, at + 1, escapes)
            items.append(f"{re.escape(low)}-{re.escape(high)}" if low <= high else "")
        else:
            items.append(re.escape(low))
    if at >= len(name):
        return None
    inside = "".join(items)
    if not inside:
        return ("[^/]" if is_negated else "(?!)"), at + 1
    return (f"[^/{inside}]" if is_negated else f"(?!/)[{inside}]"), at + 1


def _class_character(name: str, at: int, escapes: bool) -> tuple[str, int]:
    if name[at] == "\\" and escapes and at + 1 < len(name):
        return name[at + 1], at + 2
    return name[at], at + 1


_NAMED: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
