"""From a request to the plan of its response: the whole server except its sockets.

Floor: testing. Owns: which step answers, what it costs in tokens, how it is rendered; never: a connection.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from plait.core.values import dataclass
from plait.testing.dialects import DIALECTS, Dialect, server_error
from plait.testing.errors import ScriptError
from plait.testing.faults import Fault, Refuse, Serving, Step
from plait.testing.metering import Meter
from plait.testing.response import Op, Pause, Response
from plait.testing.steps import Raw, Say, as_answer, with_ids

if TYPE_CHECKING:
    from plait.testing.player import Player
    from plait.testing.request import Request
    from plait.testing.usage_shapes import UsageShape


def dialect_of(path: str) -> Dialect | None:
    """Return the API shape whose requests go to this path, under whatever base."""
    return next((dialect for dialect in DIALECTS if path.endswith(dialect.path)), None)


def model_list(models: Sequence[str]) -> Response:
    """Return the answer to `GET …/models`."""
    listed = [{"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "script"} for name in models]
    body = json.dumps({"object": "list", "data": listed}).encode()
    return Response((body,), {"Content-Type": "application/json"})


class Answering:
    """Answers completion requests from a script, with one prompt cache for all of them."""

    def __init__(self, player: Player[Request, Step], shape: UsageShape, meter: Meter) -> None:
        self._player = player
        self._shape = shape
        self._meter = meter

    def plan(self, request: Request) -> Iterable[Op]:
        """Choose the step for this request and say how its response is sent; never raises for a bad request."""
        dialect = dialect_of(request.path)
        if dialect is None:
            return server_error(404, f"nothing is served at {request.method} {request.path}").plan()
        try:
            prompt = dialect.prompt(request)
        except ValueError as wrong:
            return dialect.error(400, f"the request is not valid: {wrong}").plan()
        overflow = self._meter.overflow(request.number, prompt, request.json)
        if overflow is not None:
            return dialect.overflow(overflow).plan()
        try:
            step = self._player.answer(request)
        except ScriptError as disagreement:
            return dialect.error(500, str(disagreement)).plan()
        order = _Order(self._meter, self._shape, request, dialect, prompt)
        response = order.render(step)
        if isinstance(self._player.upcoming, Refuse):
            # A client that kept this connection would find it reset, not refused.
            response = replace(response, headers={**response.headers, "Connection": "close"})
        plan = step.plan(response) if isinstance(step, Fault) else response.plan()
        return (Pause(response.delay_s), *plan) if response.delay_s else plan


@dataclass(frozen=True, slots=True)
class _Order:
    """One request while its response is made."""

    meter: Meter
    shape: UsageShape
    request: Request
    dialect: Dialect
    prompt: bytes

    def render(self, step: Step) -> Response:
        if isinstance(step, Fault):
            return step.respond(Serving(self.dialect, self.render))
        answer = as_answer(step)
        return self._raw(answer) if isinstance(answer, Raw) else self._said(answer)

    def _said(self, say: Say) -> Response:
        # Only what a model reads is cached: an error status never gets here.
        count = self.meter.count(self.request.number, self.prompt, say.output_bytes())
        usage = self.shape(count) if say.usage is None else say.usage
        return self.dialect.render(with_ids(say, f"call_{self.request.number}"), self.request, usage)

    def _raw(self, raw: Raw) -> Response:
        if raw.status < 400:
            self.meter.count(self.request.number, self.prompt)
        if not raw.framed:
            return Response((raw.data,), framing="none", delay_s=raw.delay_s)
        default = "text/event-stream" if self.request.stream else "application/json"
        headers = {"Content-Type": default, **raw.headers}
        return Response((raw.data,), headers, raw.status, delay_s=raw.delay_s)
