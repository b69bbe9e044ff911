"""agentknit: a durable session in a folder of its own (its strongest mode: one writer, everything synced)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import agentknit

from bench.reliability.subject import ToolFunction

DIST: Final = "agentknit"
NOTE: Final = (
    "init_session(session_dir=…, resumed_from=…), run_turn; task=None sends the recovered conversation as it is"
)
JOURNAL: Final = "session/journal.jsonl"
QUIET: Final = {
    f"{sense}_awareness_enabled": False for sense in ("token", "time", "user", "system", "git", "change")
} | {"hooks_enabled": False, "strict_cache_proof": False, "compaction_enabled": False, "non_interactive": True}


def begin(folder: Path, url: str, tools: list[ToolFunction]) -> Any:
    """Open the session of the folder."""
    os.environ["API_KEY"] = "k"
    os.environ["HOME"] = str(folder)
    offered = [agentknit.Tool(t.name, t.name, _reporting(t), parameters=t.parameters["properties"]) for t in tools]
    specs, dispatch = agentknit.build_tool_spec(offered)
    for offer in offered:
        dispatch[offer.name]["python_function"] = offer.fn
    schema = {
        "model": "m",
        "endpoint": url,
        "inferred_tool_schema": specs,
        "tool_dispatch": dispatch,
        "max_rpm": 10**8,
        "provider_api_support": {"streaming": {"supported": True}},
    }
    kept = folder / "session"
    resumed = {"resumed_from": "s1"} if kept.exists() else {}
    session = agentknit.init_session(schema, session_dir=kept, on_event=lambda *_, **__: None, **resumed, **QUIET)
    return agentknit.create_client(schema), session


def _reporting(tool: ToolFunction) -> Any:
    def run(**arguments: Any) -> Any:
        return tool.run(**arguments), {"result": "ok"}

    return run


def texts(opened: Any) -> str:
    """Return what the messages say."""
    return "\n".join(str(message.get("content")) for message in opened[1]["messages"])


def turn(opened: Any, text: str | None) -> str:
    """Run a turn."""
    client, session = opened
    return str(agentknit.run_turn(client, "m", session, text).final_reply)


def end(opened: Any) -> None:
    """A session of its kind has no end of its own; the process ends."""
