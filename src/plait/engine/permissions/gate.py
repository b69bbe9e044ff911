"""Rules as a gate of a turn: they judge the call as it will run, after hooks have had their word.

Floor: 4. Owns: how a ruling and a hook's word come together; never: the rules, or asking anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from plait.core.cancel import Cancel
from plait.core.messages import ToolCall
from plait.engine.gates import Gate, Gates, GatesBefore
from plait.engine.permissions.ruling import Permissions, Ruling, Subject
from plait.kernel.effects import Allow, Deny
from plait.kernel.tools import Tool

DENIED: Final = "Denied by {why}. Do not try to reach the same by other means; say in your answer what is needed."


class Hear(Protocol):
    """Is told of every ruling that decided something."""

    def __call__(self, call: ToolCall, tool: Tool, ruling: Ruling, /) -> None:
        """Take it, without raising; in a thread of the turn's."""


class Grant(Protocol):
    """Lets a call that a rule allows go where the rule looked."""

    def __call__(self, call: ToolCall, tool: Tool, subject: Subject, /) -> None:
        """Let it, as far as the file tools would not by themselves."""


class RulesGate(GatesBefore):
    """The gate of a session that has rules, before the hooks' own where it has those; see `Gates`.

    Deny beats ask beats allow between rules and hooks too. A rule's yes stands in place of the approver's.
    """

    def __init__(
        self,
        rules: Permissions,
        subject: Callable[[ToolCall, Tool], Subject],
        inner: Gates | None = None,
        *,
        hear: Hear | None = None,
        grant: Grant | None = None,
    ) -> None:
        super().__init__(inner)
        self._rules = rules
        self._subject = subject
        self._hear = hear
        self._grant = grant

    def before(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Gate:
        """Let the hooks speak, then the rules about what they left."""
        gate = super().before(call, tool, cancel)
        if gate.word == "deny":
            return gate
        subject, ruling = self._ruled(gate.call, tool)
        if ruling.action == "deny":
            return Gate(gate.call, "deny", DENIED.format(why=ruling.why))
        if ruling.action == "ask":
            return Gate(gate.call, "ask", "; ".join(filter(None, (gate.reason, ruling.why))))
        if ruling.action == "allow" and gate.word is None:
            gate = Gate(gate.call, "allow", ruling.why)
        if gate.word == "allow":
            self._let(gate.call, tool, subject)
        return gate

    def permission(self, call: ToolCall, tool: Tool, cancel: Cancel) -> Allow | Deny | None:
        """Leave the answer to hooks, or to whoever is asked; a hook's yes to another call is judged like any."""
        said = super().permission(call, tool, cancel)
        if not isinstance(said, Allow):
            return said
        if said.call == call:
            self._let(call, tool, self._subject(call, tool))
            return said
        # What was judged is not what would run: nobody was asked about this one.
        subject, ruling = self._ruled(said.call, tool)
        if ruling.action in ("ask", "deny"):
            return Deny(DENIED.format(why=ruling.why))
        self._let(said.call, tool, subject)
        return said

    def _let(self, call: ToolCall, tool: Tool, subject: Subject) -> None:
        if self._grant is not None:
            self._grant(call, tool, subject)

    def _ruled(self, call: ToolCall, tool: Tool) -> tuple[Subject, Ruling]:
        subject = self._subject(call, tool)
        ruling = self._rules.judge(subject)
        if self._hear is not None and ruling.action is not None:
            self._hear(call, tool, ruling)
        return subject, ruling
