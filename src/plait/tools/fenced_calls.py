"""Tools of a program's own inside the fence: by a command that they name, or in an interpreter of their own.

Floor: 3. Owns: how `Tool(sandbox=…)` is run; never: tools that come with plait, which know the fence themselves.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from plait.core.cancel import Cancel
from plait.core.errors import Refusal
from plait.core.strict_json import dump
from plait.hands.capture import CaptureLimits
from plait.hands.command import Command, Finished, RunOptions
from plait.hands.process import run
from plait.kernel.tools import Tool, ToolContext
from plait.tools.answer import Answer, Reply, answering, failure
from plait.tools.fenced_executor import cannot_run
from plait.tools.fencing import watched
from plait.tools.handed import handed
from plait.tools.shell import Shell

_MARK: Final = "\x1eplait-result "
_LIMITS: Final = CaptureLimits(head_bytes=1 << 16, tail_bytes=1 << 20)
_WORKER: Final = """
import asyncio, importlib, inspect, json, sys
order = json.loads(sys.argv[1])
sys.path[:] = order["path"]
found = importlib.import_module(order["module"])
for name in order["name"].split("."):
    found = getattr(found, name)
value = found(**order["keywords"])
if inspect.isawaitable(value):
    async def finish():
        return await value
    value = asyncio.run(finish())
print("\\n" + order["mark"] + json.dumps(value))
"""


def fenced(tool: Tool, shell: Shell) -> Tool:
    """Return a tool whose calls run inside the fence of `shell`, as its `sandbox` says; without one it refuses.

    `sandbox` is True for a function that can be imported inside: it runs there in an interpreter of its own, and what
    it returns comes back as JSON. Or it is a function that takes the arguments under their advertised names and
    returns the command to run, whose output is the result.
    """
    if tool.sandbox is None or tool.sandbox is False:

        @answering
        def refuse(**_keywords: object) -> Reply:
            raise cannot_run(tool.name)

        return _with(tool, refuse)

    def call(context: ToolContext | None = None, /, **keywords: object) -> Reply:
        argv, cancel = _argv(tool, keywords), Cancel() if context is None else context.cancel
        fence, options = shell.fence, _options(tool, shell)
        command = partial(run, Command(argv), options, cancel)
        done = command() if fence is None else watched(fence, command)
        text, data = _told(done, shell, is_worker=tool.sandbox is True)
        return (f"{text}\n{done.note}" if done.note else text), data

    return _with(tool, answering(call))


def _with(tool: Tool, fn: Callable[..., Reply]) -> Tool:
    name = tool.python_function_name

    def named(**keywords: object) -> Reply:
        return fn(**keywords)

    named.__name__ = name
    return handed(tool, named)


def _argv(tool: Tool, keywords: Mapping[str, object]) -> tuple[str, ...]:
    if callable(tool.sandbox):
        argv = tool.sandbox(dict(keywords))
        if isinstance(argv, str) or not isinstance(argv, Sequence) or not all(isinstance(part, str) for part in argv):
            raise Refusal("INVALID_INPUT", f"the sandbox of {tool.name!r} named no command", hint="mend the tool")
        return tuple(argv)
    module, name = getattr(tool.fn, "__module__", None), getattr(tool.fn, "__qualname__", "<")
    if not module or module == "__main__" or "<" in name or tool.context_parameter:
        raise cannot_run(tool.name)
    names = tool.resolved_param_map
    order = {
        "path": [os.path.abspath(path) for path in sys.path],
        "module": module,
        "name": name,
        "keywords": {names.get(key, key): value for key, value in keywords.items()},
        "mark": _MARK,
    }
    return (os.path.realpath(sys.executable), "-c", _WORKER, dump(order))


def _options(tool: Tool, shell: Shell) -> RunOptions:
    return RunOptions(
        cwd=shell.root,
        environment=shell.environment(),
        timeout_s=tool.timeout_s or shell.options.timeout_s,
        grace_s=shell.options.grace_s,
        separates_errors=True,
        leftovers="kill",
        limits=_LIMITS,
        mark=shell.own_mark,
        fence=shell.fence,
    )


def _told(done: Finished, shell: Shell, *, is_worker: bool) -> Answer:
    level = shell.level or "none"
    output = done.output.bounded().text
    errors = "" if done.errors is None else done.errors.bounded().text.rstrip()
    data: dict[str, object] = {"sandbox": level, "exit_code": done.exit_code}
    if done.end != "exited" or done.exit_code != 0:
        why = done.end if done.end != "exited" else f"exit code {done.exit_code}"
        text, more = failure(f"It failed in the sandbox ({why}).")
        return "\n".join(filter(None, (text, output.rstrip(), errors))), {**more, **data}
    if not is_worker:
        return output.rstrip("\n"), data
    _, found, told = output.rpartition(_MARK)
    try:
        value = json.loads(told) if found else None
    except ValueError:
        value, found = None, ""
    if not found:
        text, more = failure("It returned nothing that can leave the sandbox: only JSON can.")
        return text, {**more, **data}
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict):
        return value[0], {**value[1], **data}
    return (value if isinstance(value, str) else "" if value is None else dump(value)), data
