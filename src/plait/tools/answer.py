"""How a tool answers: text with data on success, a result that says what to do next on refusal.

Floor: 3. Owns: the words around a refusal and the shape of failure data; never: when to refuse.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, ParamSpec

from plait.core.errors import Refusal
from plait.core.messages import ToolResult
from plait.kernel.tools import as_result

Answer = tuple[str, dict[str, object]]
"""What a model reads, and what a program reads; `ok: False` in the data marks a failure."""

Reply = Answer | ToolResult
"""What a tool gives back: text and data, or the result that says why it refused."""

FAILURE: Final = "ERROR: "
"""How the text of every failure begins."""

KEPT_OUT: Final = "[sandbox: "
"""How the note begins under the result of a command that seems to have met its fence."""

_Arguments = ParamSpec("_Arguments")


def answering(fn: Callable[_Arguments, Reply]) -> Callable[_Arguments, Reply]:
    """Turn what a tool refuses into a result that the model can act on."""

    @functools.wraps(fn)
    def answer(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Reply:
        try:
            return fn(*args, **kwargs)
        except Refusal as refusal:
            return refused(refusal)

    return answer


def refused(refusal: Refusal) -> ToolResult:
    """Return a refusal as the result of a call whose id the host fills in.

    The text is the message and the hint as sentences; the data are `ok`, `error`, `code`, `status`, `hint` and
    `details`.
    """
    text = f"{FAILURE}{sentence(refusal.message)}"
    if refusal.hint:
        text = f"{text} {sentence(refusal.hint)}"
    data = {
        "ok": False,
        "error": refusal.message,
        "code": refusal.refusal,
        "status": refusal.status,
        "hint": refusal.hint,
        "details": dict(refusal.details),
    }
    return ToolResult("", text, data=data, status="cancelled" if refusal.refusal == "CANCELLED" else "error")


def failure(message: str, **data: object) -> Answer:
    """Return a failure as text and data."""
    text = f"{FAILURE}{message}"
    return text, {"result": text, "ok": False, "error": message, **data}


def as_answer(value: object) -> Answer:
    """Return whatever a tool gave back as text and data."""
    result = as_result("", value)
    data = dict(result.data or {})
    if result.is_error:
        data = {"result": result.content, **data, "ok": False}
        data.setdefault("error", result.content.removeprefix(FAILURE))
    return result.content, data


def sentence(words: str) -> str:
    """Give words a capital letter and a full stop, where they have none."""
    words = words[:1].upper() + words[1:]
    return words if words.endswith((".", "?", "!")) else f"{words}."
