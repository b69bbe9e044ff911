"""From a tool call to a result: keywords in, a bounded result out, exceptions told as errors.

Floor: 4. Owns: what both hosts do to a call before and after it runs; never: running it.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from plait.core.cancel import Cancel
from plait.core.error_words import words_of
from plait.core.errors import Refusal
from plait.core.exchange import ToolSchema
from plait.core.facts import ToolStart
from plait.core.messages import Message, ToolCall, ToolResult
from plait.core.unseen import flagged
from plait.core.values import dataclass
from plait.kernel.effects import Outcome
from plait.kernel.tools import Tool, ToolContext, as_result

if TYPE_CHECKING:
    from plait.tools.spill import Fitted

CHARS_PER_TOKEN: Final = 4
PASSED_ON: Final = (KeyboardInterrupt, GeneratorExit)
"""What ends more than the call in which it is raised. Anything else is the tool's failure, also what is no `Exception`:
`exit()`, and the panics of extension modules."""
_FRAMES: Final = 3
_HERE: Final = os.path.dirname(__file__)

Shape = Callable[[str], str]
"""Changes the text of a result before a model sees it: redaction, for one."""


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a call that a tool may look at."""

    history: Sequence[Message] = ()
    tools: Sequence[ToolSchema] = ()


NOWHERE: Final = Around()


@dataclass(frozen=True, slots=True)
class Finishing:
    """What happens to every result of a conversation."""

    result_tokens_max: int = 8_000
    redact: Shape | None = None
    redact_data: Callable[[object], object] | None = None
    """Changes what programs and the journal get beside the text."""
    session_id: str = ""
    run_id: str = ""
    fit: Callable[[str, int], Fitted] | None = None
    """Cuts a text and keeps all of it in a file that the model can read; None keeps nothing."""

    def apply(self, result: ToolResult) -> ToolResult:
        """Return the result as the model gets it: redacted, bounded, with a remark on what cannot be seen."""
        text = result.content if self.redact is None else self.redact(result.content)
        data = result.data
        if 0 < self.result_chars_max < len(text):
            cut = self.cut(result if text is result.content else replace(result, content=text), self.result_chars_max)
            text, data = cut.content, cut.data
        text = flagged(text)
        if data is not None and self.redact_data is not None:
            data = cast("Mapping[str, object]", self.redact_data(data))
        is_same = text is result.content and data is result.data
        return result if is_same else replace(result, content=text, data=data)

    @property
    def result_chars_max(self) -> int:
        """Size of one result; 0 is no limit."""
        return self.result_tokens_max * CHARS_PER_TOKEN

    def cut(self, result: ToolResult, chars_max: int) -> ToolResult:
        """Return a result that fits: its head and its tail, and all of it in a file where there is a place for that."""
        if chars_max <= 0 or len(result.content) <= chars_max:
            return result
        if self.fit is None:
            return replace(result, content=bounded(result.content, chars_max))
        fitted = self.fit(result.content, chars_max)
        return replace(result, content=fitted.text, data={**(result.data or {}), **fitted.data})

    def context(self, call: ToolCall, cancel: Cancel, start: ToolStart | None, around: Around = NOWHERE) -> ToolContext:
        """Return what a tool may know of a call that was started so."""
        key = f"{self.session_id}/{self.run_id}/{call.id}"
        intent = None if start is None else start.intent
        return ToolContext(call.id, key, cancel, self.session_id, intent, around.history, around.tools)


def keywords(
    tool: Tool,
    call: ToolCall,
    finishing: Finishing,
    cancel: Cancel,
    start: ToolStart | None = None,
    *,
    around: Around = NOWHERE,
) -> dict[str, object]:
    """Return what the tool's function is called with; one that wants to know of its call is told of it."""
    arguments = tool.keywords(call.arguments)
    name = tool.context_parameter
    if name is not None:
        arguments[name] = finishing.context(call, cancel, start, around)
    return arguments


def result_of(call: ToolCall, value: object, finishing: Finishing) -> ToolResult:
    """Return what a tool gave back as the call's result."""
    return finishing.apply(as_result(call.id, value))


def failure_of(call: ToolCall, error: BaseException, finishing: Finishing) -> ToolResult:
    """Return an exception of a tool as an error result: its sentence, its advice, where it was raised."""
    if isinstance(error, Refusal):
        text = f"{error.message}. {error.hint}" if error.hint else error.message
        data: Mapping[str, object] = {"ok": False, "error": error.message, "code": error.refusal, **error.details}
        return finishing.apply(ToolResult(call.id, text, is_error=True, data=data))
    # Where the tool went wrong, not how it was called: the same under every driver.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_HERE)]
    shown = (f"\n  {frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} in {frame.name}" for frame in frames[-_FRAMES:])
    where = "".join(shown)
    said = words_of(error)
    result = ToolResult(call.id, f"{said}{where}", is_error=True, data={"ok": False, "error": said})
    return finishing.apply(result)


def timed_out(call: ToolCall, timeout_s: float) -> ToolResult:
    """Return the result of a call that was stopped at its deadline."""
    return ToolResult(call.id, f"Stopped after {timeout_s:g} s: the tool did not finish in time.", is_error=True)


def given_up(call: ToolCall, timeout_s: float) -> ToolResult:
    """Return the result of a call that went on after its deadline although it was told to stop."""
    text = (
        f"Given up after {timeout_s:g} s: the tool does not stop. It may still be at work; check before repeating it."
    )
    return ToolResult(call.id, text, status="unknown")


def stopped(call: ToolCall, reason: str) -> ToolResult:
    """Return the result of a call that was stopped before it was done."""
    text = f"Stopped ({reason}) while it ran: it may have done part of its work. Check before repeating it."
    return ToolResult(call.id, text, status="unknown")


def not_run(call: ToolCall) -> Outcome:
    """Return the outcome of a call that was started on paper and never began."""
    return Outcome.of(ToolResult(call.id, "Not run: the turn was interrupted.", status="cancelled"))


def bounded(text: str, chars_max: int) -> str:
    """Return text that fits: head and tail, and between them a line that says how much was left out."""
    if chars_max <= 0 or len(text) <= chars_max:
        return text
    half = chars_max // 2
    dropped = len(text) - 2 * half
    return f"{text[:half]}\n[… truncated: {dropped} characters left out …]\n{text[len(text) - half :]}"
