"""The redaction of a conversation's results: it knows the keys of the model that is asked.

Floor: 4. Owns: where the values come from that a conversation holds; never: how a text is masked (`tools.redaction`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from plait.engine.calls import Finishing
from plait.tools.redaction import Redaction


def keys_of(model: object) -> Iterable[str]:
    """Return the keys that a model sends with its requests, as far as it tells them."""
    found = getattr(model, "secrets", ())
    return found if isinstance(found, tuple) else ()


def finishing_of(result_tokens_max: int, model: Callable[[], object], redact: bool | Redaction) -> Finishing:
    """Return what happens to every result of an agent whose model is `model()`.

    Args:
        redact: False leaves results as they are; a `Redaction` is that of tools which mask what they show themselves.
    """
    if redact is False:
        return Finishing(result_tokens_max)
    redaction = redact if isinstance(redact, Redaction) else Redaction()
    redaction.holds(lambda: keys_of(model()))
    return Finishing(result_tokens_max, redaction, redaction.data)
