"""The tool library of a process: functions by name, where output goes, who answers questions.

Floor: 3. Owns: one locked object with all of it; never: an instance of itself, which one module above holds.
"""

from __future__ import annotations

import copy
import difflib
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TextIO

from plait.core.errors import ConfigError
from plait.kernel.tools import Tool
from plait.tools import background_specs, definitions, dispatch as dispatching
from plait.tools.answer import Answer, failure
from plait.tools.asking import AskUser
from plait.tools.background import with_default_timeout
from plait.tools.behind import BY_FUNCTION, CURRENT, DONE_BY
from plait.tools.board import Board
from plait.tools.definitions import Definition
from plait.tools.functions import LibraryFunctions
from plait.tools.renames import RENAMED, canonical
from plait.tools.rtk import Rtk
from plait.tools.spec import DispatchEntry, DispatchTable, Schemas, name_of, schema_entry, tool_from_entry
from plait.tools.spill import Spill
from plait.tools.todo import TodoList
from plait.tools.toolbox import Toolbox, ToolboxOptions

_DEFAULT_TOOLS: Final = (definitions.READ_FILE, definitions.WRITE_FILE, definitions.STR_REPLACE, definitions.EXEC_SHELL)
Function = Callable[..., Any]


class Library:
    """What `TOOL_LIBRARY` and the process-wide setters around it stand for. Safe in any thread.

    Its own functions work in the process's current directory by the rules of the session face. A session has a
    toolbox of its own, and takes from here only what a program has added.
    """

    def __init__(self, options: ToolboxOptions | None = None) -> None:
        self._options = options or ToolboxOptions(policy="read_outside")
        self._lock = threading.Lock()
        self._spill = Spill(self._options.spill_dir)
        self.board: Final = Board(self._spill)
        """The background jobs that programs start through the library's functions; they end with this process."""
        self._end_jobs = weakref.finalize(self, self.board.close)
        self._toolbox: Toolbox | None = None
        self._stream: TextIO | None = None
        self._ask_user: AskUser | None = self._options.ask_user
        self._rtk: Rtk | None = None
        self._todos = TodoList()
        self.own: Final = LibraryFunctions(self.toolbox)
        """The library's own functions, whatever a program has put in their place."""
        self.functions: dict[str, Function] = dict(self.own.by_name())
        """Every function by its name; programs may add to it and replace what is there."""

    def toolbox(self) -> Toolbox:
        """Return the tools over the directory that is current now."""
        here = os.path.realpath(os.getcwd())
        with self._lock:
            if self._toolbox is None or self._toolbox.root != here:
                self._toolbox = Toolbox(here, self.options(), spill=self._spill, board=self.board)
                self._toolbox.todos = self._todos
            return self._toolbox

    def options(self) -> ToolboxOptions:
        """Return how a toolbox behaves that is told nothing else: as the setters say now."""
        return replace(
            self._options,
            output=self._options.output if self._stream is None else _writing(self._stream),
            ask_user=self._ask_user,
            rtk=self._rtk,
            ask_stream=self._stream or self._options.ask_stream,
        )

    def register_tools_in_library(self, tools: Iterable[Tool]) -> None:
        """Put the functions of tools into the library under their own names; a name that is taken is replaced."""
        self.functions.update({tool.python_function_name: tool.fn for tool in tools})

    def set_tool_output_stream(self, stream: TextIO | None) -> None:
        """Have commands write what they print to `stream` as it comes; None, as in the beginning, is nowhere."""
        with self._lock:
            self._stream = stream
            self._toolbox = None

    def get_tool_output_stream(self) -> TextIO | None:
        """Return where commands write what they print."""
        return self._stream

    def set_ask_user_handler(self, handler: AskUser | None) -> None:
        """Have `handler` answer the model's questions; with None, as in the beginning, standard input does."""
        with self._lock:
            self._ask_user = handler
            self._toolbox = None

    def set_wait_interrupt_hook(self, hook: Callable[[], bool] | None) -> None:
        """Have `hook` asked while a call waits for a background job: True ends the wait, and the job runs on.

        It is asked ten times a second, in the thread that waits; sessions with a hook of their own do not ask it.
        """
        self.board.interrupt = hook

    def get_wait_interrupt_hook(self) -> Callable[[], bool] | None:
        """Return what is asked while a call waits for a background job."""
        return self.board.interrupt

    def enable_rtk_rewrite(self) -> bool:
        """Have `rtk`, where it is on the PATH, rewrite the command lines of the shell from now on; say whether it is.

        Background jobs run as they were given. Calling it again changes nothing.
        """
        with self._lock:
            if self._rtk is None:
                self._rtk = Rtk.find()
                self._toolbox = None if self._rtk is not None else self._toolbox
            return self._rtk is not None

    def dispatch(self, name: str, args: Mapping[str, object], tool_dispatch: dispatching.Table) -> Answer:
        """Call a tool of a dispatch table and return text and data.

        A failure is an answer that begins with `ERROR: ` and has `ok: False` in its data. Raises
        `FatalToolDispatchError` for a name that the table does not hold.
        """
        return dispatching.dispatch(name, args, tool_dispatch, self.functions)

    def tools_of(
        self, schemas: Sequence[Mapping[str, object]], table: dispatching.Table, toolbox: Toolbox
    ) -> list[Tool]:
        """Return the tools of an agent spec, ready to be called.

        The library's own functions are done by `toolbox`, with its workspace and rules; others are taken from the
        library now. A tool whose function is missing answers so when it is called.
        """
        own = LibraryFunctions(lambda: toolbox)
        return [self._tool_of(entry, table, own, toolbox) for entry in schemas]

    def _tool_of(
        self, entry: Mapping[str, object], table: dispatching.Table, own: LibraryFunctions, toolbox: Toolbox
    ) -> Tool:
        name = name_of(entry)
        route = table.get(name) or _default_route(name)
        target, names = route.get("python_function"), route.get("param_map")
        found = self.functions.get(target) if isinstance(target, str) else target
        definition, recovery = BY_FUNCTION.get(target) if isinstance(target, str) else None, None
        if isinstance(target, str) and found is not None and found == getattr(self.own, target, None):
            found, recovery = getattr(own, target), toolbox.recovery(DONE_BY.get(target, ""))
        elif definition is not None:
            definition = replace(definition, is_parallel_safe=False)  # a program's own function in its place
        fn = found if callable(found) else _missing(name, target)
        tool = tool_from_entry(entry, fn, names if isinstance(names, Mapping) else {}, definition, recovery)
        if target == background_specs.NOHUP.function_name and recovery is not None:
            return with_default_timeout(tool, background_specs.default_timeout(entry))
        return tool


