"""When a conversation has grown so large that its history is summarised before the next request.

Floor: 1. Owns: that threshold, and how often it may be met; never: the summary (`compact`), or a request that did not
fit (`thinking`).

The threshold stays where it is, whatever came of earlier summaries. What keeps it from being met again and again is
counted in answers: after each summary, or try, some have to come first, and more of them where the last wait was in
vain. A request that does not fit is another matter, and waits for nothing.
"""

from __future__ import annotations

from typing import Final

from plait.kernel.budget import Room, estimate, overflow_of
from plait.kernel.gauge import units_of
from plait.kernel.rules import Rules
from plait.kernel.spans import choose
from plait.kernel.state import State

TRIGGER_TOKENS: Final = 100_000
"""The size from which history is summarised, where neither somebody nor the model's window says less."""
_SPARE: Final = 16
"""So much of a window is left over in any case: a summary has to fit into it, and sizes are estimates."""
_NOWHERE: Final = Room(None)


def trigger_of(rules: Rules) -> int:
    """Return the size of a request, in tokens, from which history is summarised first; 0 for never."""
    wanted, room = rules.shrinking.trigger_tokens, rules.room
    if wanted is not None:
        return wanted
    if room is None or room.usual is None:
        return TRIGGER_TOKENS
    return max(1, min(TRIGGER_TOKENS, room.usual - max(room.reserve, room.usual // _SPARE)))


def is_due(state: State, rules: Rules) -> bool:
    """Say whether history is to be summarised before the next request, and something can be."""
    trigger = trigger_of(rules)
    if not trigger or state.since_shrink < state.patience or _is_small(state, rules, trigger):
        return False
    if rules.room is not None and overflow_of(state, rules.room) is not None:
        return False  # all of it would not even fit into the request for a summary: that is an overflow
    return choose(state, rules.shrinking, "threshold") is not None


def _is_small(state: State, rules: Rules, trigger: int) -> bool:
    newest, history = state.gauge.newest, state.history
    if newest is not None:
        if newest.input >= trigger:
            return False  # the provider has said so, whatever the text looks like
        # Nearly always: a token for every byte that came since would still be far from it.
        if newest.input + newest.said + units_of(history[newest.length + 1 :]) < trigger:
            return True
    room = rules.room or _NOWHERE
    if newest is None and state.gauge.units(history) + sum(room.head) < trigger:
        return True
    return estimate(state, room).tokens < trigger
