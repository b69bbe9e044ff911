"""Which rule decides about a call: deny before ask before allow, from wherever the rules come.

Floor: 4. Owns: the order, and what a rule has to know of a call; never: the rules themselves, or asking anybody.

A rule that forbids is taken widely and one that allows is taken narrowly: a command is denied when any part of it is,
and allowed when every part of it is and nothing about it is in doubt; a path is denied when it or what it leads to
is, and allowed when what it leads to is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Final, Literal
from urllib.parse import urlsplit

from plait.core.values import dataclass
from plait.engine.permissions.path_pattern import PathPattern
from plait.engine.permissions.rule import Action, Rule
from plait.hands.command_lines.command_line import Command, CommandLine, read_command_line, unwrapped


@dataclass(frozen=True, slots=True)
class Subject:
    """What rules look at in one call."""

    names: tuple[str, ...]
    """Every name of the tool."""
    command: str | None = None
    """The command line of a tool that runs one."""
    paths: tuple[str, ...] = ()
    """Absolute paths that it names, links not followed."""
    real_paths: tuple[str, ...] = ()
    """Where those lead; as many."""
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the rules say of a call."""

    action: Action | None
    """None: nothing; whoever judges calls without rules has the word."""
    rule: Rule | None = None
    """The rule that decided; None where a doubt did."""
    why: str = ""
    """For people and for the model, in words."""


SILENT: Final = Ruling(None)
_SEARCHING: Final = ("Grep", "search_files", "Read", "read_file")


@dataclass(frozen=True)
class Permissions:
    """All rules of a session, from all their sources."""

    rules: tuple[Rule, ...] = ()
    root: str = "/"
    """What paths in rules are relative to."""
    home: str = field(default_factory=lambda: os.path.expanduser("~"))
    _paths: dict[str, PathPattern] = field(default_factory=dict, repr=False, compare=False)

    def judge(self, subject: Subject) -> Ruling:
        """Say what happens with a call. Deny beats ask beats allow, whatever the order and the source."""
        mine = [rule for rule in self.rules if rule.names(subject.names)]
        if not mine:
            return SILENT
        line = None if subject.command is None else read_command_line(subject.command)
        for action in ("deny", "ask"):
            for rule in mine:
                if rule.action == action and self._forbids(rule, subject, line):
                    return Ruling(action, rule, _named(rule))
        doubt = self._doubt(mine, line)
        if doubt:
            return Ruling("ask", None, doubt)
        return self._allowed([rule for rule in mine if rule.action == "allow"], subject, line)

    def hides(self, path: str) -> bool:
        """Say whether a rule keeps a file, or a directory, from being read without a question: no search looks into it.

        `path` is absolute, links followed.
        """
        return any(
            rule.action != "allow" and rule.kind == "path" and rule.pattern and self._path(rule.pattern).holds(path)
            for rule in self.rules
            if rule.names(_SEARCHING)
        )

    def about_files(self) -> str:
        """Return a rule that forbids, or asks about, what a command in `root` could do to files there; or nothing.

        Which files a command looks into, or changes, nobody can tell from its words.
        """
        mine = (rule for rule in self.rules if rule.action != "allow" and rule.kind == "path")
        found = next((rule for rule in mine if rule.pattern is None or self._reaches(rule.pattern)), None)
        return "" if found is None else _named(found)

    def _reaches(self, pattern: str) -> bool:
        """Say whether a pattern may mean something in `root`: one from home, or from the machine's own, seldom does."""
        if not pattern.startswith(("~", "//")):
            return True
        whole = self.home + pattern[1:] if pattern.startswith("~") else pattern[1:]
        stem = re.split(r"[*?\[]", whole, maxsplit=1)[0].rstrip("/")
        return f"{self.root}/".startswith(f"{stem}/") or stem.startswith(self.root.rstrip("/"))

    def denies(self, path: str, purpose: Literal["read", "write"]) -> str:
        """Return the rule that forbids every tool to read, or change, what stands at an absolute path; or nothing."""
        tool = "Edit" if purpose == "write" else "Read"
        mine = (rule for rule in self.rules if rule.action == "deny" and rule.tool == tool and rule.pattern)
        found = next((rule for rule in mine if self._path(rule.pattern or "").holds(path)), None)
        return "" if found is None else _named(found)

    def _forbids(self, rule: Rule, subject: Subject, line: CommandLine | None) -> bool:
        if rule.pattern is None:
            return True
        if rule.commands is not None:
            return line is not None and any(rule.commands.matches(each, by_program=True) for each in line.all)
        if rule.kind == "domain":
            return _is_of_domain(subject.url, rule.pattern)
        pattern = self._path(rule.pattern)
        return any(map(pattern.holds, (*subject.paths, *subject.real_paths)))

    def _doubt(self, rules: Sequence[Rule], line: CommandLine | None) -> str:
        """Return why a rule that forbids something might mean a line, though it cannot be told; empty for no doubt."""
        limits = [rule for rule in rules if rule.action != "allow" and rule.commands is not None]
        if line is None or not limits:
            return ""
        if line.doubts:
            return f"{_named(limits[0])} might be meant: {line.doubts[0]}"
        for rule in limits:
            open_ = next((each for each in line.all if rule.commands and rule.commands.may_match(each)), None)
            if open_ is not None:
                return f"{_named(rule)} might be meant: the shell changes the words of {open_.text}"
        return ""

    def _allowed(self, rules: Sequence[Rule], subject: Subject, line: CommandLine | None) -> Ruling:
        whole = next((rule for rule in rules if rule.pattern is None), None)
        if whole is not None:
            return Ruling("allow", whole, _named(whole))
        if line is not None:
            return _allowed_line(rules, line)
        if subject.url is not None:
            found = next((rule for rule in rules if _is_of_domain(subject.url, rule.pattern or "")), None)
            return SILENT if found is None else Ruling("allow", found, _named(found))
        return self._allowed_paths(rules, subject)

    def _allowed_paths(self, rules: Sequence[Rule], subject: Subject) -> Ruling:
        deciding = None
        for path in subject.real_paths:
            deciding = next((rule for rule in rules if rule.pattern and self._path(rule.pattern).holds(path)), None)
            if deciding is None:
                return SILENT
        return SILENT if deciding is None else Ruling("allow", deciding, _named(deciding))

    def _path(self, pattern: str) -> PathPattern:
        known = self._paths.get(pattern)
        if known is None:
            known = self._paths[pattern] = PathPattern.of(pattern, root=self.root, home=self.home)
        return known


