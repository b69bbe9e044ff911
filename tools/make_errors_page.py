"""Write docs/errors.md from the error classes themselves; a test holds the page to what this writes.

Usage: `python tools/make_errors_page.py`; writes the page and prints its path.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plait.cli.exits import exit_of_error
from plait.core import errors
from plait.core.errors import REFUSAL_STATUS, PlaitError
from plait.wire.errors.failure import ADVICE

PAGE: Final = Path(__file__).resolve().parent.parent / "docs/errors.md"

_OPENING: Final = """\
# Errors

<!-- Written by tools/make_errors_page.py from the classes. -->

What goes wrong with configuration, models, tools, files and sessions is a `PlaitError`. `str(error)` is one sentence:
what happened, and where. `error.hint` is what to do about it, `error.code` a stable word for programs,
`error.to_dict()` all of it as JSON.

Arguments that no program should pass are what they are elsewhere in Python: a `TypeError` for an unknown keyword, a
`ValueError` for a negative timeout, for two tools of one name, for a session's dict that lacks keys.

Configuration and construction raise. Inside a turn the error is on the result (`status`, `error`), and
`result.raise_for_status()` raises it. The command line prints sentence and advice, and ends with the exit code.

An indented class is a kind of the one above it, and is caught with it.

| class | code | exit code | meaning |
| --- | --- | --- | --- |
"""
_MODEL: Final = """
## What a failed request comes to

A `ModelError` has `.kind`, `.status`, `.retryable` and `.retry_after_s`; retry decisions look at nothing else.
Without a narrower word from the endpoint, this is the advice:

| kind | advice |
| --- | --- |
"""
_REFUSALS: Final = """
## Refusals

A tool that will not do what a model asks answers with a `Refusal`: the model reads sentence and advice, a program reads
`code`, `status` and `details`.

| code | status |
| --- | --- |
"""


def page() -> str:
    """Return the page."""
    rows = "".join(
        f"| {_indented(kind, depth)} | `{kind.code}` | {_exit(kind)} | {_meaning(kind)} |\n"
        for kind, depth in tree(PlaitError)
    )
    advice = "".join(f"| `{kind}` | {sentence} |\n" for kind, sentence in sorted(ADVICE.items()))
    refusals = "".join(f"| `{code}` | {status} |\n" for code, status in REFUSAL_STATUS.items())
    return _OPENING + rows + _MODEL + advice + _REFUSALS + refusals


def tree(kind: type[PlaitError], depth: int = 0) -> Iterator[tuple[type[PlaitError], int]]:
    """Yield a class and all below it with their depth, in the order in which the module defines them."""
    yield kind, depth
    for name, below in vars(errors).items():
        if (
            isinstance(below, type)
            and issubclass(below, PlaitError)
            and below.__name__ == name
            and kind in below.__bases__
        ):
            yield from tree(below, depth + 1)


def _indented(kind: type[PlaitError], depth: int) -> str:
    return "&nbsp;&nbsp;" * depth + f"`{kind.__name__}`"


def _exit(kind: type[PlaitError]) -> int:
    return exit_of_error(kind.__new__(kind))


def _meaning(kind: type[PlaitError]) -> str:
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
