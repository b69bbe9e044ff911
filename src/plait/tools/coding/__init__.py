"""The strict tools for code: every call passes the host, every path is relative, every refusal has a code.

Floor: 3. Owns: putting them together; never: what one of them does.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from plait.core.errors import Refusal
from plait.hands import beneath
from plait.hands.editing.locks import FileLocks
from plait.hands.workspace import Workspace, WorkspaceOptions
from plait.kernel.tools import Recovery, Tool
from plait.tools.answer import Reply, refused
from plait.tools.coding import definitions
from plait.tools.coding.artifacts import ArtifactStore, DiskArtifacts, MemoryArtifacts, Slice
from plait.tools.coding.commands import CodingCommands, over
from plait.tools.coding.coroutines import in_thread
from plait.tools.coding.files import CodingFiles, planned_edit, planned_write
from plait.tools.coding.finding import CodingFinding
from plait.tools.coding.limits import CodingLimits, Command
from plait.tools.coding.outputs import CodingOutputs
from plait.tools.coding.permission import Authorize, AuthorizePath, CodingRequest, Permission
from plait.tools.coding.sweeping import sweep_workspace
from plait.tools.definitions import Definition

__all__ = [
    "ArtifactStore",
    "CodingLimits",
    "CodingRequest",
    "Command",
    "DiskArtifacts",
    "MemoryArtifacts",
    "Slice",
    "coding_tools",
    "sweep_workspace",
]

OnFault = Callable[[str, BaseException], None]
"""Gets the name of a tool and what broke inside it: neither is for the model."""


def coding_tools(
    root: str | os.PathLike[str],
    *,
    authorize: Authorize,
    authorize_path: AuthorizePath | None = None,
    commands: Mapping[str, Command] | None = None,
    env: Mapping[str, str] | None = None,
    limits: CodingLimits | None = None,
    artifacts: ArtifactStore | None = None,
    spool: str | os.PathLike[str] | None = None,
    locks: FileLocks | None = None,
    on_fault: OnFault | None = None,
) -> list[Tool]:
    """Return the strict tools over one workspace.

    Durability: a write or an edit is whole or not at all. With `spool`, a durable host finds out after a crash what
    became of a command; of file changes it does so in any case.
    Cancel: a command dies with all that it has started; a search ends with what it has found.

    Args:
        root: the workspace; a boundary for paths, no sandbox for commands.
        authorize: asked about each call before it has an effect; anything but True is a no. May be a coroutine.
        authorize_path: asked about paths, whatever is done there; what it refuses is left out of listings and searches.
        commands: programs by alias; without any there is no `run_command`.
        env: the whole environment of commands, beside a mark by which plait finds what they have started.
        artifacts: where long outputs are kept for `read_output`; without it they are cut.
        spool: a folder of the host's, outside the workspace, in which commands leave their ends.
        locks: shared by several sets of tools over the same files, so that edits of one file wait for each other.
        on_fault: told of what breaks inside a tool, of which the model learns nothing but that.
    Returns: read_file, write_file, edit_file, list_directory, glob, search_files, and with commands run_command, with
        artifacts read_output. They are coroutine functions when a callback is one.
    Raises: `Refusal` when the workspace cannot be opened. Where the platform lacks what keeps paths inside, every tool
        refuses with `UNSUPPORTED_PLATFORM`.
    """
    bounds = limits or CodingLimits()
    permission = Permission(authorize, authorize_path)
    workspace = Workspace(root, WorkspaceOptions(style="strict")) if beneath.is_supported() else None
    functions: list[tuple[Definition, Callable[..., Any]]] = []
    recoveries: dict[str, Recovery | None] = {}
    if workspace is None:
        functions += [(known, _unsupported) for known in definitions.ON_FILES]
    else:
        files = CodingFiles(workspace, permission, bounds, locks or FileLocks())
        finding = CodingFinding(workspace, permission, bounds)
        done_by: list[Callable[..., Any]] = [files.read_file, files.write_file, files.edit_file]
        done_by += [finding.list_directory, finding.glob, finding.search_files]
        functions += zip(definitions.ON_FILES, done_by, strict=True)
        recoveries = {"write_file": files.recovery(planned_write), "edit_file": files.recovery(planned_edit)}
    if commands:
        kept = None if spool is None else over(spool)
        runner = CodingCommands(
            os.path.realpath(root), permission, bounds, dict(commands), dict(env or {}), artifacts, kept
        )
        functions.append((definitions.run_command(list(commands), bounds.shell_timeout_s), runner.run_command))
        recoveries["run_command"] = runner.recovery()
    if artifacts is not None:
        functions.append((definitions.READ_OUTPUT, CodingOutputs(permission, bounds, artifacts).read_output))
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]] = in_thread if permission.is_async else _as_it_is
    return [
        known.tool(wrap(_answering(known.name, fn, on_fault)), recovery=recoveries.get(known.name))
        for known, fn in functions
    ]


def _answering(name: str, fn: Callable[..., Reply], on_fault: OnFault | None) -> Callable[..., Reply]:
    """Turn what a tool refuses into a result that the model can act on, and what breaks into one that tells nothing."""

    @functools.wraps(fn)
    def answer(**arguments: Any) -> Reply:
        try:
            return fn(**arguments)
        except Refusal as refusal:
            return refused(refusal)
        except Exception as error:  # boundary: what broke may name the host's own places
            if on_fault is not None:
                on_fault(name, error)
            broken = Refusal("INTERNAL_SERVER_ERROR", f"{name} failed for a reason of its host", hint="tell the user")
            return refused(broken)

    return answer


def _unsupported(**_arguments: object) -> Reply:
    raise Refusal(
        "UNSUPPORTED_PLATFORM",
        "file tools need calls relative to an opened directory, which this platform lacks",
        hint="run plait on Linux or macOS",
    )


def _as_it_is(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn
