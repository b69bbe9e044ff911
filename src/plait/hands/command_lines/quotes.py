"""Reads quotes and expansions as bash would: what stands for itself, and what the shell puts something else for.

Floor: 2. Owns: the grammar inside a word; never: where words end (`words`), or what they mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_SIMPLE_NAME: Final = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-]|\{[A-Za-z_]\w*\})")


@dataclass(slots=True)
class Word:
    """One word, quotes taken off."""

    text: str = ""
    is_open: bool = False
    """The shell would put something else in its place."""
    is_quoted: bool = False
    is_assignment: bool = False

    @property
    def is_bare(self) -> bool:
        """True for a word in which nothing was quoted: only such are words of the shell's own."""
        return not self.is_quoted


class ShellText:
    """A line and a place in it, with what was found on the way."""

    def __init__(self, line: str) -> None:
        self.nested: list[str] = []
        """Text that the shell would run as lines of their own."""
        self.doubts: list[str] = []
        self._line = line
        self._at = 0

    def _doubt(self, why: str) -> None:
        self.doubts.append(why)

    def _escaped(self) -> str:
        following = self._line[self._at + 1 : self._at + 2]
        self._at += 2
        if not following:
            self._doubt("the line ends with a backslash")
        return "" if following == "\n" else following

    def _single(self) -> str:
        end = self._line.find("'", self._at + 1)
        if end < 0:
            self._doubt("a quote is not closed")
            end = len(self._line)
        text = self._line[self._at + 1 : end]
        self._at = end + 1
        return text

    def _double(self, word: Word) -> str:
        """Read text in double quotes, in which the shell still expands."""
        line, pieces = self._line, []
        self._at += 1
        while self._at < len(line) and line[self._at] != '"':
            char = line[self._at]
            if char == "\\" and line[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\", "\n"):
                pieces.append(self._escaped())
            elif char in "$`":
                pieces.append(self._expand(word, is_in_quotes=True))
            else:
                pieces.append(char)
                self._at += 1
        if self._at >= len(line):
            self._doubt("a quote is not closed")
        self._at += 1
        return "".join(pieces)

    def _expand(self, word: Word, *, is_in_quotes: bool = False) -> str:
        """Read what begins with `$` or a backquote; return it as it stands."""
        line, began = self._line, self._at
        if line[began] == "`":
            self._backquoted(word)
        elif line.startswith("$((", began):
            self._doubt("it reckons with $((…))")
            self._substituted(word, began + 2)
        elif line.startswith("$(", began):
            self._doubt("it runs $(…) for its words")
            self._substituted(word, began + 2)
        elif line.startswith(("$'", '$"'), began) and not is_in_quotes:
            self._doubt("a word is written with escapes")
            word.is_quoted = word.is_open = True
            self._at += 1
            self._ansi() if line[began + 1] == "'" else self._double(word)
        elif (name := _SIMPLE_NAME.match(line, began)) is not None:
            word.is_open = True
            self._at = name.end()
        elif line.startswith("${", began):
            self._doubt("it works out a variable with ${…}")
            word.is_open = True
            self._closed_by("}", began + 2)
            self._scan(line[began + 2 : self._at])
        else:
            self._at += 1
        return line[began : self._at]

    def _scan(self, text: str) -> None:
        """Find what the shell would run inside text that it expands and does not split."""
        inner = ShellText(text)
        word = Word()
        while inner._at < len(text):
            if text[inner._at] == "\\":
                inner._at += 2
            elif text[inner._at] in "$`":
                inner._expand(word)
            else:
                inner._at += 1
        self.nested += inner.nested
        self.doubts += inner.doubts

    def _ansi(self) -> None:
        """Go past `'…'` in which a backslash escapes."""
        self._at += 1
        while self._at < len(self._line) and self._line[self._at] != "'":
            self._at += 2 if self._line[self._at] == "\\" else 1
        self._at += 1

    def _backquoted(self, word: Word) -> None:
        self._doubt("it runs `…` for its words")
        word.is_open = True
        line, pieces = self._line, []
        self._at += 1
        while self._at < len(line) and line[self._at] != "`":
            if line[self._at] == "\\" and line[self._at + 1 : self._at + 2] in ("$", "`", "\\"):
                self._at += 1
            pieces.append(line[self._at : self._at + 1])
            self._at += 1
        if self._at >= len(line):
            self._doubt("a backquote is not closed")
        self._at += 1
        self.nested.append("".join(pieces))

    def _substituted(self, word: Word, start: int) -> None:
        word.is_open = True
        self._closed_by(")", start)
        self.nested.append(self._line[start : max(start, self._at - 1)])

    def _closed_by(self, closing: str, start: int) -> None:
        """Go past the bracket that closes the one before `start`, minding quotes and brackets inside."""
        line, opening, depth, self._at = self._line, {")": "(", "}": "{"}[closing], 1, start
        skipped = Word()
        while self._at < len(line):
            char = line[self._at]
            if char == "\\":
                self._at += 2
            elif char == "'":
                self._single()
            elif char == '"':
                kept = len(self.nested), len(self.doubts)
                self._double(skipped)
                # What stands inside is read once, with the text that it is part of.
                del self.nested[kept[0] :], self.doubts[kept[1] :]
            else:
                depth += (char == opening) - (char == closing)
                self._at += 1
                if not depth:
                    return
        self._doubt("a bracket is not closed")
