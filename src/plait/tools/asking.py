"""Questions to the user: asked of a handler, or of whoever sits at standard input.

Floor: 3. Owns: how options are given and an answer is read; never: approvals, which are no questions of the model's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from plait.core.errors import Refusal
from plait.core.strict_json import JsonInvalid, dump, parse
from plait.core.unseen import visible
from plait.tools.answer import Answer, Reply, answering, failure

AskUser = Callable[[str, list[str]], str]
"""Puts a question and its options (none for a free question) to somebody and returns what they said."""


_NOBODY: Final = "Nobody is there to answer. Decide by yourself, and say in your answer what you took for granted."
_BLANK: Final = "The user gave no answer: go on by your own judgement."


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


@answering
def clarify(question: str, handler: AskUser | None, stream: TextIO | None) -> Reply:
    """Ask one question about the task; that nobody is there, or that nothing was said, is an answer and no failure."""
    if not question.strip():
        raise Refusal("INVALID_INPUT", "the question is blank", hint="ask something")
    try:
        said = line_from_terminal(question, [], stream) if handler is None else str(handler(question, []))
        if not said and handler is None:
            raise EOFError
    except (EOFError, KeyboardInterrupt):
        return _NOBODY, {"ok": True, "answer": None}
    said = said.strip()
    return (said, {"ok": True, "answer": said}) if said else (_BLANK, {"ok": True, "answer": ""})


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
    line = line_from_terminal(question, options, stream)
    if not line and options:
        raise EOFError
    return line.rstrip("\r\n")


def line_from_terminal(question: str, options: Sequence[str], stream: TextIO | None) -> str:
    """Show a question and return the line that is typed, with its end; nothing where the input has ended."""
    out = sys.stderr if stream is None else stream
    lines = [question, *(f"  {number}. {option}" for number, option in enumerate(options, 1)), "> "]
    bell = "\a" if out.isatty() else ""
    out.write(bell + visible("\n".join(lines)))  # the words are the model's
    out.flush()
    return sys.stdin.readline() if sys.stdin is not None else ""
