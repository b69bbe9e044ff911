"""Chooses the step that answers a request, and remembers where test and script disagreed.

Floor: testing. Owns: the order of steps, `When` rules, the final check; never: how a step is delivered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from plait.core.values import dataclass
from plait.testing.errors import ScriptError, UnexpectedRequest, UnusedStep


class Seen(Protocol):
    """What rules and error messages look at in a request."""

    @property
    def model(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def last_text(self) -> str: ...


S = TypeVar("S")
R = TypeVar("R", bound=Seen)


@dataclass(frozen=True)
class When(Generic[S]):
    """A rule beside the ordered steps: it answers every request that matches, before they are looked at.

    All conditions that are given must hold. Use it where several conversations share a script (children, side
    queries) and their order is not fixed.
    """

    then: S
    contains: str | None = None
    """Text that stands anywhere in the messages."""
    last: str | None = None
    """Text that stands in the last message."""
    model: str | None = None
    times: int | None = None
    """How often it must answer; None: as often as it matches, never included."""

    def matches(self, request: Seen) -> bool:
        """Tell whether this rule answers the request."""
        return (
            (self.contains is None or self.contains in request.text)
            and (self.last is None or self.last in request.last_text)
            and (self.model is None or self.model == request.model)
        )


class Player(Generic[R, S]):
    """Plays one script; safe to ask from any thread."""

    def __init__(
        self,
        script: Iterable[S | When[S]] | Callable[[R], S | None],
        *,
        repeat: bool = False,
        allow_unused: bool = False,
    ) -> None:
        self._lock = threading.Lock()
        self._choose = script if callable(script) else None
        entries: Sequence[S | When[S]] = () if callable(script) else tuple(script)
        self._rules: list[When[S]] = [entry for entry in entries if isinstance(entry, When)]
        self._rule_uses = [0] * len(self._rules)
        self._steps: list[S] = [entry for entry in entries if not isinstance(entry, When)]
        self._position = 0
        self._asked = 0
        self._repeat = repeat
        self._allow_unused = allow_unused
        self._failures: list[ScriptError] = []

    @property
    def upcoming(self) -> S | None:
        """The next ordered step, or None; it is not used up by looking."""
        with self._lock:
            return self._peek()

    def skip(self) -> None:
        """Use the next ordered step up without a request."""
        with self._lock:
            self._take()

    def answer(self, request: R) -> S:
        """Return the step for this request.

        Raises:
            UnexpectedRequest: no step answers; it is kept and raised again by `check`.
        """
        with self._lock:
            self._asked += 1
            number = self._asked
            step = self._ruled(request) if self._choose is None else None
            if step is None and self._choose is None:
                step = self._take()
        if self._choose is not None:
            step = self._chosen(request, number)
        if step is None:
            raise self._unexpected(request, number)
        return step

    def blame(self, error: Exception, number: int) -> ScriptError:
        """Keep an error of the script's own code, so that `check` raises it."""
        failure = ScriptError(f"the script raised {error!r} for request {number}")
        failure.__cause__ = error
        with self._lock:
            self._failures.append(failure)
        return failure

    def check(self) -> None:
        """Raise the first disagreement between the script and what was asked.

        Raises:
            UnexpectedRequest: a request had no step. UnusedStep: a step had no request. ScriptError: the function
                that is the script raised.
        """
        with self._lock:
            if self._failures:
                raise self._failures[0]
            left = self._left_over()
        if left and not self._allow_unused:
            raise UnusedStep(
                f"{len(left)} of the script's steps were never asked for, the first is {left[0]}",
                hint="shorten the script, or pass allow_unused=True",
            )

    def _ruled(self, request: R) -> S | None:
        for index, rule in enumerate(self._rules):
            spent = rule.times is not None and self._rule_uses[index] >= rule.times
            if not spent and rule.matches(request):
                self._rule_uses[index] += 1
                return rule.then
        return None

    def _peek(self) -> S | None:
        if self._position == len(self._steps) and self._repeat:
            self._position = 0
        return self._steps[self._position] if self._position < len(self._steps) else None

    def _take(self) -> S | None:
        step = self._peek()
        if step is not None:
            self._position += 1
        return step

    def _chosen(self, request: R, number: int) -> S | None:
        assert self._choose is not None
        try:
            return self._choose(request)
        except Exception as error:  # boundary: the script is a test's own code; its error must reach the test
            raise self.blame(error, number) from error

    def _unexpected(self, request: R, number: int) -> UnexpectedRequest:
        last = request.last_text
        shown = last if len(last) <= 80 else f"{last[:77]}..."
        error = UnexpectedRequest(
            f"request {number} is answered by no step of the script; its last message is {shown!r}",
            number=number,
            hint="add a step for it, or a When rule that matches it",
        )
        with self._lock:
            self._failures.append(error)
        return error

    def _left_over(self) -> list[str]:
        ordered = [] if self._repeat else self._steps[self._position :]
        left = [f"step {self._position + i + 1}: {step!r}" for i, step in enumerate(ordered)]
        for rule, uses in zip(self._rules, self._rule_uses, strict=True):
            if rule.times is not None and uses < rule.times:
                left.append(f"{rule!r} ({uses} of {rule.times})")
        return left
