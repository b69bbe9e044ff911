"""Search patterns: one regular expression, said exactly the same to ripgrep and to Python's `re`.

Floor: 2. Owns: the syntax that both engines share, and its two spellings; never: running either.

The pattern is read here and written out again for each engine from explicit sets of characters, so that both find the
same lines. A search looks at one line at a time, without its end: nothing matches CR or LF. `\\d`, `\\w`, `\\s` and
`\\b` mean ASCII. Case is ignored for ASCII letters, and for other letters that the pattern spells out.
Lookaround, backreferences and the like are refused: ripgrep does not have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Never

from plait.core.errors import Refusal
from plait.core.values import dataclass

_CHARS_MAX: Final = 2_000
_REPEAT_MAX: Final = 1_000
_SIZE_MAX: Final = 5_000
_DEPTH_MAX: Final = 50

Range = tuple[int, int]
"""First and last code point."""

_LAST: Final = 0x10FFFF
_NEVER: Final = ((0x0A, 0x0A), (0x0D, 0x0D), (0xD800, 0xDFFF))
"""What is in no set: line ends, and surrogates, which stand for the bytes of broken UTF-8."""
_DIGIT: Final = ((0x30, 0x39),)
_WORD: Final = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Final = ((0x09, 0x09), (0x0B, 0x0C), (0x20, 0x20))
_ESCAPED_SETS: Final[Mapping[str, tuple[Range, ...]]] = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_NAMED_SETS: Final[Mapping[str, tuple[Range, ...]]] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "digit": _DIGIT,
    "lower": ((0x61, 0x7A),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": _SPACE,
    "upper": ((0x41, 0x5A),),
    "word": _WORD,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
_CONTROL: Final[Mapping[str, int]] = {"t": 0x09, "f": 0x0C, "v": 0x0B, "a": 0x07, "e": 0x1B}
_HEX: Final = re.compile(r"x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}")
_REPEAT: Final = re.compile(r"\{(\d{1,4})(,?)(\d{0,4})\}")
_GROUP: Final = re.compile(r"\?(?::|P?<[A-Za-z_]\w*>)")


@dataclass(frozen=True, slots=True)
class SearchPattern:
    """A pattern in both spellings; `is_plain` when it repeats nothing, so that no engine can be slow with it."""

    source: str
    rust: str
    python: str
    is_plain: bool


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of a pattern in both spellings; `size` is what it grows to when repeats are written out."""

    rust: str
    python: str
    size: int = 1
    can_repeat: bool = True
    is_plain: bool = True
    is_end: bool = False


def compile_pattern(source: str, *, is_literal: bool = False, ignores_case: bool = False) -> SearchPattern:
    """Read a pattern. Raises `Refusal` with the position and a way out for what cannot be searched."""
    if not source:
        raise Refusal("INVALID_INPUT", "the pattern is empty", hint="say what to look for")
    if len(source) > _CHARS_MAX:
        raise Refusal("TOO_LARGE", f"the pattern has {len(source)} characters", hint=f"use at most {_CHARS_MAX}")
    if not is_literal and source.startswith("(?i)"):
        source, ignores_case = source[4:], True
    parser = _Parser(source, ignores_case=ignores_case)
    node = parser.literal() if is_literal else parser.whole()
    return SearchPattern(source, node.rust, node.python, node.is_plain)