def _allowed_line(rules: Iterable[Rule], line: CommandLine) -> Ruling:
    """A line is allowed when nothing about it is in doubt and each of its commands is allowed."""
    if line.doubts or not line.commands:
        return SILENT
    patterns = [(rule, rule.commands) for rule in rules if rule.commands is not None]
    deciding = None
    for command in line.commands:
        inner = unwrapped(command)
        deciding = next(
            (
                rule
                for rule, pattern in patterns
                if _covers(pattern.matches, command, is_open=pattern.is_open)
                or (inner.words != command.words and _covers(pattern.matches, inner, is_open=pattern.is_open))
            ),
            None,
        )
        if deciding is None:
            return SILENT
    return SILENT if deciding is None else Ruling("allow", deciding, _named(deciding))


def _covers(matches: Callable[[Command], bool], command: Command, *, is_open: bool) -> bool:
    """A rule that leaves words open does not cover a command that runs whatever those words name."""
    if is_open and command.hands_on:
        return False
    return matches(command)


def _named(rule: Rule) -> str:
    return f"the rule {rule.action} {rule.text}{f' ({rule.source})' if rule.source else ''}"


def _is_of_domain(url: str | None, pattern: str) -> bool:
    """Say whether an address belongs to a domain, or to one beneath it where the rule says `*.`."""
    try:
        host = (urlsplit(url or "").hostname or "").rstrip(".").lower()
    except ValueError:
        return False
    domain = pattern.removeprefix("domain:").strip().rstrip(".").lower()
    if domain == "*":
        return bool(host)
    if domain.startswith("*."):
        return host.endswith(domain[1:])
    return bool(host) and host == domain
