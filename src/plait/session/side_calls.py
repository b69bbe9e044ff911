"""Calls of programs whose process ended first.

Floor: 5. Owns: that what became of them is found out and recorded once; never: making such a call (`executing`).
"""

from __future__ import annotations

from plait.core.cancel import Cancel
from plait.core.facts import ToolEnd
from plait.core.side_calls import side_call_told
from plait.engine.calls import Finishing
from plait.engine.recovery import resolver
from plait.session.live import Live


def settle_side_calls(live: Live, finishing: Finishing) -> None:
    """Record what became of calls whose process ended first; what still runs is stopped, as nobody waits for it."""
    found, live.standing.side_calls = live.standing.side_calls, ()
    resolve = resolver(live.conversation.terms.tools, finishing)
    nobody = Cancel()
    nobody.cancel("interrupted")
    for call, start in found:
        result = resolve(call, start, nobody).result
        told = None if result is None else side_call_told(call, ToolEnd(result))
        if told is not None:
            live.conversation.note(told)
    live.conversation.commit()