class _Parser:
    """Reads one pattern from left to right."""

    def __init__(self, source: str, *, ignores_case: bool) -> None:
        self._source = source
        self._at = 0
        self._ignores_case = ignores_case

    def literal(self) -> _Node:
        """Take every character for itself."""
        return _joined([self._one(character) for character in self._source])

    def whole(self) -> _Node:
        """Read the whole pattern."""
        node = self._choice(0)
        if self._at < len(self._source):
            self._refuse("has a ')' without a '('", r"write \) for the character")
        return node

    def _choice(self, depth: int) -> _Node:
        if depth > _DEPTH_MAX:
            self._refuse("is nested too deeply", "use fewer groups")
        branches = [self._sequence(depth)]
        while self._take("|"):
            branches.append(self._sequence(depth))
        if len(branches) == 1:
            return branches[0]
        return _Node(
            f"(?:{'|'.join(branch.rust for branch in branches)})",
            f"(?:{'|'.join(branch.python for branch in branches)})",
            sum(branch.size for branch in branches),
            is_plain=all(branch.is_plain for branch in branches),
        )

    def _sequence(self, depth: int) -> _Node:
        nodes: list[_Node] = []
        while self._at < len(self._source) and self._source[self._at] not in "|)":
            if nodes and nodes[-1].is_end:
                self._refuse("goes on behind a '$'", r"write \$ for the character")
            nodes.append(self._repeated(self._atom(depth)))
        return _joined(nodes)

    def _atom(self, depth: int) -> _Node:
        character = self._next()
        if character in "*+?":
            self._refuse(f"has a {character!r} with nothing to repeat", f"write \\{character} for the character")
        match character:
            case "(":
                return self._group(depth)
            case "[":
                return self._set()
            case "\\":
                return self._escape()
            case ".":
                return _set_node(_complement(()))
            case "^":
                return _Node(r"^\x{FEFF}?", "^\ufeff?", can_repeat=False)
            case "$":
                return _Node(r"\r?$", r"(?=\r?$)", can_repeat=False, is_end=True)
            case _:
                return self._one(character)

    def _group(self, depth: int) -> _Node:
        if found := _GROUP.match(self._source, self._at):
            self._at = found.end()
        elif self._source.startswith("?", self._at):
            self._refuse(
                "has a group that is not supported (lookaround, flags, atomic)",
                "use plain groups; (?i) may stand at the start",
            )
        node = self._choice(depth + 1)
        if not self._take(")"):
            self._refuse("has a '(' without a ')'", r"close it, or write \( for the character")
        return _Node(f"(?:{node.rust})", f"(?:{node.python})", node.size, is_plain=node.is_plain)

    def _repeated(self, node: _Node) -> _Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        if not node.can_repeat:
            self._refuse("repeats an anchor", "leave out the repetition")
        low, high = bounds
        self._take("?")  # lazy or greedy, the same lines match
        if self._at < len(self._source) and (self._source[self._at] in "*+?" or self._bounds() is not None):
            self._refuse("repeats a repetition", "put a group around the inner one")
        if max(low, high or 0) > _REPEAT_MAX or (high is not None and high < low):
            self._refuse("has a repetition out of range", f"use {{m,n}} with m ≤ n ≤ {_REPEAT_MAX}")
        size = node.size * max(1, low, high or low + 1)
        if size > _SIZE_MAX:
            self._refuse("grows too large when its repetitions are written out", "use smaller numbers, or * and +")
        text = f"{{{low},{'' if high is None else high}}}"
        is_plain = node.is_plain and high is not None and high <= 1
        return _Node(f"(?:{node.rust}){text}", f"(?:{node.python}){text}", size, is_plain=is_plain)

    def _bounds(self) -> tuple[int, int | None] | None:
        """Take a repetition, if one stands here; a brace that is none is a character."""
        for mark, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(mark):
                return bounds
        found = _REPEAT.match(self._source, self._at)
        if found is None:
            return None
        self._at = found.end()
        low = int(found[1])
        return low, int(found[3]) if found[3] else (None if found[2] else low)

    def _escape(self) -> _Node:
        character = self._next(r"ends in a backslash")
        if character == "b":
            return _Node(r"(?-u:\b)", r"(?a:\b)", can_repeat=False)
        if character.lower() in _ESCAPED_SETS:
            return _set_node(self._escaped_set(character))
        return self._one(chr(self._escaped_character(character)))

    def _escaped_set(self, character: str) -> tuple[Range, ...]:
        ranges = _ESCAPED_SETS[character.lower()]
        return ranges if character.islower() else _complement(ranges)

    def _escaped_character(self, character: str) -> int:
        if character in "xu" and (found := _HEX.match(self._source, self._at - 1)):
            self._at = found.end()
            code = int(next(filter(None, found.groups())), 16)
            if code > _LAST or 0xD800 <= code <= 0xDFFF:
                self._refuse("names a character that does not exist", "use a code point up to 10FFFF")
            return code
        if character in "nr":
            self._refuse("looks for a line end", "one line is searched at a time; use ^ and $")
        if character in _CONTROL:
            return _CONTROL[character]
        if character.isascii() and character.isalnum():
            self._refuse(f"has \\{character}, which is not supported", r"supported are \d \w \s \b \t \xHH and \-signs")
        return ord(character)

    def _set(self) -> _Node:
        is_negated = self._take("^")
        ranges: list[Range] = []
        is_first = True
        while is_first or not self._take("]"):
            is_first = False
            ranges += self._set_item()
        folded = [other for one in ranges for other in (self._folded(one) if self._ignores_case else (one,))]
        kept = _complement(folded) if is_negated else tuple(folded)
        if not kept:
            self._refuse("has a set without a character in it", "leave the set out")
        return _set_node(kept)

    def _set_item(self) -> tuple[Range, ...]:
        for operator in ("&&", "--", "~~"):
            if self._source.startswith(operator, self._at):
                self._refuse(f"has {operator} in a set", "escape the characters with a backslash")
        if self._source.startswith("[:", self._at):
            return self._named_set()
        character = self._next("has a '[' without a ']'")
        if character == "\\":
            character = self._next("ends in a backslash")
            if character.lower() in _ESCAPED_SETS:
                return self._escaped_set(character)
            low = self._escaped_character(character)
        else:
            low = self._plain(character)
        if not self._source.startswith("-", self._at) or self._source.startswith(("-]", "--"), self._at):
            return ((low, low),)
        self._at += 1
        character = self._next("has a '[' without a ']'")
        high = (
            self._plain(character) if character != "\\" else self._escaped_character(self._next("ends in a backslash"))
        )
        if high < low:
            self._refuse("has a range that runs backwards", "put the smaller character first")
        return ((low, high),)

    def _named_set(self) -> tuple[Range, ...]:
        end = self._source.find(":]", self._at)
        name = self._source[self._at + 2 : end]
        ranges = _NAMED_SETS.get(name.removeprefix("^"))
        if end < 0 or ranges is None:
            self._refuse("has a named set that does not exist", f"known are {', '.join(_NAMED_SETS)}")
        self._at = end + 2
        return _complement(ranges) if name.startswith("^") else ranges

    def _one(self, character: str) -> _Node:
        code = self._plain(character)
        return _set_node(self._folded((code, code)) if self._ignores_case else ((code, code),))

    def _plain(self, character: str) -> int:
        code = ord(character)
        if character in "\r\n":
            self._refuse("has a line end", "one line is searched at a time; search for one of the lines")
        if 0xD800 <= code <= 0xDFFF:
            self._refuse("holds half a character (a lone surrogate)", "leave it out")
        return code

    def _folded(self, one: Range) -> tuple[Range, ...]:
        low, high = one
        if low == high:
            both = {chr(low), chr(low).lower(), chr(low).upper()}
            return tuple(sorted((ord(c), ord(c)) for c in both if len(c) == 1))
        found = [one]
        for first, last, shift in ((0x41, 0x5A, 0x20), (0x61, 0x7A, -0x20)):
            if low <= last and high >= first:
                found.append((max(low, first) + shift, min(high, last) + shift))
        return tuple(found)

    def _next(self, missing: str = "ends too early") -> str:
        if self._at >= len(self._source):
            self._refuse(missing, "complete it, or search for the text literally")
        self._at += 1
        return self._source[self._at - 1]

    def _take(self, character: str) -> bool:
        if self._source.startswith(character, self._at):
            self._at += 1
            return True
        return False

    def _refuse(self, what: str, hint: str) -> Never:
        raise Refusal(
            "INVALID_INPUT",
            f"the pattern {self._source!r} {what} (at character {self._at})",
            hint=hint,
            details={"pattern": self._source, "position": self._at},
        )


