"""Where the kernel face's `bash` runs: in plait's own shell, behind a fence, or in a sandbox that a caller passes.

Floor: 4. Owns: what `sandbox=` and `Config.sandbox` mean; never: a sandbox (`hands`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from plait.core.errors import ConfigError, Refusal
from plait.engine.kernel_config import Config
from plait.hands.text import join_ends
from plait.kernel.tools import Tool
from plait.tools.answer import FAILURE, Reply
from plait.tools.toolbox import ToolboxOptions

if TYPE_CHECKING:
    from plait.hands.containers import Sandbox

_BASH = "bash"


def fenced_options(options: ToolboxOptions, sandbox: object, config: Config) -> ToolboxOptions:
    """Return a toolbox's options; behind a fence where `sandbox` is a policy. Raises `ConfigError`."""
    from plait.hands.fence.policy import SandboxPolicy

    if not isinstance(sandbox, SandboxPolicy):
        return options
    from plait.hands.fence.fence import open_fence

    try:
        fence = open_fence(sandbox)
    except Refusal as refusal:
        raise ConfigError(refusal.message, hint=refusal.hint) from refusal
    if fence.policy.root != replace(sandbox, workspace=config.working_dir).root:
        raise ConfigError(f"the sandbox is around {fence.policy.root!r}, the agent works elsewhere", hint="name one")
    return replace(options, fence=fence)


def sandbox_of(config: Config, sandbox: object) -> Sandbox | None:
    """Return what runs `bash` in the place of plait's own shell, None for that. Raises `ConfigError`."""
    from plait.hands.fence.policy import SandboxPolicy

    if sandbox is None and config.sandbox == "docker":
        from plait.hands.containers import IMAGE, make_sandbox

        image, network = config.sandbox_image or IMAGE, config.sandbox_network or "none"
        return make_sandbox("docker", config.working_dir, image=image, network=network)
    if sandbox is None or isinstance(sandbox, SandboxPolicy):
        return None
    if not callable(getattr(sandbox, "run", None)):
        raise ConfigError(
            f"build_runtime(sandbox={sandbox!r}) has no run(…)", hint="pass a SandboxPolicy, or use make_sandbox"
        )
    found: Any = sandbox
    return found  # type: ignore[no-any-return]


def closed_with(owner: object, sandbox: Sandbox | None, passed: object) -> None:
    """Close a sandbox that was made here when its owner goes; one that was passed is its caller's to close."""
    if sandbox is not None and passed is None:
        weakref.finalize(owner, sandbox.close)


def in_sandbox(tools: list[Tool], sandbox: Sandbox | None, options: ToolboxOptions) -> list[Tool]:
    """Return the kernel's tools with `bash` run by a sandbox, where there is one."""
    if sandbox is None:
        return tools
    run = _bash(sandbox, options)
    return [replace(tool, fn=run, recovery=None) if tool.name == _BASH else tool for tool in tools]


def _bash(sandbox: Sandbox, options: ToolboxOptions) -> Callable[..., Reply]:
    half = options.result_tokens_max * 2

    def bash(command: str, timeout_s: float | None = None) -> Reply:
        limit_s = min(timeout_s or options.timeout_s, options.timeout_max_s)
        code, output, errors = sandbox.run(command, timeout=limit_s)
        sections = [output.rstrip("\n"), f"[stderr]\n{errors.rstrip()}" if errors.strip() else ""]
        text = "\n".join(filter(None, sections)) or ("(no output)" if code == 0 else "")
        if half and len(text) > 2 * half:
            text = join_ends(text[:half], text[-half:], len(text) - 2 * half).text
        data: dict[str, object] = {"exit_code": code, "sandbox": type(sandbox).__name__}
        if code == 0:
            return text, data
        told = "\n".join(filter(None, (text, f"[exit code {code}]")))
        return f"{FAILURE}{told}" if not text else told, {**data, "ok": False, "error": f"exit code {code}"}

    return bash
