"""The folder that a command works in, and what it means that nothing can be kept there.

Floor: 7. Owns: the working directory of the process meanwhile; never: what is done in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from plait.core.errors import ConfigError, JournalError


@contextmanager
def inside(directory: str) -> Iterator[None]:
    """Work in a folder and come back."""
    try:
        before = os.getcwd()
        os.chdir(directory)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot work in {directory!r}: {reason}", hint="give an existing folder with -C") from error
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def nothing_begun() -> Iterator[None]:
    """Tell of a place that cannot be used for a journal as of configuration: nothing was begun there.

    A journal that is there and busy or damaged, and a disk that is full, stay what they are.
    """
    try:
        yield
    except JournalError as error:
        if type(error) is not JournalError:
            raise
        raise ConfigError(error.message, hint=error.hint) from error
