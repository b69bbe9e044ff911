"""Questions to the user: asked of a handler, or of whoever sits at standard input.

Floor: 3. Owns: how options are given and an answer is read; never: approvals, which are no questions of the model's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from plait.core.errors import Refusal
from plait.core.strict_json import JsonInvalid, dump, parse
from plait.tools.answer import Answer, failure

AskUser = Callable[[str, list[str]], str]
"""Puts a question and its options (none for a free question) to somebody and returns what they said."""


def nobody(question: str, options: list[str]) -> str:
    """Be the handler of a session without a user: a question put to it has failed."""
    raise EOFError(question, options)


def ask(question: str, options: object, handler: AskUser | None, stream: TextIO | None) -> Answer:
    """Ask and return `{"answer": …}` as JSON; a number answers with the option of that number.

    Without a handler the question is written to `stream` (standard error when None) and a line is read from standard
    input. A question with options that nobody answers has failed. Raises `Refusal` for an empty question, and what a
    handler raises.
    """
    if not question.strip():
        raise Refusal("INVALID_INPUT", "the question is empty", hint="ask something")
    if handler is nobody:
        return failure("user interaction is disabled (--non-interactive)")
    choices = read_options(options)
    try:
        said = ask_terminal(question, choices, stream) if handler is None else str(handler(question, choices))
    except EOFError:
        return failure("Nobody answered: the input has ended. Decide without the user.")
    answer = chosen(said, choices)
    return dump({"answer": answer}), {"answer": answer}


def read_options(options: object) -> list[str]:
    """Return options given as a list, as a JSON list, or separated by commas."""
    if isinstance(options, str):
        try:
            options = parse(options) if options.lstrip().startswith("[") else options.split(",")
        except JsonInvalid:
            options = str(options).split(",")
    if not isinstance(options, Sequence):
        return []
    return [text for option in options if (text := str(option).strip())]


def chosen(said: str, options: Sequence[str]) -> str:
    """Return the option whose number, from 1, was said; otherwise what was said."""
    number = said.strip()
    if number.isascii() and number.isdigit() and 1 <= int(number) <= len(options):
        return options[int(number) - 1]
    return said


def ask_terminal(question: str, options: Sequence[str], stream: TextIO | None) -> str:
    """Ask at standard input; its end answers a free question with nothing and raises `EOFError` for another."""
    out = sys.stderr if stream is None else stream
    lines = [question, *(f"  {number}. {option}" for number, option in enumerate(options, 1)), "> "]
    bell = "\a" if out.isatty() else ""
    out.write(bell + "\n".join(lines))
    out.flush()
    line = sys.stdin.readline() if sys.stdin is not None else ""
    if not line and options:
        raise EOFError
    return line.rstrip("\r\n")
