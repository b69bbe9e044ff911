"""Doubles for programs that use plait: a scripted model server, a scripted model, a clock that does not wait.

Floor: testing. Owns: the public names; never: imported by the product.

    from plait.testing import Call, Say, ScriptServer, faults

Names are imported from their homes when they are asked for, so that the server starts without the rest of plait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plait.testing.clock import VirtualClock
    from plait.testing.conformance import check_model
    from plait.testing.errors import InvalidScript, ScriptError, UnexpectedRequest, UnusedStep
    from plait.testing.listener import unused_url
    from plait.testing.metering import Billed, Meter
    from plait.testing.model_steps import Asked, Fail, Silence
    from plait.testing.player import When
    from plait.testing.prefix_cache import Count, PrefixCache
    from plait.testing.request import Request
    from plait.testing.script_file import ScriptFile, read_script
    from plait.testing.script_server import ScriptServer
    from plait.testing.scripted_model import ScriptedModel
    from plait.testing.steps import Call, Raw, Say

_HOMES: Final[Mapping[str, str]] = {
    "Asked": "model_steps",
    "Billed": "metering",
    "Call": "steps",
    "Count": "prefix_cache",
    "Fail": "model_steps",
    "InvalidScript": "errors",
    "Meter": "metering",
    "PrefixCache": "prefix_cache",
    "Raw": "steps",
    "Request": "request",
    "Say": "steps",
    "ScriptError": "errors",
    "ScriptFile": "script_file",
    "ScriptServer": "script_server",
    "ScriptedModel": "scripted_model",
    "Silence": "model_steps",
    "UnexpectedRequest": "errors",
    "UnusedStep": "errors",
    "VirtualClock": "clock",
    "When": "player",
    "check_model": "conformance",
    "read_script": "script_file",
    "unused_url": "listener",
}

__all__ = [
    "Asked",
    "Billed",
    "Call",
    "Count",
    "Fail",
    "InvalidScript",
    "Meter",
    "PrefixCache",
    "Raw",
    "Request",
    "Say",
    "ScriptError",
    "ScriptFile",
    "ScriptServer",
    "ScriptedModel",
    "Silence",
    "UnexpectedRequest",
    "UnusedStep",
    "VirtualClock",
    "When",
    "check_model",
    "read_script",
    "unused_url",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name from its home."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
