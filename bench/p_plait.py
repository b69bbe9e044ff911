"""plait, through its public face, as a benchmark's peer.

Stands alone: copied beside other peers it offers what such a harness asks for (IMPORT, DIST, CLI, NOTE, setup, run,
stream); the bench of this repository also uses the sync face and a tool that needs a thread.
"""

from __future__ import annotations

from collections.abc import Callable

import plait

IMPORT = "import plait"
DIST = "plait"
CLI = [["plait", "--version"], ["plait", "--help"]]
NOTE = "plait.Agent in memory, streaming, one model for all conversations; run = arun with an async tool"
SYSTEM = "You are an agent."
STEPS = 100_000


async def noop(x: str) -> str:
    """Does nothing."""
    return "ok " + x


def noop_in_thread(x: str) -> str:
    """Does nothing."""
    return "ok " + x


def setup(base_url: str) -> plait.ChatModel:
    """Return what a conversation needs: an endpoint whose connections all conversations share."""
    return plait.chat_model("any", base_url)


def agent(endpoint: plait.ChatModel, model: str, tool: Callable[[str], object] = noop) -> plait.Agent:
    """Make an agent for one conversation."""
    return plait.Agent(
        endpoint.with_model(model),
        [plait.Tool("noop", "Does nothing.", tool)],
        system=SYSTEM,
        limits=plait.Limits(max_steps=STEPS),
    )


async def run(endpoint: plait.ChatModel, model: str) -> str:
    """Hold one conversation to its end: async face, async tool."""
    return (await agent(endpoint, model).arun("go")).text


async def run_with_threads(endpoint: plait.ChatModel, model: str) -> str:
    """The same with a tool that is an ordinary function and runs in a thread."""
    return (await agent(endpoint, model, noop_in_thread).arun("go")).text


def run_sync(endpoint: plait.ChatModel, model: str) -> str:
    """The same through the sync face."""
    return agent(endpoint, model, noop_in_thread).run("go").text


async def stream(endpoint: plait.ChatModel, model: str) -> int:
    """Read one streamed answer through a callback; return how many deltas came."""
    seen: list[str] = []
    await agent(endpoint, model).arun("go", on_text=seen.append)
    return len(seen)
