"""A call by name through a dispatch table, whatever the function behind it gives back or raises.

Floor: 3. Owns: finding and calling the function, the words for what went wrong; never: which functions there are.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from plait.core.error_words import words_of
from plait.core.errors import FatalToolDispatchError, Refusal
from plait.tools.answer import Answer, as_answer, failure, refused
from plait.tools.definitions import CANONICAL_TOOLS
from plait.tools.renames import RENAMED

Function = Callable[..., Any]
Table = Mapping[str, Mapping[str, object]]

_FRAMES: Final = 3
_SHOWN_CHARS_MAX: Final = 2_000


def dispatch(name: str, arguments: Mapping[str, object], table: Table, functions: Mapping[str, Function]) -> Answer:
    """Call the function behind `name` and return text and data.

    `table` maps names to `{python_function, param_map}`, where the function is a callable or a name in `functions`.
    An alias of a tool that is in the table reaches that tool. A coroutine is run to its end, in this thread or, where
    a loop runs already, in another. Raises `FatalToolDispatchError` for a name that is not in the table; whatever the
    function raises becomes an answer with `ok: False`.
    """
    entry, arguments = _entry(name, arguments, table)
    target = entry.get("python_function")
    fn = functions.get(target) if isinstance(target, str) else target
    if not callable(fn):
        return failure(f"The function {target!r} behind {name!r} is not in the tool library.")
    given = entry.get("param_map")
    names = given if isinstance(given, Mapping) else {}
    return call(fn, {str(names.get(key, key)): value for key, value in arguments.items()})


def call(fn: Function, keywords: Mapping[str, object]) -> Answer:
    """Call one function with keywords and return text and data; nothing an ordinary function raises comes through."""
    mismatch = _mismatch(fn, keywords)
    if mismatch:
        return failure(mismatch)
    try:
        value = fn(**keywords)
        return as_answer(finished(value) if inspect.isawaitable(value) else value)
    except Refusal as refusal:
        return as_answer(refused(refusal))
    except Exception as error:  # boundary: a tool's own failure is told to the model, not to the caller
        return failure(_said(error, keywords))


def _entry(
    name: str, arguments: Mapping[str, object], table: Table
) -> tuple[Mapping[str, object], Mapping[str, object]]:
    entry = table.get(name)
    if entry is not None:
        return entry, arguments
    rename = RENAMED.get(name)
    if rename is None or rename.name not in table:
        known = ", ".join(table) or "none"
        raise FatalToolDispatchError(f"no tool is named {name!r}", hint=f"the tools are: {known}")
    entry = table[rename.name]
    if rename.function_name and entry.get("python_function") == CANONICAL_TOOLS.get(rename.name):
        return {"python_function": rename.function_name}, arguments
    return entry, rename.arguments(arguments)


def _mismatch(fn: Function, keywords: Mapping[str, object]) -> str:
    """Say why `fn` cannot be called with these keywords, or nothing."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(**keywords)
    except TypeError as error:
        bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
        wanted = signature.replace(parameters=bare, return_annotation=signature.empty)
        return f"{getattr(fn, '__name__', 'the function')}{wanted} cannot be called with {sorted(keywords)}: {error}."
    return ""


def finished(value: Awaitable[object]) -> object:
    """Return what a coroutine comes to: run in this thread or, where a loop runs already, in another."""

    async def finish() -> object:
        return await value

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(finish())
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, finish()).result()


def _said(error: Exception, keywords: Mapping[str, object]) -> str:
    frames = traceback.extract_tb(error.__traceback__)[1:][-_FRAMES:]
    where = "".join(f"\n  {frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} in {frame.name}" for frame in frames)
    shown = repr(dict(keywords))
    if len(shown) > _SHOWN_CHARS_MAX:
        shown = f"{shown[:_SHOWN_CHARS_MAX]}…"
    return f"{words_of(error)}\n  called with {shown}{where}"
