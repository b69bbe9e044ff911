"""The question about one call: all of it, as it will run, and nothing that could be mistaken for something else.

Floor: 7. Owns: the words and the layout; never: asking (`terminal`), or what an answer means (`approving`).

Two calls that differ are shown differently: what cannot be seen is spelt out, a backslash that could be taken for such
a spelling is doubled, and every kind of line has a mark of its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from plait.cli.escapes import literal
from plait.core.messages import ToolCall
from plait.core.strict_json import JsonInvalid, dump
from plait.hands.command_lines.command_line import read_command_line
from plait.kernel.tools import Tool
from plait.tools.call_paths import named_paths
from plait.tools.looks import Led
from plait.tools.renames import canonical

PROMPT: Final = "Allow? [y]es, [n]o, [a]lways this one: "
_DESCRIPTION_CHARS: Final = 2_000
_SCRIPTS: Final = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH", "MATHEMATICAL", "COPTIC", "LISU")
"""Alphabets with letters that look like Latin ones."""


def question(call: ToolCall, why: str = "", *, led: Sequence[Led] = (), tool: Tool | None = None) -> str:
    """Return the question about a call.

    Args:
        why: why a person is asked, where a rule or a hook wants it.
        led: where the paths of the call lead.
        tool: the tool, where it should say of itself what it does: one of a server, or a plugin's.
    """
    what, body, rest = _subject(call, "" if why else _where(led))
    lines = ["", f"plait wants to {' '.join(literal(what))}:"]
    lines += [f"  | {line}" for line in literal(body)]
    for name, value in rest.items():
        lines += _marked("+", f"{name}: {value if isinstance(value, str) else dump(value)}")
    lines += _words(body) if what == _RUN else ()
    named = named_paths(call)
    lines += [line for each in led if _is_news(each, named) for line in _marked(">", f"leads to {each.real}")]
    lines += [line for word in lookalikes(body) for line in _marked("!", word)]
    lines += _told_by(tool)
    lines += _reasons(why) if why else ()
    return "\n".join([*lines, PROMPT])


def _reasons(why: str) -> Iterator[str]:
    """Yield why a person is asked: the reason, and what belongs to it below, such as how a tool has changed."""
    first, *more = literal(f"You are asked because of {why}")
    yield f"  {first}"
    yield from (f"  ~ {line}" for line in more)


def _is_news(led: Led, named: Sequence[str]) -> bool:
    """Say whether the question does not say anyway where a path leads: through a link, or under a spec's own names."""
    return led.real != led.path or led.path not in named


_OUTSIDE: Final = "a file outside the workspace"
_OBEYED: Final = "a file that other programs obey"
_RUN: Final = "run this command"
_SHELLS: Final = frozenset({"exec_shell", "bash", "nohup"})


def _where(led: Sequence[Led]) -> str:
    """Return what makes a change one to ask about."""
    if not any(each.is_obeyed for each in led):
        return _OUTSIDE
    return f"{_OUTSIDE}, and one that other programs obey" if any(each.place == "outside" for each in led) else _OBEYED


def _subject(call: ToolCall, where: str) -> tuple[str, str, dict[str, object]]:
    """Return what is wanted, what of it stands by itself, and the other arguments; `where` a change would be."""
    try:
        arguments = call.arguments
    except JsonInvalid:
        return f"use the tool {call.name!r} with", call.raw, {}
    if canonical(call.name) == "apply_patch" and isinstance(patch := arguments.get("input"), str):
        return f"apply this patch, which changes {where}" if where else "apply this patch", patch, {}
    # What any other tool does with a `command` or a `path` is its own affair.
    if canonical(call.name) in _SHELLS and isinstance(command := arguments.get("command"), str):
        return _RUN, command, {name: value for name, value in arguments.items() if name != "command"}
    if named_paths(call) and isinstance(path := arguments.get("path"), str):
        what = f"change {where} with" if where else "touch a file with"
        return f"{what} {call.name!r}", path, {name: value for name, value in arguments.items() if name != "path"}
    return f"use the tool {call.name!r} with", call.raw, {}


def rule_for(call: ToolCall) -> str | None:
    """Return the rule that means a call of the shell and nothing else; None where no rule says just that."""
    what, body, rest = _subject(call, "")
    if what != _RUN or rest or "*" in body or any(not char.isprintable() for char in body):
        return None
    line = read_command_line(body)
    is_plain = len(line.all) == 1 and not line.doubts and line.all[0].is_certain
    return f"Bash({body.strip()})" if is_plain else None


def _words(command: str) -> Iterator[str]:
    """Yield the commands of a line as the shell will see their words, where that is not what one reads anyway."""
    line = read_command_line(command)
    plain = len(line.commands) == 1 and not line.doubts and " ".join(line.commands[0].words) == command
    if plain:
        return
    for each in line.commands:
        # Each word in brackets of its own: where one ends is never a guess.
        yield from _marked("=", " ".join(f"[{word}]" for word in each.words))
    yield from (line for doubt in line.doubts for line in _marked("!", doubt))


def _told_by(tool: Tool | None) -> Iterator[str]:
    """Yield what a tool that is not plait's own says of itself: it is where a server puts what it wants done."""
    if tool is None or not tool.description:
        return
    text = tool.description
    left = len(text) - _DESCRIPTION_CHARS
    yield "  The tool says of itself:"
    yield from _marked("#", text if left <= 0 else f"{text[:_DESCRIPTION_CHARS]} … and {left} characters more")


def _marked(mark: str, text: str) -> Iterator[str]:
    first, *more = literal(text)
    yield f"  {mark} {first}"
    yield from (f"  {mark}   {line}" for line in more)


def lookalikes(text: str) -> Iterable[str]:
    """Yield a remark for each word that mixes Latin letters with letters of other alphabets that look like them."""
    for word in dict.fromkeys(re.findall(r"\w+", text)):
        odd = {char for char in word if char > "\x7f" and unicodedata.name(char, "").startswith(_SCRIPTS)}
        if odd:
            names = ", ".join(f"U+{ord(char):04X} {unicodedata.name(char)}" for char in sorted(odd))
            yield f"{word!r} has letters that only look Latin: {names}"