def default_tool_spec(*names: str) -> tuple[Schemas, DispatchTable]:
    """Return `(schemas, dispatch)` of the built-in tools of these names, as a fresh copy.

    Without names these are the four tools that an agent has unless it is told otherwise. Raises `ConfigError` for a
    name that no built-in tool has.
    """
    chosen = [_known(name) for name in names] if names else _DEFAULT_TOOLS
    schemas = [schema_entry(known.tool(_unbound)) for known in chosen]
    return copy.deepcopy(schemas), {known.name: _route(known) for known in chosen}


def definition_of(name: str) -> Definition | None:
    """Return the built-in tool that a name means: its own, or that of the function which does it."""
    by_name = {definition.name: definition for definition in CURRENT.values()}
    return by_name.get(name) or BY_FUNCTION.get(name)


def _known(name: str) -> Definition:
    known = {definition.name: definition for definition in CURRENT.values()}
    if name not in known:
        near = [canonical(name)] if name in RENAMED else difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the built-in tools are {', '.join(known)}"
        raise ConfigError(f"no built-in tool is called {name!r}", hint=hint)
    return known[name]


def _route(known: Definition) -> DispatchEntry:
    properties = known.parameters["properties"]
    assert isinstance(properties, Mapping)
    names = {name: known.param_map.get(name, name) for name in properties}
    return {"python_function": known.function_name, "param_map": names}


def _default_route(name: str) -> Mapping[str, object]:
    known = next((known for known in CURRENT.values() if known.name == name), None)
    return {} if known is None else dict(_route(known))


def _unbound() -> None:
    """Stand for the function of a tool of which only the description is wanted."""


def _missing(name: str, target: object) -> Function:
    def missing(**_arguments: object) -> Answer:
        return failure(f"The function {target!r} behind {name!r} is not in the tool library.")

    return missing


def _writing(stream: TextIO) -> Callable[[str], None]:
    def write(text: str) -> None:
        with suppress(OSError, ValueError):  # a closed or full stream may not cost the command its result
            stream.write(text)
            stream.flush()

    return write
