"""How a scripted double says that a test and its script disagree.

Floor: testing. Owns: the three script errors; never: errors of the product.
"""

from __future__ import annotations

from plait.core.errors import ConfigError, PlaitError


class ScriptError(PlaitError, AssertionError):
    """The program under test did not do what its script says; a failed assertion, not a failure of plait."""

    code = "script"


class UnexpectedRequest(ScriptError):
    """A request came that no step of the script answers; `number` counts from 1."""

    code = "script_unexpected_request"

    def __init__(self, message: str, *, number: int, hint: str = "") -> None:
        super().__init__(message, hint=hint, context={"number": number})
        self.number = number


class UnusedStep(ScriptError):
    """The program ended before every step of the script was asked for."""

    code = "script_unused_step"


class InvalidScript(ConfigError):
    """A script file cannot be read; the message names the file and the step."""

    code = "script_invalid"
