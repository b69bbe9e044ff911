"""Reads a line as bash would, as far as words, quotes, redirections and separators go.

Floor: 2. Owns: the grammar of words; never: what a command means (`command_line`).

It expands nothing. A word in which the shell would put something else is marked open, text that a shell would run on
its own (`$(…)`, backquotes, `<(…)`) is given to be read again, and whatever is not in this grammar is a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from plait.core.values import dataclass
from plait.hands.command_lines.quotes import ShellText, Word

_BLANK: Final = " \t"
_SEPARATORS: Final = ("&&", "||", ";;", "|&", ";", "&", "|", "\n", "(", ")")
_REDIRECTION: Final = re.compile(r"(?:\d+|\{\w+\})?(?:&>>|&>|<<<|<<-|<<|<>|<&|>>|>\||>&|<|>)")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_HARMLESS_TARGETS: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_GLOB: Final = frozenset("*?[")
_BRACES: Final = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")


@dataclass(slots=True)
class Part:
    """The words between two separators."""

    words: list[Word] = field(default_factory=list)
    defines_function: bool = False


class ShellReader(ShellText):
    """Reads one line; its parts first, then what is left to be read or doubted."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self._here_documents: list[tuple[str, bool, bool]] = []
        """Delimiter, whether its body is expanded, whether tabs before it are dropped."""

    def parts(self) -> Iterator[Part]:
        """Yield the words between separators, in order."""
        part = Part()
        while self._at < len(self._line):
            if self._skips_blank():
                continue
            separator = self._separator()
            if separator is not None:
                if separator == "(" and part.words:
                    part.defines_function = True
                yield part
                part = Part()
                continue
            redirection = _REDIRECTION.match(self._line, self._at)
            if redirection is not None and not self._is_substitution(redirection.end()):
                self._at = redirection.end()
                self._redirect(redirection.group().lstrip("0123456789"))
                continue
            word = self._word()
            # `{name}>file` aside, an assignment is one only before the command.
            word.is_assignment = word.is_assignment and all(each.is_assignment for each in part.words)
            part.words.append(word)
        yield part
        if self._here_documents:
            self._doubt("a here-document has no end")

    def _skips_blank(self) -> bool:
        """Go past blanks, a line that goes on, or a comment."""
        line, at = self._line, self._at
        if line[at] in _BLANK:
            self._at += 1
            return True
        if line.startswith("\\\n", at):
            self._at += 2
            return True
        if line[at] == "#":
            end = line.find("\n", at)
            self._at = len(line) if end < 0 else end
            return True
        return False

    def _separator(self) -> str | None:
        line = self._line
        if line.startswith(("&>", "<(", ">("), self._at):
            return None
        found = next((each for each in _SEPARATORS if line.startswith(each, self._at)), None)
        if found is None:
            return None
        self._at += len(found)
        if found == "\n":
            self._read_here_documents()
        return found

    def _is_substitution(self, end: int) -> bool:
        """Say whether `<` or `>` begins `<(…)`."""
        return self._line[end - 1 : end + 1] in ("<(", ">(") and end - self._at == 1

    def _redirect(self, operator: str) -> None:
        while self._at < len(self._line) and self._line[self._at] in _BLANK:
            self._at += 1
        if self._at >= len(self._line) or self._line[self._at] in "\n;|&()":
            self._doubt("a redirection leads nowhere")
            return
        began = self._at
        target = self._word()
        if operator.startswith("<<") and operator != "<<<":
            self._here_documents.append((target.text, not target.is_quoted, operator == "<<-"))
            self._doubt("a here-document is its input")
        elif operator in (">&", "<&") and (target.text.isdigit() or target.text == "-"):
            return
        elif target.text not in _HARMLESS_TARGETS or target.is_open:
            kind = "reads from" if operator.startswith("<") and operator != "<>" else "writes to"
            self._doubt(f"it {kind} {self._line[began : self._at]!r}")

    def _read_here_documents(self) -> None:
        for delimiter, is_expanded, drops_tabs in self._here_documents:
            body: list[str] = []
            while self._at < len(self._line):
                end = self._line.find("\n", self._at)
                end = len(self._line) if end < 0 else end
                text = self._line[self._at : end]
                self._at = min(end + 1, len(self._line))
                if (text.lstrip("\t") if drops_tabs else text) == delimiter:
                    break
                body.append(text)
            else:
                self._doubt("a here-document has no end")
            if is_expanded:
                self._scan("\n".join(body))
        self._here_documents.clear()

    def _word(self) -> Word:
        """Read one word; at least one character of the line is taken."""
        word, pieces, bare = Word(), [], []
        line = self._line
        began = self._at
        while self._at < len(line):
            char = line[self._at]
            if char in _BLANK or char == "\n" or char in ";|&()<>":
                if line.startswith(("<(", ">("), self._at):
                    self._substitute_process(word)
                    continue
                break
            if char == "\\":
                word.is_quoted = True
                pieces.append(self._escaped())
            elif char == "'":
                word.is_quoted = True
                pieces.append(self._single())
            elif char == '"':
                word.is_quoted = True
                pieces.append(self._double(word))
            elif char in "$`":
                pieces.append(self._expand(word))
            else:
                self._at += 1
                pieces.append(char)
                bare.append(char)
                if char in _GLOB:
                    word.is_open = True
                continue
            bare.append("\0")
        if self._at == began:
            self._at += 1
            self._doubt(f"{line[began]!r} was not expected")
        word.text, plain = "".join(pieces), "".join(bare)
        if word.text == "[":  # alone it is no pattern, but a command
            word.is_open = False
        word.is_assignment = _ASSIGNMENT.match(plain) is not None
        if _BRACES.search(plain) or plain.startswith("~"):
            word.is_open = True
        return word

    def _substitute_process(self, word: Word) -> None:
        self._doubt("it runs <(…) for its words")
        self._substituted(word, self._at + 2)
