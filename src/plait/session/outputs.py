"""The output types of a session: its own, and those of single turns.

Floor: 5. Owns: which way a session's model is asked for a value; never: how an answer is read (`engine.structured`).
"""

from __future__ import annotations

from dataclasses import replace

from plait.engine.conversation import Terms
from plait.engine.structured import Wanted, output_type_of
from plait.kernel.ports import Model
from plait.session.live import Live
from plait.session.session import Session
from plait.tools.spec import schema_entry


def with_output(session: Session, model: Model, terms: Terms, output_type: object) -> Terms:
    """Return the terms under which a turn's answer is of a type: the turn's own, else the session's, else text.

    The session's own type may bring a tool, in the session's first turn and in all that follow; a turn's own type never
    does, so that requests go on beginning with all that was sent before.

    Raises:
        ConfigError: it is no output type.
    """
    live: Live = session._live
    own = live.settings.output
    output = own if output_type is None else output_type_of(output_type)
    if output is None:
        return terms
    if output is not own:
        wanted = Wanted.of(output, model, terms.tools, may_add_tool=False)
    elif live.wanted is not None and live.wanted.tool is not None:
        wanted = live.wanted
    else:
        wanted = live.wanted = Wanted.of(output, model, terms.tools)
    table = terms.tools
    if wanted.tool is not None and table.get(wanted.tool.name) is not wanted.tool:
        table = wanted.table(tuple(table), table.allowed, table.deferral) or table
        session["tools"].append(schema_entry(wanted.tool))
        entry = {"python_function": wanted.tool.python_function_name, "param_map": wanted.tool.resolved_param_map}
        session["tool_dispatch"][wanted.tool.name] = entry
    others = [schema for schema in table.schemas if wanted.tool is None or schema.name != wanted.tool.name]
    options = wanted.options(terms.setup.options, has_other_tools=bool(others))
    setup = replace(terms.setup, tools=table.schemas, options=options)
    return replace(terms, tools=table, setup=setup, policy=replace(terms.policy, wanted=wanted))
