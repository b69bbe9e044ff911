"""Tools taken away from a session and given back, or added from the library, between its turns.

Floor: 5. Owns: which tools a session has beside what its spec says; never: what a tool does.

What was chosen is recorded, so that a resumed session has the same tools.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace

from plait.core.errors import ConfigError
from plait.core.facts import TOOLS_CHOSEN, Observation
from plait.kernel.tools import Tool
from plait.session import prompt
from plait.session.chosen import ASKING, PutAway
from plait.session.defaults import LIBRARY
from plait.session.live import Live
from plait.session.readying import begin, held
from plait.session.session import Session
from plait.tools.aliases import alias_tools
from plait.tools.docstrings import parse_tool_spec_from_docstring, tool_spec_to_schema
from plait.tools.library import default_tool_spec, definition_of
from plait.tools.renames import canonical
from plait.tools.spec import build_tool_spec, schema_entry, tool_from_entry


def remove_tool(session: Session, name: str) -> str:
    """Take a tool away from a session, from its next request on; a call to it is told that there is none.

    Args:
        name: the tool's name, one of its other names, or the library function that does it (`t_glob`).

    Returns:
        the name of the tool.

    Raises:
        ConfigError: the session has no such tool. SessionBusy: a turn of it is running.

    Durability: with the next turn's first record; a resumed session lacks it too.
    """
    with held(session) as live:
        tools = list(live.conversation.terms.tools)
        own = _named(name, tools)
        if own is None:
            raise _unknown(name, (tool.name for tool in tools if tool.alias_of is None), "the session has")
        _take_away(session, live, own.name)
        _record(session, live)
        return own.name


def activate_tool(session: Session, name: str) -> str:
    """Give a tool back that was taken away, as it was; or give a session one of the library's.

    Args:
        name: as for `remove_tool`; of a function that a program has registered, its name.

    Returns:
        the name of the tool; one that is there already stays as it is.

    Raises:
        ConfigError: neither the session nor the library knows it, or it asks the user and nobody can be asked.
        SessionBusy: a turn of the session is running.

    Durability: as for `remove_tool`.
    """
    with held(session) as live:
        there = _named(name, live.conversation.terms.tools)
        if there is not None:
            _check_permitted(live, there)
            return there.name
        own = _give(session, live, name)
        _record(session, live)
        return own


def choose_again(session: Session, told: Mapping[str, object]) -> None:
    """Take away and give what was chosen before the session was closed; what is not known any more is passed over."""
    live = session._live
    for name in _names(told, "removed"):
        if live.conversation.terms.tools.get(name) is not None:
            _take_away(session, live, name)
    for name in _names(told, "added"):
        if live.conversation.terms.tools.get(name) is None:
            try:
                _give(session, live, name)
            except ConfigError:
                continue


def _names(told: Mapping[str, object], key: str) -> list[str]:
    names = told.get(key)
    return [str(name) for name in names] if isinstance(names, list) else []


def _take_away(session: Session, live: Live, name: str) -> None:
    tools = list(live.conversation.terms.tools)
    at = next(index for index, tool in enumerate(tools) if tool.name == name)
    others = (tool for tool in tools if tool.alias_of == name and tool.name != name)
    gone = (tools[at], *others)
    live.chosen.added.discard(name)
    live.chosen.put_away[name] = PutAway(at, gone)
    _change(session, live, [tool for tool in tools if tool not in gone])


def _give(session: Session, live: Live, name: str) -> str:
    tools = list(live.conversation.terms.tools)
    own = _named(name, (tool for kept in live.chosen.put_away.values() for tool in kept.tools))
    if own is not None:
        kept = live.chosen.put_away.pop(own.name)
        at = min(kept.at, len(tools))
        _change(session, live, [*tools[:at], kept.tools[0], *tools[at:], *kept.tools[1:]])
        return own.name
    own = _of_library(name, live)
    if own.python_function_name in ASKING and session["non_interactive"]:
        raise ConfigError(f"{own.name!r} asks the user, and nobody can be asked here", hint="leave it out")
    _check_permitted(live, own)
    names = {tool.name for tool in tools}
    aliases = [alias for alias in alias_tools(live.toolbox, [own]) if alias.name not in names]
    live.chosen.added.add(own.name)
    _change(session, live, [*tools, *live.settings.seat.seated([own, *aliases], live.toolbox)])
    return own.name


def _check_permitted(live: Live, tool: Tool) -> None:
    if not live.conversation.terms.tools.permits(tool):
        raise ConfigError(f"the session's profile does not permit {tool.name!r}", hint="begin a session without it")


def _named(name: str, tools: Iterable[Tool]) -> Tool | None:
    """Return the tool that a name means: its own name, another one, or its function's."""
    known = list(tools)
    by_name = {tool.name: tool for tool in known}
    found = by_name.get(name) or by_name.get(canonical(name))
    if found is None:
        found = next((tool for tool in known if tool.python_function_name == name), None)
    return found if found is None or found.alias_of is None else by_name.get(found.alias_of, found)


def _of_library(name: str, live: Live) -> Tool:
    definition = definition_of(canonical(name))
    if definition is not None:
        schemas, table = default_tool_spec(definition.name)
        return LIBRARY.tools_of(schemas, table, live.toolbox)[0]
    fn = LIBRARY.functions.get(name)
    if fn is None:
        raise _unknown(name, LIBRARY.functions, "the tool library has")
    spec = parse_tool_spec_from_docstring(inspect.getdoc(fn))
    if spec is None:
        return Tool(name, (inspect.getdoc(fn) or "").partition("\n\n")[0], fn)
    names = spec["param_map"]
    return tool_from_entry(tool_spec_to_schema(spec), fn, names if isinstance(names, dict) else {})


def _unknown(name: str, known: Iterable[str], where: str) -> ConfigError:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"{where} {', '.join(names)}"
    return ConfigError(f"no tool is called {name!r}", hint=hint)


def _change(session: Session, live: Live, tools: list[Tool]) -> None:
    """Go on with other tools, in the session's keys too, and in its prompt where the model reads of them there."""
    terms = live.conversation.terms
    try:
        table = terms.tools.of(tools)
    except ValueError as error:
        raise ConfigError(f"the tool cannot be used: {error}", hint="mend it") from error
    shown = [tool for tool in table if tool.alias_of is None and table.permits(tool)]
    session["tools"] = [schema_entry(tool) for tool in shown]
    known = session["tool_dispatch"]
    routes = build_tool_spec(shown)[1]
    session["tool_dispatch"] = {name: known.get(name) or dict(route) for name, route in routes.items()}
    if not session["structured"] and session["messages"]:
        first = session["messages"][0]
        told = prompt.told_anew(first.get("content"), terms.tools.schemas, table.schemas)
        first["content"] = first.get("content") if told is None else told
    setup = replace(terms.setup, tools=table.schemas)
    live.conversation.change(live.conversation.model, replace(terms, tools=table, setup=setup))


def _record(session: Session, live: Live) -> None:
    begin(session, live)
    live.conversation.note(Observation(TOOLS_CHOSEN, live.chosen.to_dict()))
    live.conversation.commit()
