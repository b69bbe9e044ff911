"""The permission rules of a session: what the caller, the spec, the user and the project say, put together.

Floor: 5. Owns: which rules count; never: their language or their order (`engine.permissions`).

Rules that forbid or ask count wherever they stand. Rules that allow count from a project only when it is trusted: a
repository may be stricter than its user, and never more lenient. Most sessions have none, and load nothing for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plait.config.places import project_root
from plait.config.settings import CONFIG_FILE, settings_in, user_settings
from plait.engine.gates import Gates
from plait.engine.trusting import vouched

if TYPE_CHECKING:
    from plait.core.messages import ToolCall
    from plait.engine.approval import Approver
    from plait.engine.permissions.ruling import Permissions, Ruling, Subject
    from plait.kernel.tools import Tool
    from plait.tools.toolbox import Toolbox


class SourcedRules(dict[str, Sequence[str]]):
    """A table of rules that says where it stands."""

    def __init__(self, source: str, **lists: Sequence[str]) -> None:
        super().__init__(lists)
        self.source = source


def permissions_of(schema: Mapping[str, Any], given: Mapping[str, Any], cwd: str) -> Permissions | None:
    """Return the rules of a session that works in `cwd`, None where nobody has any.

    Raises:
        ConfigError: a file, a list or a rule cannot be used; the message names the place.
    """
    tables = [*_tables(schema, given, cwd)]
    if not tables:
        return None
    from plait.engine.permissions.rule import rules_of
    from plait.engine.permissions.ruling import Permissions

    read = [(rule, may_allow) for table, source, may_allow in tables for rule in rules_of(table, source)]
    rules = tuple(rule for rule, may_allow in read if may_allow or rule.action != "allow")
    return Permissions(rules, os.path.realpath(cwd)) if rules else None


def gated(
    permissions: Permissions | None, hooks: Gates | None, approver: Approver | None, box: Toolbox
) -> Gates | None:
    """Return the gate of a session's turns: its rules about what its hooks leave, or either alone."""
    if permissions is None and hooks is None:
        return None
    from plait.engine.permissions.gate import RulesGate
    from plait.engine.permissions.ruling import Permissions
    from plait.engine.permissions.subject import subject_of

    rules = Permissions((), box.root) if permissions is None else permissions
    # A search names a folder, and would show what may not be read in it.
    box.finding = replace(box.finding, hides=rules.hides if rules.rules else None)
    # And a path may lead elsewhere by the time it is opened: what is open is judged once more.
    box.files.places.deny(rules.denies if rules.rules else None)

    def subject(call: ToolCall, tool: Tool) -> Subject:
        return subject_of(call, tool, rules.root)

    def hear(call: ToolCall, tool: Tool, ruling: Ruling) -> None:
        told = getattr(approver, "ruled", None)
        if told is not None and ruling.action == "deny":
            told(call, tool, ruling.why)

    def grant(call: ToolCall, tool: Tool, subject: Subject) -> None:
        look = box.look(call, tool)
        if look.place == "outside" and {led.real for led in look.targets} <= {*subject.real_paths}:
            # It is the place that the rule, or the hook, allows, and stays the only one.
            box.allow_outside(call.id, look)
        else:
            look.close()

    return RulesGate(rules, subject, hooks, hear=hear, grant=grant)


def _tables(schema: Mapping[str, Any], given: Mapping[str, Any], cwd: str) -> Iterator[tuple[object, str, bool]]:
    """Yield each table of rules with its place, and whether its yes counts."""
    yield from (
        (table, getattr(table, "source", source), True)
        for table, source in ((given.get("permissions"), "permissions"), (schema.get("permissions"), "the agent spec"))
        if table is not None
    )
    own, projects = user_settings(os.environ), project_root(cwd) / CONFIG_FILE
    for path in dict.fromkeys((projects, own)):
        table = _in_file(path)
        if table is not None:
            yield table, str(path), path == own or vouched(cwd, given.get("trust")).is_trusted


def _in_file(path: Path) -> object:
    return settings_in(path).get("permissions") if os.path.lexists(path) else None
