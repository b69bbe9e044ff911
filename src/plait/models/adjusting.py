"""Which refusals can be met by another form of the same request.

Floor: 2. Owns: what is learnt from a refusal; never: the history, and what a form does to a request (`form`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from plait.core.exchange import ProviderFailed
from plait.models.form import ALTERNATE, ECHO, Form

OUTPUT_TOKENS_MIN: Final = 1_024
"""Less room for an answer than this is worth no request: the history has to shrink instead."""
_OPTIONAL: Final = ("parallel_tool_calls", "stream_options", "prompt_cache_key", "tool_choice")
"""Members that an answer can do without; of `tool_choice` that is so where it only forbids calls."""
_IN_TURN: Final = re.compile(r"\b(?:must|should) alternate\b", re.IGNORECASE)


def adjusted(form: Form, failed: ProviderFailed, learnt: set[str]) -> Form | None:
    """Return the form in which a request that was refused is made again; None where there is none.

    Args:
        form: in which it was refused.
        learnt: what holds for all of the endpoint's conversations; what is new is added.
    """
    if failed.kind in ("unsupported_feature", "bad_request", "invalid_history"):
        is_history = failed.kind == "invalid_history"
        named = [ECHO] if is_history and "reasoning_content" in failed.message else []
        named += [ALTERNATE] if is_history and _IN_TURN.search(failed.message) else []
        named += [] if is_history else [name for name in _OPTIONAL if name in failed.message]
        # Another conversation may have learnt it since this one began.
        new = set(named) - form.learnt
        learnt.update(new)
        return form.with_learnt(new) if new else None
    limit = _output_limit_in(failed.hint) if failed.kind == "context_overflow" else None
    if limit is None or limit < OUTPUT_TOKENS_MIN or (form.output_max is not None and limit >= form.output_max):
        return None
    # A conversation grows: where it has met the window before, the next requests are to fit as well.
    return replace(form, output_max=limit if form.output_max is None else max(OUTPUT_TOKENS_MIN, limit // 2))


def _output_limit_in(hint: str) -> int | None:
    from plait.wire.errors.overflow import output_limit_in  # many patterns, for what few conversations ever hear

    return output_limit_in(hint)
