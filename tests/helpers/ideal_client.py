"""What a session would cost at its cheapest: the same answers, results and summaries, and requests that only grow.

It knows nothing of plait's wire: it folds the facts of a journal, writes requests in its own hand, and counts them with
a meter of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from plait.core.facts import Fact, MessageAdded, Reset, RoundClosed, ToolEnd
from plait.core.messages import Message
from plait.testing import Billed, Meter

Item = Mapping[str, Any]
MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Tariff:
    """Money for a million tokens."""

    fresh: Decimal
    cached: Decimal
    output: Decimal

    def cost(self, bills: Iterable[Billed]) -> Decimal:
        """Return what these requests cost, to the last digit."""
        total = Decimal(0)
        for bill in bills:
            count = bill.count
            total += (count.prompt - count.cached) * self.fresh
            total += count.cached * self.cached + count.output * self.output
        return total / MILLION


@dataclass
class IdealClient:
    """Makes the requests of a session, each the last one and what came since."""

    meter: Meter
    tools: Sequence[Item]
    system: Item
    summary_request: Item
    """What the model is asked for a summary with."""
    _items: list[Item] = field(default_factory=list)
    _results: dict[str, str] = field(default_factory=dict)
    _calls: list[str] = field(default_factory=list)

    def play(self, facts: Iterable[Fact]) -> tuple[Billed, ...]:
        """Make the requests that these facts are answers to; return what a server counts of them."""
        for fact in facts:
            if isinstance(fact, MessageAdded):
                self._added(fact.message)
            elif isinstance(fact, ToolEnd):
                self._results[fact.result.call_id] = fact.result.content
            elif isinstance(fact, RoundClosed):
                self._items += [_result(call_id, self._results.pop(call_id)) for call_id in self._calls]
            elif isinstance(fact, Reset):
                summary = next(message.content for message in fact.messages if message.role == "summary")
                self._ask([*self._items, self.summary_request], summary)
                self._items[slice(*self._span(fact))] = [_item(message) for message in fact.messages]
        return self.meter.billed

    def _added(self, message: Message) -> None:
        if message.role == "assistant":
            self._ask(self._items, message.content + "".join(call.name + call.raw for call in message.tool_calls))
            self._calls = [call.id for call in message.tool_calls]
        self._items.append(_item(message))

    def _ask(self, items: Sequence[Item], answer: str) -> None:
        prompt = _dumped(self.tools) + _dumped([self.system, *items])[:-1]
        self.meter.count(len(self.meter.billed) + 1, prompt, len(answer.encode()))

    def _span(self, fact: Reset) -> tuple[int, int]:
        """Where in the items the replaced messages stand: one item a result, as this session makes one call a step."""
        assert all(len(item.get("tool_calls", ())) <= 1 for item in self._items)
        return fact.start, fact.end


def _item(message: Message) -> Item:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.raw}}
        for call in message.tool_calls
    ]
    if message.role == "tool":
        return _result(message.tool_results[0].call_id, message.tool_results[0].content)
    if calls:
        return {"role": "assistant", "content": message.content or None, "tool_calls": calls}
    return {"role": "assistant" if message.role == "assistant" else "user", "content": message.content}


def _result(call_id: str, content: str) -> Item:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def _dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
