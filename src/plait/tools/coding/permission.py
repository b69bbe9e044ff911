"""What the host says before a strict tool does anything.

Floor: 3. Owns: asking, in the order that reveals least; never: the answer.

`authorize` is asked about each call, with everything that it would do. `authorize_path` knows nothing of operations:
it is asked about a path and about each directory above it, the workspace first, and its first no ends the questions.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any

from plait.core.errors import Refusal
from plait.core.values import dataclass
from plait.tools.coding.coroutines import HOST_LOOP


@dataclass(frozen=True, slots=True)
class CodingRequest:
    """One call, before it has any effect."""

    tool: str
    details: Mapping[str, object] = field(default_factory=dict)
    """Plain JSON: the path, and what would be written, replaced, created or run."""


Authorize = Callable[[CodingRequest], "bool | Awaitable[bool]"]
AuthorizePath = Callable[[str], "bool | Awaitable[bool]"]


@dataclass(frozen=True, slots=True)
class Permission:
    """Asks a host's callbacks from the thread in which a tool runs."""

    authorize: Authorize
    authorize_path: AuthorizePath | None = None

    @property
    def is_async(self) -> bool:
        """True when a callback is a coroutine function, so that the tools must be, too."""
        return any(map(_is_async, (self.authorize, self.authorize_path)))

    def require(self, tool: str, **details: object) -> None:
        """Ask about a call. Raises `Refusal` unless the answer is True."""
        if _settled(self.authorize(CodingRequest(tool, details))) is not True:
            raise Refusal("FORBIDDEN", f"{tool} was not allowed", hint="do something else, or ask the user")

    def require_path(self, path: str) -> None:
        """Ask about a path and everything above it. Raises `Refusal` at the first no."""
        if not self.allows_path(path):
            raise Refusal(
                "FORBIDDEN", f"the path {path!r} may not be used", hint="use another path", details={"path": path}
            )

    def allows_path(self, path: str) -> bool:
        """Ask about the workspace, each directory above `path`, and `path`; stop at the first no."""
        names = [] if path == "." else path.split("/")
        return all(self.allows(path) for path in (".", *("/".join(names[: end + 1]) for end in range(len(names)))))

    def allows(self, path: str) -> bool:
        """Ask about one path whose directories are known to be allowed."""
        return self.authorize_path is None or _settled(self.authorize_path(path)) is True


def _is_async(callback: Callable[..., Any] | None) -> bool:
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(getattr(callback, "__call__", None))  # noqa: B004


def _settled(answer: bool | Awaitable[bool]) -> object:
    """Return an answer, waiting for it in the host's loop when it is still to come."""
    if not inspect.isawaitable(answer):
        return answer

    async def wait() -> bool:
        return await answer

    loop = HOST_LOOP.get()
    return asyncio.run(wait()) if loop is None else asyncio.run_coroutine_threadsafe(wait(), loop).result()
