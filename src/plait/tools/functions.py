"""The tool library's functions, which programs call and agent specs name: `t_read`, `t_write`, and so on.

Floor: 3. Owns: their signatures and docstrings; never: what they do, which is the toolbox's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from plait.kernel.tools import ToolContext
from plait.tools import definitions
from plait.tools.answer import Answer, as_answer
from plait.tools.asking import clarify
from plait.tools.background_specs import TIMEOUT_MAX_S
from plait.tools.definitions import Definition
from plait.tools.docstrings import tool_spec_block
from plait.tools.toolbox import Toolbox

_Fn = TypeVar("_Fn", bound=Callable[..., Any])


def _specified(definition: Definition) -> Callable[[_Fn], _Fn]:
    """Give a function the docstring that says what the tool is, so that it is written in one place."""

    def give(fn: _Fn) -> _Fn:
        block = tool_spec_block(definition.name, definition.description, definition.parameters, definition.param_map)
        fn.__doc__ = f"{definition.description}\n\n{block}\n"
        return fn

    return give


class LibraryFunctions:
    """The functions, done by whatever toolbox is current; each returns text and data, and raises nothing of its own."""

    def __init__(self, current: Callable[[], Toolbox]) -> None:
        self._current = current

    def by_name(self) -> dict[str, Callable[..., Answer]]:
        """Return every function under its name."""
        return {name: getattr(self, name) for name in vars(LibraryFunctions) if name.startswith("t_")}

    @_specified(definitions.READ_FILE)
    def t_read(self, path: str, offset: int | None = None, limit: int | None = None) -> Answer:
        return as_answer(self._current().read_file(path, offset, limit))

    @_specified(definitions.WRITE_FILE)
    def t_write(
        self, path: str, content: str, expected_sha256: str | None = None, *, call: ToolContext | None = None
    ) -> Answer:
        return as_answer(self._current().write_file(path, content, expected_sha256, call=call))

    @_specified(definitions.STR_REPLACE)
    def t_update(
        self,
        path: str,
        old: str | None = None,
        new: str | None = None,
        replace_all: bool = False,
        expected_sha256: str | None = None,
        *,
        patch: str | None = None,
        call: ToolContext | None = None,
    ) -> Answer:
        box = self._current()
        return as_answer(box.str_replace(path, old, new, replace_all, expected_sha256, patch=patch, call=call))

    def t_edit_file(
        self,
        path: str,
        old: str,
        new: str,
        replace_all: bool = False,
        expected_sha256: str | None = None,
        *,
        call: ToolContext | None = None,
    ) -> Answer:
        """Replace text that occurs once in a file, or every occurrence; an ambiguous snippet is refused."""
        return as_answer(self._current().edit_file(path, old, new, replace_all, expected_sha256, call=call))

    @_specified(definitions.EXEC_SHELL)
    def t_run(self, command: str, timeout_s: float | None = None, call: ToolContext | None = None) -> Answer:
        return as_answer(self._current().exec_shell(command, timeout_s, call))

    @_specified(definitions.LIST_DIR)
    def t_list_dir(self, path: str = ".") -> Answer:
        return as_answer(self._current().list_dir(path))

    @_specified(definitions.GLOB)
    def t_glob(self, pattern: str, path: str = ".", *, call: ToolContext | None = None) -> Answer:
        return as_answer(self._current().glob(pattern, path, call))

    @_specified(definitions.SEARCH_FILES)
    def t_search(
        self,
        pattern: str,
        path: str = ".",
        glob: str | None = None,
        *,
        include: str | None = None,
        context: int = 0,
        ignore_case: bool = False,
        max_results: int | None = None,
        call: ToolContext | None = None,
    ) -> Answer:
        box = self._current()
        return as_answer(
            box.search_files(
                pattern,
                path,
                glob,
                include=include,
                context=context,
                ignore_case=ignore_case,
                max_results=max_results,
                call=call,
            )
        )

    def t_nohup(
        self,
        command: str,
        timeout: float | None = None,
        unit: str = "m",
        wait_before_s: float = 0.0,
        call: ToolContext | None = None,
    ) -> Answer:
        """Start a command line in the background; the answer is JSON with its `tool_exec_id`."""
        return as_answer(self._current().background.nohup(command, timeout, unit, wait_before_s, call))

    def t_execute_async(self, command: str, wait_before_s: float = 0.0, call: ToolContext | None = None) -> Answer:
        """The same without a time limit of its own: it runs until it ends, or whoever started it does."""
        box = self._current()
        line = box.shell.rewritten(command)
        return as_answer(box.background.nohup(line, float(TIMEOUT_MAX_S), "s", wait_before_s, call))

    def t_query_exec(self, tool_exec_id: str) -> Answer:
        """Say how a background job stands."""
        return as_answer(self._current().background.query(tool_exec_id))

    def t_nohup_wait(
        self, tool_exec_id: str, howmuch: float | None = None, unit: str = "s", call: ToolContext | None = None
    ) -> Answer:
        """Wait for the end of a background job; for an hour at most."""
        return as_answer(self._current().background.wait(tool_exec_id, howmuch, unit, call))

    def t_apply_patch(self, input: str, *, call: ToolContext | None = None) -> Answer:
        """Apply a patch, in V4A or as a unified diff, of any number of files: all of it or nothing."""
        return as_answer(self._current().patching.apply_patch(input, call=call))

    def t_rollback(self, *, call: ToolContext | None = None) -> Answer:
        """Take back what the file tools have changed since the last rollback."""
        return as_answer(self._current().checkpoints.tool(call))

    def t_todo(
        self, action: str = "", text: str = "", id: int | None = None, todos: Sequence[object] | None = None
    ) -> Answer:
        """Change the list of what is to be done and return all of it; `todos` is a whole list in its place."""
        return as_answer(self._current().todos.todo(action, text, id, todos))

    def t_clarify(self, question: str) -> Answer:
        """Ask the user about the task; where nobody answers, that is an answer too."""
        options = self._current().options
        return as_answer(clarify(question, options.ask_user, options.ask_stream))

    def t_file_info(self, path: str) -> Answer:
        """Say what stands at a path."""
        return as_answer(self._current().file_info(path))

    def t_ask_user(self, question: str) -> Answer:
        """Ask the user a question; the answer is `{"answer": …}`."""
        return as_answer(self._current().ask_user(question))

    def t_ask_user_question(self, question: str, options: Sequence[str] | str) -> Answer:
        """Ask the user a question with options to choose from; the answer is `{"answer": …}`."""
        return as_answer(self._current().ask_user_question(question, options))

    def t_update_file(self, path: str, old: str, new: str, replace_all: bool = False) -> Answer:
        """Superseded: see `t_update`."""
        return self.t_update(path, old, new, replace_all)

    def t_list_directory(self, path: str = ".") -> Answer:
        """Superseded: see `t_list_dir`."""
        return self.t_list_dir(path)

    def t_search_files(self, pattern: str) -> Answer:
        """Superseded: see `t_glob`."""
        return self.t_glob(pattern)

    def t_find_files(self, pattern: str) -> Answer:
        """Superseded: see `t_glob`."""
        return self.t_glob(pattern)
