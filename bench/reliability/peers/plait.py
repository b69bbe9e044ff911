"""plait: a durable session of the library, gone on with by its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import plait
from bench.reliability.subject import ToolFunction

DIST: Final = "plait"
NOTE: Final = "init_session(session_id=…), run_turn; run_turn(task=None) goes on with an unfinished turn"
JOURNAL: Final = "home/sessions/*/journal.jsonl"


def begin(folder: Path, url: str, tools: list[ToolFunction]) -> Any:
    """Open the session of that name."""
    os.environ["PLAIT_HOME"] = str(folder / "home")
    os.environ["API_KEY"] = "k"
    offered = [plait.Tool(t.name, t.name, t.run, parameters=t.parameters, mutates=t.mutates) for t in tools]
    schema = {"model": "m", "endpoint": url, "tool_specs": plait.default_tool_spec()[0]}
    client = plait.create_client(schema)
    return client, plait.init_session(schema, session_id="s1", tools=offered, strict_cache_proof=False)


def texts(opened: Any) -> str:
    """Return what the messages say."""
    return "\n".join(str(message.get("content")) for message in opened[1]["messages"])


def turn(opened: Any, text: str | None) -> str:
    """Run a turn."""
    client, session = opened
    result = plait.run_turn(client, "m", session, text)
    if result.error is not None:
        raise result.error
    return str(result.final_reply)


def end(opened: Any) -> None:
    """Close the session."""
    opened[1].close()
