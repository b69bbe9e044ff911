"""The agent spec of a run without a file: every built-in tool, with the model that was chosen.

Floor: 7. Owns: which tools a run has when nobody says; never: the choice of a model.
"""

from __future__ import annotations

from plait.engine.agent_spec import AgentSpec
from plait.tools import definitions
from plait.tools.spec import schema_entry


def built_in_spec(model: str, endpoint: str) -> AgentSpec:
    """Return it; never a file that happens to lie in the folder: a repository does not choose where a key goes."""
    shown = [schema_entry(known.tool(_nothing)) for known in definitions.BUILT_IN]
    return AgentSpec({"model": model, "endpoint": endpoint, "tool_specs": shown})


def _nothing() -> None:
    """Stand for the function of a tool of which only the description is wanted."""
