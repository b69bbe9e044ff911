"""The vocabulary of what is remembered."""

from __future__ import annotations

import pytest

from plait.core.facts import OBSERVATIONS, Observation, is_observation


def test_an_observation_has_a_known_type() -> None:
    """A type that no reader would accept is refused before it can reach a log."""
    with pytest.raises(ValueError, match="'turn_start'"):
        Observation("turn_start")
    with pytest.raises(ValueError, match="x_"):
        Observation("metrics")


def test_applications_have_types_of_their_own() -> None:
    """The documented types and everything that begins with `x_` are observations."""
    assert {} == Observation("x_metrics").data
    assert all(is_observation(name) for name in (*OBSERVATIONS, "x_"))
    assert not is_observation("message")
