"""An executor behind a fence: the shell inside it, file tools under the same policy, and nothing else.

Floor: 3. Owns: the contract's `execute` for the tool library's calls; never: fences (`hands.fence`), tools.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from plait.core.errors import Refusal
from plait.hands.capture import CaptureLimits
from plait.hands.command import Command, Finished, RunOptions
from plait.hands.fence.fence import BubblewrapFence, Fence, open_fence
from plait.hands.fence.policy import SandboxPolicy
from plait.hands.process import run
from plait.tools import dispatch as dispatching
from plait.tools.answer import Answer, as_answer, refused
from plait.tools.fencing import watched
from plait.tools.functions import LibraryFunctions
from plait.tools.toolbox import Toolbox, ToolboxOptions

INSIDE: Final = "/workspace"
"""Where commands see the workspace that `BubblewrapToolExecutor` runs; file tools understand it too."""
_FILE_TOOLS: Final = frozenset({"t_read", "t_write", "t_update", "t_edit_file", "t_list_dir", "t_file_info"})
_SHELL: Final = "t_run"
_PATHS: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
_LIMITS: Final = CaptureLimits(head_bytes=1 << 20, tail_bytes=1 << 20)


class BubblewrapToolExecutor:
    """Runs the shell behind a fence, and file tools under the same policy in this process.

    Nothing else runs: any other tool is refused as a result, and nothing ever falls back to this machine. A session
    that is given one has all its built-in tools behind the fence (`session.confining`).
    """

    def __init__(self, policy: SandboxPolicy, *, binary: str = "bwrap") -> None:
        """Try the fence on this machine.

        Raises:
            RuntimeError: bubblewrap is not there, or can make no fence here.
        """
        self.policy = policy
        try:
            fence = open_fence(replace(policy, landlock_alone=False), binary=binary, at=INSIDE)
        except Refusal as refusal:
            raise RuntimeError(f"{refusal.message}; {refusal.hint}") from refusal
        assert isinstance(fence, BubblewrapFence)
        self._fence = fence
        self.fence: Fence = replace(fence, at="")
        """The same with the workspace at its own path, as a session's tools want it."""
        options = ToolboxOptions(policy="inside_only", fence=self.fence)
        self._toolbox = Toolbox(policy.root, options)
        self._files = LibraryFunctions(lambda: self._toolbox)

    def close(self) -> None:
        """Let go of the workspace."""
        self._toolbox.close()

    def execute(
        self,
        tool_name: str,
        args: Mapping[str, object],
        dispatch_entry: Mapping[str, object],
        *,
        session: Mapping[str, object],
    ) -> tuple[str, dict[str, object]]:
        """Run one call of the tool library; whatever is refused is a result, see `ToolExecutor`.

        A shell call's text is `{"stdout", "stderr", "returncode"}` as JSON, `error` in place of the last after the
        policy's time, and a `note` where it made what programs outside obey. Durability: as without an executor; a
        command ends with this process.
        """
        target = dispatch_entry.get("python_function")
        given = dispatch_entry.get("param_map")
        names = given if isinstance(given, Mapping) else {}
        keywords = {str(names.get(name, name)): value for name, value in args.items()}
        try:
            if target == _SHELL:
                return self._shell(keywords)
            if target in _FILE_TOOLS:
                return self._file(str(target), keywords)
        except Refusal as refusal:
            return as_answer(refused(refusal))
        return as_answer(refused(cannot_run(tool_name)))

    def _file(self, target: str, keywords: dict[str, object]) -> Answer:
        if "path" in keywords:
            keywords["path"] = _relative(keywords["path"])
        text, data = dispatching.call(getattr(self._files, target), keywords)
        return text, {**data, "sandbox": self._fence.level}

    def _shell(self, keywords: dict[str, object]) -> Answer:
        command = keywords.get("command")
        if not isinstance(command, str):
            raise Refusal("INVALID_INPUT", "command is missing", hint="give a command line")
        limit_s = min(_seconds(keywords.get("timeout_s"), self.policy.timeout_seconds), self.policy.timeout_seconds)
        options = RunOptions(
            cwd=self.policy.root,
            environment=self._fence.environment(_PATHS),
            timeout_s=limit_s,
            separates_errors=True,
            leftovers="kill",
            limits=_LIMITS,
            fence=self._fence,
        )
        done = watched(self._fence, lambda: run(Command.shell(command), options))
        return _told(done, limit_s, self._fence.level)


def cannot_run(tool_name: str) -> Refusal:
    """Return what is said of a tool that has no way into a fence."""
    return Refusal(
        "FORBIDDEN",
        f"the tool {tool_name!r} cannot run in the sandbox",
        hint="use the shell or the file tools; whoever made the tool can give it a way in: Tool(sandbox=…)",
    )


def _told(done: Finished, limit_s: float, level: str) -> Answer:
    told: dict[str, object] = {
        "stdout": done.output.bounded().text,
        "stderr": "" if done.errors is None else done.errors.bounded().text,
    }
    code = done.exit_code if done.signal is None else 128 + done.signal
    data: dict[str, object] = {"sandbox": level, "exit_code": code, "duration_s": round(done.duration_s, 3)}
    if done.end == "exited":
        told["returncode"] = code
    else:
        told["error"] = f"timed out after {limit_s:g} s" if done.timed_out else f"the command was {done.end}"
        data |= {"ok": False, "error": told["error"], "exit_code": None}
    if done.note:
        told["note"] = done.note
    return json.dumps(told, ensure_ascii=False), data


def _relative(path: object) -> str:
    if not isinstance(path, str) or not path:
        raise Refusal("INVALID_INPUT", "a path is a text that is not empty", hint="name a file of the workspace")
    if path == INSIDE or path.startswith(f"{INSIDE}/"):
        return path[len(INSIDE) :].lstrip("/") or "."
    if path.startswith(("/", "~")):
        raise Refusal(
            "FORBIDDEN",
            f"{path!r} is outside the workspace",
            hint=f"use a relative path, or one beneath {INSIDE}",
            details={"path": path},
        )
    return path


def _seconds(value: object, default: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise Refusal("INVALID_INPUT", f"{value!r} is no time limit", hint="give a number of seconds")
    return float(value)
