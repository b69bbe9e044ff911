"""Programs that import by older module paths find the same objects there."""

from __future__ import annotations

import plait
from plait import openai_compat, tool_library
from plait.models.openai_client import OpenAI
from plait.session import defaults


def test_the_tool_library_is_one() -> None:
    """The library's functions are the ones that specs name, by whichever path they are imported."""
    assert plait.TOOL_LIBRARY is tool_library.TOOL_LIBRARY is defaults.TOOL_LIBRARY
    functions = {name: getattr(tool_library, name) for name in tool_library.__all__ if name.startswith("t_")}
    assert {name: fn for name, fn in plait.TOOL_LIBRARY.items() if name.startswith("t_")} == functions


def test_the_client_is_one() -> None:
    """The OpenAI-shaped client is the class that `create_client` makes."""
    assert openai_compat.OpenAI is OpenAI
    assert {"OpenAI", "RateLimiter"} <= set(openai_compat.__all__)
