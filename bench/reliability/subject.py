"""The process that is broken: runs inside a system's own interpreter, `python -m bench.reliability.subject NAME`.

Loads the system once and forks for each order on stdin (one JSON object a line), so that a life begins within
milliseconds. Answers `pid N` when the life begins and `exit N` when it is over. What came of it is in the file that the
order names.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from bench.reliability.model import DONE, GREETING, HI, TASK

TOOL_S: Final = 0.005
"""On each side of an effect."""


@dataclass(frozen=True)
class ToolFunction:
    """A tool as each peer is to offer it."""

    name: str
    parameters: dict[str, Any]
    run: Callable[..., str]
    mutates: bool


class Peer(Protocol):
    """A system under test."""

    DIST: str
    """Its name in the package index."""
    NOTE: str
    """How it is used here."""
    JOURNAL: str
    """A pattern for the file that holds a conversation, below the folder."""

    def begin(self, folder: Path, url: str, tools: list[ToolFunction]) -> Any:
        """Open the conversation of a folder, or begin it, as the system's guide says."""
        ...

    def texts(self, opened: Any) -> str:
        """Return all that is said in it so far."""
        ...

    def turn(self, opened: Any, text: str | None) -> str:
        """Ask, or go on with what was left unfinished; return the reply."""
        ...

    def end(self, opened: Any) -> None:
        """Close it."""
        ...


def tools_of(folder: Path, noise: str) -> list[ToolFunction]:
    """Return a tool that reads, one with an effect that is counted outside, and one that prints."""
    at = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}

    def look(at: str) -> str:
        time.sleep(TOOL_S)
        return f"saw {at} {'.' * 600} whole"

    def write(at: str) -> str:
        time.sleep(TOOL_S)
        with (folder / "effects").open("ab", buffering=0) as file:
            file.write(f"{at}\n".encode())
        time.sleep(TOOL_S)
        return f"wrote {at} {'.' * 600} whole"

    none = {"type": "object", "properties": {}}
    return [
        ToolFunction("look", at, look, mutates=False),
        ToolFunction("write", at, write, mutates=True),
        ToolFunction("noise", none, lambda: noise, mutates=False),
    ]


def live(peer: Peer, order: dict[str, Any]) -> dict[str, Any]:
    """Live one life of a conversation; what it raises is told, as a host would see it."""
    folder = Path(order["folder"])
    if order.get("limit_bytes"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["limit_bytes"], resource.RLIM_INFINITY))
    replies: list[str] = []
    try:
        opened = peer.begin(folder, order["url"], tools_of(folder, order.get("noise", "")))
        if "text" in order:
            replies.append(peer.turn(opened, order["text"]))
        else:
            for question, answer in ((GREETING, HI), (TASK, DONE)):
                said = peer.texts(opened)
                if answer not in said:
                    replies.append(peer.turn(opened, None if question in said else question))
        peer.end(opened)
    except BaseException as error:
        told = "".join(char if char.isprintable() else "?" for char in str(error).replace(str(folder), "FOLDER"))
        return {"error": f"{type(error).__name__}: {told[:160]}", "replies": replies}
    return {"replies": replies}


def main(name: str) -> None:
    """Serve orders until there are none."""
    peer: Any = importlib.import_module(f"bench.reliability.peers.{name}")
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            out = live(peer, order)
            out["modules"] = [*sys.modules] if order.get("is_warming") else []
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            Path(order["out"]).write_text(json.dumps(out))
            os._exit(1 if "error" in out else 0)
        print(f"pid {pid}", flush=True)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if order.get("is_warming"):
            _load(json.loads(Path(order["out"]).read_text())["modules"])
        print(f"exit {code}", flush=True)


def _load(names: list[str]) -> None:
    """Load what a life loads late, so that each life is not longer by that."""
    for name in names:
        with suppress(ImportError):
            importlib.import_module(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
