"""The strict tools for code: every call passes the host, every path is relative, every refusal has a code.

Floor: 3. Owns: putting them together; never: what one of them does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from plait.hands.locks import FileLocks
from plait.hands.workspace import Workspace, WorkspaceOptions
from plait.kernel.tools import Tool
from plait.tools.answer import answering
from plait.tools.coding import definitions
from plait.tools.coding.commands import CodingCommands
from plait.tools.coding.files import CodingFiles, planned_edit, planned_write
from plait.tools.coding.finding import CodingFinding
from plait.tools.coding.limits import CodingLimits, Command
from plait.tools.coding.permission import Authorize, AuthorizePath, CodingRequest, Permission, in_thread
from plait.tools.definitions import Definition
from plait.tools.spill import Spill

__all__ = ["CodingLimits", "CodingRequest", "Command", "coding_tools"]


def coding_tools(
    root: str | os.PathLike[str],
    *,
    authorize: Authorize,
    authorize_path: AuthorizePath | None = None,
    commands: Mapping[str, Command] | None = None,
    env: Mapping[str, str] | None = None,
    limits: CodingLimits | None = None,
    artifacts: Spill | None = None,
) -> list[Tool]:
    """Return the strict tools over one workspace.

    Args:
        root: the workspace; a boundary for paths, no sandbox for commands.
        authorize: asked about each call before it has an effect; anything but True is a no. May be a coroutine.
        authorize_path: asked about paths, whatever is done there; what it refuses is left out of listings and searches.
        commands: programs by alias; without any there is no `run_command`.
        env: the whole environment of commands.
        artifacts: where long outputs are kept for `read_output`; without it they are cut.
    Returns: read_file, write_file, edit_file, list_directory, glob, search_files, and with commands run_command, with
        artifacts read_output. They are coroutine functions when a callback is one.
    Raises: `Refusal` when the workspace cannot be opened.
    """
    bounds = limits or CodingLimits()
    workspace = Workspace(root, WorkspaceOptions(style="strict"))
    permission = Permission(authorize, authorize_path)
    files = CodingFiles(workspace, permission, bounds, FileLocks())
    finding = CodingFinding(workspace, permission, bounds)
    runner = CodingCommands(workspace, permission, bounds, dict(commands or {}), dict(env or {}), artifacts)
    functions: list[tuple[Definition, Callable[..., Any]]] = [
        (definitions.READ_FILE, files.read_file),
        (definitions.WRITE_FILE, files.write_file),
        (definitions.EDIT_FILE, files.edit_file),
        (definitions.LIST_DIRECTORY, finding.list_directory),
        (definitions.GLOB, finding.glob),
        (definitions.SEARCH_FILES, finding.search_files),
    ]
    if commands:
        functions.append((definitions.run_command(list(commands), bounds.shell_timeout_s), runner.run_command))
    if artifacts is not None:
        functions.append((definitions.READ_OUTPUT, runner.read_output))
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]] = in_thread if permission.is_async else _as_it_is
    recoveries = {
        definitions.WRITE_FILE.name: files.recovery(planned_write),
        definitions.EDIT_FILE.name: files.recovery(planned_edit),
    }
    return [known.tool(wrap(answering(fn)), recovery=recoveries.get(known.name)) for known, fn in functions]


def _as_it_is(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn
