"""What a conversation's requests have to fit into, from its model and its terms.

Floor: 4. Owns: which window counts, and how much of it an answer keeps; never: the arithmetic (`kernel.budget`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from plait.kernel.budget import Room
from plait.kernel.counting import TokenCounter
from plait.kernel.ports import Model, Setup
from plait.kernel.rules import Rules
from plait.kernel.threshold import trigger_of

RESERVE_TOKENS: Final = 8_192
"""Room for an answer of which nobody said how long it may be, but no more than a quarter of the window."""


def room_of(model: Model, setup: Setup) -> Room | None:
    """Return what the requests of a conversation have to fit into, None where nothing is known of the model's window.

    A model that tells a `window_max` apart from its `context_window` says which of them is certain.
    """
    usual = model.context_window
    window: int | None = getattr(model, "window_max", usual)
    if usual is None and window is None:
        return None
    most = usual or window or 0
    reserve = setup.options.max_output_tokens or min(RESERVE_TOKENS, most // 4)
    origin = str(getattr(model, "origin", ""))
    return Room(window, usual=usual, reserve=reserve, system=setup.system, tools=setup.tools, origin=origin)


def with_counter(rules: Rules, wanted: TokenCounter | str | None, model: Model) -> Rules:
    """Return rules with what counts the model's tokens; raise `ConfigError` where that cannot be had."""
    if wanted is None:
        return rules
    from plait.models.token_counters import token_counter_of  # most conversations estimate

    return replace(rules, token_counter=token_counter_of(wanted, model.name))


def rules_in(room: Room | None, rules: Rules) -> Rules:
    """Return rules with the room that requests have to fit into; what a compaction leaves fits well into it, too."""
    if room is not None:
        room.count = rules.token_counter
        rules = replace(rules, room=room)
    shrinking, trigger = rules.shrinking, trigger_of(rules)
    if shrinking.keep_last_turns is None:
        return rules
    kept = min(shrinking.kept_tokens_max, trigger // 2) if trigger else shrinking.kept_tokens_max
    summary = shrinking.summary_tokens_max
    if summary is not None and room is not None and room.reserve:
        summary = min(summary, room.reserve)
    return replace(rules, shrinking=replace(shrinking, kept_tokens_max=kept, summary_tokens_max=summary))
