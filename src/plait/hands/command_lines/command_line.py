"""What a shell would run for a command line, told without running it.

Floor: 2. Owns: finding the commands of a line, nested ones too, and saying where that cannot be told; never: a rule.

Rules about commands are as good as the reading of a line: `git status; rm -rf ~` is two commands, `$(…)` holds more,
`timeout 5 rm x` runs `rm`. Nothing here is guessed in favour of a line: what is not understood is a doubt.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from plait.core.values import dataclass
from plait.hands.command_lines.programs import PLAIN_WRAPPERS, doubts_about, hands_on, runs_its_words, texts_in
from plait.hands.command_lines.quotes import Word
from plait.hands.command_lines.words import Part, ShellReader

_DROPPED: Final = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "}", "fi", "done", "time"})
"""Words of the shell's own before a command, or alone."""
_UNREAD: Final = frozenset({"for", "case", "select", "function", "coproc", "[[", "esac", "alias", "unalias", "trap"})
"""What changes the meaning of what follows, or has a grammar of its own."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a line."""

    words: tuple[str, ...]
    """Its name and its arguments, without quotes."""
    is_certain: bool = True
    """False where the shell would put something else in the place of a word: a variable, a pattern of file names."""

    @property
    def program(self) -> str:
        """The name without its directory."""
        return os.path.basename(self.words[0])

    @property
    def text(self) -> str:
        """The words as one line that no other words come to."""
        return " ".join(map(shlex.quote, self.words))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why it does more than its words say."""
        return tuple(doubts_about(self.words))

    @property
    def hands_on(self) -> bool:
        """True when the command runs another one that its arguments name, or may be told so."""
        return hands_on(self.words)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Everything that a line runs, as far as it can be told."""

    commands: tuple[Command, ...]
    """Those that stand in the line itself, in order."""
    nested: tuple[Command, ...] = ()
    """Those that are run for the words of others, or that may be: more rather than fewer."""
    doubts: tuple[str, ...] = ()
    """Why the line does more than its commands say; empty when it was understood whole."""

    @property
    def all(self) -> tuple[Command, ...]:
        """Every command that was found."""
        return (*self.commands, *self.nested)


@dataclass
class _Found:
    commands: list[Command] = field(default_factory=list)
    nested: list[Command] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


_DEPTH_MAX: Final = 16
"""Lines within lines that are still read."""
_LINE_MAX: Final = 200_000
"""Characters of a line that is read at all."""
_TAILS_MAX: Final = 64
"""Words of a command at which another one may begin."""


def read_command_line(line: str) -> CommandLine:
    """Return the commands of a line for bash. Never raises; what is not understood is among the doubts."""
    found = _Found()
    if len(line) > _LINE_MAX:
        return CommandLine((), (), (f"the line has {len(line):,} characters",))
    _read(line, found, 0)
    return CommandLine(tuple(found.commands), tuple(found.nested), tuple(dict.fromkeys(found.doubts)))


def _read(line: str, found: _Found, depth: int) -> None:
    if depth > _DEPTH_MAX:
        found.doubts.append("commands stand too deep inside each other")
        return
    reader = ShellReader(line)
    for part in reader.parts():
        _take(part, found, depth)
    found.doubts += reader.doubts
    for inner in reader.nested:
        _read(inner, found, depth + 1)


def _take(part: Part, found: _Found, depth: int) -> None:
    """Keep one simple command, and what it hands on."""
    words = list(part.words)
    while words and words[0].is_bare and words[0].text in _DROPPED:
        is_timed = words.pop(0).text == "time"
        while is_timed and words and words[0].text in ("-p", "--"):
            words.pop(0)
    if words and words[0].is_bare and words[0].text in _UNREAD:
        found.doubts.append(f"{words[0].text!r} is more than a command")
    while words and words[0].is_assignment:
        found.doubts.append("it sets variables")
        words.pop(0)
    if not words:
        return
    if words[0].is_open or not words[0].text:
        found.doubts.append("the name of a command is not plain text")
    if part.defines_function:
        found.doubts.append("it defines a function")
    command = Command(tuple(word.text for word in words), not any(word.is_open for word in words))
    found.doubts += command.doubts
    if len(words) > _TAILS_MAX and command.hands_on:
        found.doubts.append("a command hands on too many words")
    (found.nested if depth else found.commands).append(command)
    for inner in _handed_on(command, words):
        if isinstance(inner, str):
            _read(inner, found, depth + 1)
        else:
            found.nested.append(inner)


def _handed_on(command: Command, words: list[Word]) -> Iterator[str | Command]:
    """Yield what a command may run: lines for a shell to read, and commands; more rather than fewer."""
    if command.hands_on:
        yield from texts_in(command.words)
    elif not runs_its_words(command.program):
        return
    for start in range(1, min(len(words), _TAILS_MAX)):
        if words[start].text and not words[start].text.startswith("-"):
            tail = words[start:]
            yield Command(tuple(word.text for word in tail), not any(word.is_open for word in tail))


def unwrapped(command: Command) -> Command:
    """Return the command that `timeout`, `nice`, `nohup` or `stdbuf` runs; any other one as it is."""
    words = command.words
    while os.path.basename(words[0]) in PLAIN_WRAPPERS and words[0] == os.path.basename(words[0]):
        start = _after_options(words)
        if start is None:
            return command
        words = words[start:]
    return Command(words, command.is_certain)


def _after_options(words: tuple[str, ...]) -> int | None:
    """Return where a plain wrapper's command begins; None where that is not sure."""
    program, at = words[0], 1
    if program == "nice" and words[1:2] == ("-n",):
        at = 3
    elif program == "stdbuf":
        while at < len(words) and words[at].startswith("-") and len(words[at]) > 2 and words[at][1] in "ioe":
            at += 1
    elif program == "timeout":
        at = 2
        if len(words) < 2 or not words[1][:1].isdigit():
            return None
    return at if at < len(words) and not words[at].startswith("-") else None
