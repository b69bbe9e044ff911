"""A client of a host's own making: no plait class, only the shape."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from plait.testing import Call


class OwnClient:
    """Answers from a list; an answer is text, a call, or an exception to raise."""

    def __init__(self, *answers: str | Call | Exception) -> None:
        self.base_url = SimpleNamespace(host="own.invalid")
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))
        self.requests: list[dict[str, Any]] = []
        self._answers = list(answers)

    def create(self, **request: Any) -> Any:
        """Answer as OpenAI's client does."""
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        text, calls = (answer, []) if isinstance(answer, str) else (None, [answer])
        tool_calls = [_call(call, len(self.requests)) for call in calls]
        message = SimpleNamespace(role="assistant", content=text, tool_calls=tool_calls or None)
        details = SimpleNamespace(cached_tokens=0)
        usage = SimpleNamespace(prompt_tokens=10, completion_tokens=2, total_tokens=12, prompt_tokens_details=details)
        return SimpleNamespace(choices=[SimpleNamespace(message=message)], usage=usage)

    def messages(self, request: int) -> Sequence[dict[str, Any]]:
        """Return the messages of a request, counted from 0."""
        found: Sequence[dict[str, Any]] = self.requests[request]["messages"]
        return found


def _call(call: Call, number: int) -> Any:
    function = SimpleNamespace(name=call.name, arguments=call.arguments_text)
    return SimpleNamespace(id=f"call_{number}", type="function", function=function)
