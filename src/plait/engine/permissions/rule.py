"""One rule: `Bash(npm run test:*)`, `Read(./.env)`, `mcp__github`, `WebFetch(domain:example.com)`.

Floor: 4. Owns: the language; never: which rule wins (`ruling`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Final, Literal, get_args

from plait.core.errors import ConfigError
from plait.core.values import dataclass
from plait.hands.command_lines.command_line import Command, read_command_line

Action = Literal["allow", "ask", "deny"]
Kind = Literal["command", "path", "domain", "name"]

_RULE: Final = re.compile(r"(?P<tool>[A-Za-z_][\w.*-]*)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("Bash", "exec_shell", "bash", "execute_shell_command", "run_command", "nohup"),
            "command",
        ),
        **dict.fromkeys(
            "Read Write Edit MultiEdit Glob Grep LS read_file write_file str_replace edit_file apply_patch glob"
            " find_files search_files search_text list_dir list_directory file_info".split(),
            "path",
        ),
        "WebFetch": "domain",
        "web_fetch": "domain",
    }
)
_COVERS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "Edit": frozenset({"Edit", "Write", "MultiEdit"}),
        "Read": frozenset({"Read", "Grep", "Glob", "LS"}),
    }
)
"""Names that stand for more tools than one: who may not read a file may not search it either."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is to happen with some calls."""

    action: Action
    tool: str
    """A tool's name, as hooks know it or plait's own; `mcp__server` means every tool of a server."""
    pattern: str | None
    """None: every call of the tool."""
    source: str = ""
    """Where the rule stands, for people."""
    commands: CommandPattern | None = field(default=None, compare=False)

    @property
    def kind(self) -> Kind:
        """What the pattern is about."""
        return _KINDS.get(self.tool, "name")

    @property
    def text(self) -> str:
        """The rule as it was written."""
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    def names(self, called: Sequence[str]) -> bool:
        """Say whether the rule is about a tool that goes by these names."""
        wanted = _COVERS.get(self.tool, frozenset({self.tool}))
        if any(name in wanted for name in called):
            return True
        if self.tool.startswith("mcp__"):
            parts = self.tool.split("__")
            stem = f"{self.tool}__" if len(parts) == 2 else None
            return any(
                (stem is not None and name.startswith(stem)) or ("*" in self.tool and _globbed(self.tool, name))
                for name in called
            )
        return "*" in self.tool and any(_globbed(self.tool, name) for name in called)


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """Which commands a rule about commands means."""

    words: tuple[str, ...] | None
    """The command's first words; None for a pattern with a `*` somewhere inside."""
    is_prefix: bool
    glob: re.Pattern[str] | None = None

    @classmethod
    def of(cls, pattern: str) -> CommandPattern:
        """Read `git status`, `git log:*`, `git log *`, `npm * --watch`; raises ValueError with the reason."""
        stem, is_prefix = pattern.strip(), False
        for ending in (":*", " *"):
            if stem.endswith(ending):
                stem, is_prefix = stem[: -len(ending)].rstrip(), True
                break
        if "*" in stem:
            return cls(None, is_prefix, re.compile(_glob_text(stem) + (r"(?: .*)?" if is_prefix else ""), re.DOTALL))
        line = read_command_line(stem)
        known = line.commands[0].doubts if line.commands else ()
        if len(line.commands) != 1 or {*line.doubts} - {*known} or not line.commands[0].is_certain:
            raise ValueError("it is not one plain command")
        return cls(line.commands[0].words, is_prefix)

    def matches(self, command: Command, *, by_program: bool = False) -> bool:
        """Say whether the rule means a command; `by_program` looks past the directory of its name."""
        words = (command.program, *command.words[1:]) if by_program else command.words
        if self.words is not None:
            known = words[: len(self.words)] if self.is_prefix else words
            return known == self.words
        assert self.glob is not None
        return self.glob.fullmatch(Command(words).text) is not None

    def may_match(self, command: Command) -> bool:
        """Say whether the rule might mean a command some of whose words nobody knows before the shell does."""
        if command.is_certain:
            return False
        if self.words is None:
            return True
        program = command.program
        return program == self.words[0] or any(char in program for char in "$`*?[{")

    @property
    def is_open(self) -> bool:
        """True when the rule leaves words open."""
        return self.is_prefix or self.words is None


def parse_rule(text: object, action: Action, source: str = "") -> Rule:
    """Read one rule.

    Raises:
        ConfigError: it is none; the message names `source`.
    """
    where = f" in {source}" if source else ""
    found = _RULE.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        raise ConfigError(f"{text!r}{where} is no rule", hint='write Tool or Tool(pattern), such as "Bash(git status)"')
    tool, pattern = found["tool"], found["pattern"]
    if pattern is not None and pattern.strip() in ("", "*", ":*", "**") and _KINDS.get(tool) != "path":
        pattern = None if pattern.strip() else pattern
    if pattern is None:
        return Rule(action, tool, None, source)
    kind = _KINDS.get(tool)
    if kind is None:
        raise ConfigError(
            f"the rule {text!r}{where} has a pattern, and there is none for {tool!r}",
            hint="patterns are for commands (Bash), files (Read, Edit, Write) and addresses (WebFetch)",
        )
    if not pattern.strip() or "\0" in pattern:
        raise ConfigError(f"the pattern of the rule {text!r}{where} is empty", hint=f"write {tool} for every call")
    if kind == "domain" and not pattern.startswith("domain:"):
        raise ConfigError(f"the rule {text!r}{where} names no domain", hint=f'write "{tool}(domain:example.com)"')
    if kind != "command":
        return Rule(action, tool, pattern, source)
    try:
        return Rule(action, tool, pattern, source, CommandPattern.of(pattern))
    except ValueError as error:
        raise ConfigError(
            f"the rule {text!r}{where} cannot be used: {error}",
            hint='write one command; "git log:*" means every command that begins so',
        ) from error


def rules_of(table: object, source: str) -> tuple[Rule, ...]:
    """Read the lists `allow`, `ask` and `deny` of a `permissions` table.

    Raises:
        ConfigError: the table, a list or a rule is none; the message names the place.
    """
    if not isinstance(table, Mapping):
        raise ConfigError(f"the permissions in {source} are {table!r}", hint="they are lists named allow, ask and deny")
    unknown = [name for name in table if name not in get_args(Action)]
    if unknown:
        raise ConfigError(
            f"the permissions in {source} have {', '.join(map(repr, unknown))}",
            hint="they are lists named allow, ask and deny",
        )
    return tuple(_listed(table, source))


def _listed(table: Mapping[str, object], source: str) -> Iterator[Rule]:
    for action in get_args(Action):
        texts = table.get(action, [])
        if not isinstance(texts, list | tuple):
            raise ConfigError(f"{action!r} in {source} is {texts!r}", hint='it is a list such as ["Bash(git status)"]')
        for number, text in enumerate(texts, 1):
            yield parse_rule(text, action, f"{source}, {action} {number}")


def _globbed(pattern: str, name: str) -> bool:
    return re.fullmatch(_glob_text(pattern), name, re.DOTALL) is not None


def _glob_text(pattern: str) -> str:
    first, *rest = map(re.escape, pattern.split("*"))
    if not rest:
        return first
    # Between two stars the earliest fit is taken for good: a later one can never do better, and trying them all takes
    # for ever.
    *middle, last = rest
    return first + "".join(f"(?>.*?{piece})" for piece in middle if piece) + f".*{last}"