def _joined(nodes: list[_Node]) -> _Node:
    if len(nodes) == 1:
        return nodes[0]
    return _Node(
        "".join(node.rust for node in nodes),
        "".join(node.python for node in nodes),
        sum(node.size for node in nodes),
        is_plain=all(node.is_plain for node in nodes),
    )


def _complement(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Everything that is in none of the ranges, nor a line end or a surrogate."""
    found: list[Range] = []
    start = 0
    for low, high in sorted([*ranges, *_NEVER]):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return (*found, (start, _LAST)) if start <= _LAST else tuple(found)


def _set_node(ranges: tuple[Range, ...]) -> _Node:
    """Write a set of characters; the line ends and surrogates that a range spans are left out."""
    kept = _complement(_complement(ranges))
    if len(kept) == 1 and kept[0][0] == kept[0][1]:
        return _Node(_rust(kept[0][0]), _python(kept[0][0]))
    rust = "".join(_rust(low) if low == high else f"{_rust(low)}-{_rust(high)}" for low, high in kept)
    python = "".join(_python(low) if low == high else f"{_python(low)}-{_python(high)}" for low, high in kept)
    return _Node(f"[{rust}]", f"[{python}]")


def _rust(code: int) -> str:
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\x{{{code:X}}}"


def _python(code: int) -> str:
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\U{code:08x}"
