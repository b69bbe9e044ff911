"""The public names of `plait.testing`."""

from __future__ import annotations

import subprocess
import sys

import pytest

import plait.testing


def test_every_name_can_be_imported() -> None:
    """`__all__` is sorted, and each name in it has a home."""
    assert sorted(plait.testing.__all__) == plait.testing.__all__
    assert all(getattr(plait.testing, name) is not None for name in plait.testing.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that does not exist says so like any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = plait.testing.Nothing  # type: ignore[attr-defined]


def test_the_server_needs_no_kernel() -> None:
    """Importing the server loads neither the loop nor anything that is not the standard library or this package."""
    code = (
        "import sys; from plait.testing import ScriptServer; rooms = ('plait.testing', 'plait.core'); "
        "print([m for m in sys.modules if m.startswith('plait.') and not m.startswith(rooms)],"
        " 'yaml' in sys.modules, 'aiohttp' in sys.modules)"
    )

    assert "[] False False" == subprocess.check_output([sys.executable, "-c", code], text=True).strip()
