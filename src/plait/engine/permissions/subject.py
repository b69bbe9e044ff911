"""What rules look at in a call: its names, its command line, the files it names and where those lead.

Floor: 4. Owns: reading a call for the rules; never: running or opening anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from plait.core.messages import ToolCall
from plait.core.strict_json import JsonInvalid
from plait.engine.called import called_of
from plait.engine.permissions.ruling import Subject
from plait.hands.patches.patch import paths_in
from plait.hooks.names import Called
from plait.kernel.tools import Tool

_PATHS = ("path", "file_path")
_DEFAULT_HERE = frozenset({"Glob", "Grep", "LS"})


def subject_of(call: ToolCall, tool: Tool, root: str) -> Subject:
    """Return what rules look at; paths are taken from `root`. Never raises: what cannot be read says nothing."""
    try:
        given = call.arguments
        # Under the names of the function behind it too: a spec may call a tool and its arguments what it likes.
        arguments = {**given, **tool.keywords(given)}
    except JsonInvalid:
        arguments = {"input": call.raw}
    called = called_of(call, tool, arguments)
    command, url = arguments.get("command"), arguments.get("url")
    paths = tuple(os.path.normpath(os.path.join(root, path)) for path in _paths(called, arguments) if "\0" not in path)
    return Subject(
        called.names,
        command if isinstance(command, str) and called.names[0] == "Bash" else None,
        paths,
        tuple(map(os.path.realpath, paths)),
        url if isinstance(url, str) else None,
    )


def _paths(called: Called, arguments: Mapping[str, object]) -> Iterator[str]:
    named = [value for name in _PATHS if isinstance(value := arguments.get(name), str)]
    if not named and called.names[0] in _DEFAULT_HERE:
        named = ["."]
    yield from (os.path.expanduser(path) for path in named)
    if called.names[0] == "MultiEdit":
        patch = next((text for name in ("patch", "input") if isinstance(text := arguments.get(name), str)), "")
        yield from paths_in(patch)
