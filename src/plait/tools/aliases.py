"""The built-in tools under the kernel face's names, and under every name that is only understood.

Floor: 3. Owns: names and parameters; never: what a tool does, which is the toolbox's under any name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from plait.kernel.tools import Tool
from plait.tools import definitions
from plait.tools.definitions import EXPECTED, PATH, RESULTS_MAX, Definition, count, flag, parameters_of, text
from plait.tools.extra_specs import APPLY_PATCH, CLARIFY, FILE_INFO, ROLLBACK, TODO, TODO_WRITE, held_to_grammar
from plait.tools.functions import LibraryFunctions
from plait.tools.renames import RENAMED, Rename
from plait.tools.toolbox import Toolbox, ToolboxOptions

_FOLDER: Final = text("Directory to look in; the working directory unless given.", default=".")
EDIT_FILE: Final = Definition(
    "edit_file",
    "t_edit_file",
    "Replace text in a file, literally. The text must occur exactly once, unless replace_all is true.",
    parameters_of(
        "path old new",
        path=text(PATH),
        old=text("The exact text to replace, with its indentation."),
        new=text("What to put there; empty to delete."),
        replace_all=flag("Replace every occurrence."),
        expected_sha256=text(EXPECTED),
    ),
    mutates=True,
    is_parallel_safe=False,
)
FIND_FILES: Final = Definition(
    "find_files",
    "t_glob",
    "Find files and directories by name. `*` matches within one name, `**` across directories: `src/**/*.py`. Version "
    "control, caches and what .gitignore names are skipped.",
    parameters_of("pattern", pattern=text("The pattern of the path."), path=_FOLDER),
)
SEARCH_TEXT: Final = Definition(
    "search_text",
    "t_search",
    "Search the content of files with a regular expression. Returns `path:line:text` a match; skips binary files.",
    parameters_of(
        "pattern",
        pattern=text("The regular expression."),
        glob=text("Only files whose path matches this pattern.", default="**/*"),
        path=text("Directory or file to search; the working directory unless given.", default="."),
        ignore_case=flag("Ignore upper and lower case."),
        max_results=count(f"How many matches to return; {RESULTS_MAX} unless given."),
    ),
)
LIST_NAMES: Final = Definition(
    "list_dir",
    "t_list_dir",
    "List a directory: sorted names, those of directories with a slash.",
    parameters_of("", path=_FOLDER),
)


def kernel_options(
    max_result_tokens: int = 4_096, bash_timeout_s: float = 60.0, options: ToolboxOptions | None = None
) -> ToolboxOptions:
    """Return a toolbox's options with the kernel face's defaults: nothing outside the workspace, shorter results."""
    return replace(
        options or ToolboxOptions(),
        policy="inside_only",
        result_tokens_max=max_result_tokens,
        timeout_s=bash_timeout_s,
    )


def default_tools(toolbox: Toolbox) -> list[Tool]:
    """Return the kernel face's tools in registration order: read_file, write_file, list_dir, … , bash."""
    options = toolbox.options
    shell = definitions.with_times(definitions.EXEC_SHELL, options.timeout_s, options.timeout_max_s)
    bash = replace(
        shell,
        name="bash",
        description=shell.description.replace("stdout and stderr together", "stdout, then stderr in a section"),
    )
    words = definitions.WRITE_FILE.description.replace("str_replace", EDIT_FILE.name)
    write_file = replace(definitions.WRITE_FILE, description=words)
    return [
        definitions.READ_FILE.tool(toolbox.read_file),
        write_file.tool(toolbox.write_file, recovery=toolbox.recovery("write_file")),
        LIST_NAMES.tool(toolbox.list_names),
        EDIT_FILE.tool(toolbox.edit_file, recovery=toolbox.recovery("edit_file")),
        FIND_FILES.tool(toolbox.find_files),
        SEARCH_TEXT.tool(toolbox.search_files),
        FILE_INFO.tool(toolbox.file_info),
        bash.tool(toolbox.bash, recovery=toolbox.recovery("bash")),
    ]


def patch_tool(toolbox: Toolbox, *, is_grammar: bool = False) -> Tool:
    """Return `apply_patch`; as one that takes free text by a grammar where the endpoint holds models to it."""
    tool = APPLY_PATCH.tool(toolbox.patching.apply_patch, recovery=toolbox.recovery(APPLY_PATCH.name))
    return held_to_grammar(tool) if is_grammar else tool


def rollback_tool(toolbox: Toolbox) -> Tool:
    """Return `rollback`, over what the toolbox has kept."""
    return ROLLBACK.tool(toolbox.checkpoints.tool, recovery=toolbox.recovery(ROLLBACK.name))


def todo_tool(toolbox: Toolbox) -> Tool:
    """Return `todo`, over the toolbox's own list."""
    return TODO.tool(toolbox.todos.todo)


def clarify_tool(toolbox: Toolbox) -> Tool:
    """Return `clarify`, which asks whoever answers the toolbox's questions."""
    return CLARIFY.tool(LibraryFunctions(lambda: toolbox).t_clarify)


def alias_tools(toolbox: Toolbox, among: Iterable[Tool]) -> list[Tool]:
    """Return the other names of the tools `among` a session's: callable by the same rules, not shown to the model."""
    known = {tool.name: tool for tool in among}
    return [
        _alias(name, rename, known[rename.name], toolbox)
        for name, rename in RENAMED.items()
        if rename.name in known and name not in known
    ]


def _alias(name: str, rename: Rename, own: Tool, toolbox: Toolbox) -> Tool:
    if name == EDIT_FILE.name and _is_built_in(own, toolbox):
        edit_file = EDIT_FILE.tool(toolbox.edit_file, recovery=toolbox.recovery("edit_file"))
        return replace(edit_file, alias_of=own.name)
    if name == TODO_WRITE.name and own.python_function_name in ("t_todo", "todo"):
        return replace(TODO_WRITE.tool(own.fn), alias_of=own.name)
    return replace(
        own, name=name, parameters=_renamed(own, rename), param_map=_param_map(own, rename), alias_of=own.name
    )


def _is_built_in(own: Tool, toolbox: Toolbox) -> bool:
    """Say whether a `str_replace` is ours, from the toolbox itself or by way of the tool library."""
    is_library_function = isinstance(getattr(own.fn, "__self__", None), LibraryFunctions)
    return own.fn == toolbox.str_replace or (is_library_function and own.python_function_name == "t_update")


def _renamed(own: Tool, rename: Rename) -> dict[str, object]:
    """Return a tool's schema with its parameters called as under the other name."""
    schema = own.resolved_parameters
    theirs = {ours: name for name, ours in rename.parameters.items()}
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(properties, Mapping):
        schema["properties"] = {theirs.get(name, name): value for name, value in properties.items()}
    if isinstance(required, (list, tuple)):
        schema["required"] = [theirs.get(name, name) for name in required]
    return schema


def _param_map(own: Tool, rename: Rename) -> dict[str, str]:
    names = dict(own.param_map or {})
    return names | {name: names.get(ours, ours) for name, ours in rename.parameters.items()}
