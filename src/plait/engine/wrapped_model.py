"""A model with something around its lines.

Floor: 4. Owns: that everything else of it stays its own; never: what is around a line.
"""

from __future__ import annotations

from typing import Any

from plait.kernel.ports import Model


class WrappedModel:
    """The model that it was made of, but for the lines, which a class of its own opens (`open` and `aopen`)."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def name(self) -> str:
        """The name requests ask for."""
        return self._model.name

    @property
    def context_window(self) -> int | None:
        """Tokens that fit, where it is known."""
        return self._model.context_window

    @property
    def supports_images(self) -> bool:
        """True when user messages may hold pictures."""
        return self._model.supports_images
