"""The name of each tool of some servers, as a model calls it.

Floor: 3. Owns: who gets which name, and which tools get none; never: how a name is spelt (`shown`).

A name depends on who has which tools, never on who was there first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from plait.tools.mcp.server import Server
from plait.tools.mcp.shown import Listing, Shown, bare

Check = Callable[[dict[str, Any]], object]
"""Raises `ValueError` for a schema that is none."""


def names_of(
    present: Sequence[tuple[Server, Listing]],
    reserved: Collection[str],
    check: Check | None,
    *,
    has_bare_names: bool,
) -> Mapping[tuple[str, str], str]:
    """Return the name of each tool, by its server's and its own; empty for one that cannot have one.

    Args:
        reserved: names that somebody else has.
        check: finds a schema that is none; its tool gets no name.
        has_bare_names: tools keep their own names where nobody else has them.
    """
    shown = [(server.config.name, tool) for server, listing in present for tool in listing.tools]
    plain = Counter(bare(tool.own_name) for _, tool in shown)

    def wanted(tool: Shown) -> str:
        name = bare(tool.own_name)
        return name if has_bare_names and plain[name] == 1 and name not in reserved else tool.name

    counts = Counter(wanted(tool) for _, tool in shown)
    names: dict[tuple[str, str], str] = {}
    for server, tool in shown:
        name = wanted(tool)
        is_free = counts[name] == 1 and name not in reserved
        names[server, tool.own_name] = name if is_free and _has_schema(tool, check) else ""
    return names


def _has_schema(tool: Shown, check: Check | None) -> bool:
    if check is None:
        return True
    try:
        check(dict(tool.parameters))
    except ValueError:
        return False
    return True
