"""The built-in tools as a model sees them: names, words, parameters.

Floor: 3. Owns: what is advertised; never: what a tool does.

Everything here is sent with every request, so each sentence earns its tokens and none of them changes in a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, Final

from plait.core.values import dataclass
from plait.kernel.tools import Recovery, Tool

LINES_MAX: Final = 2_000
"""How many lines `read_file` returns unless told."""
RESULTS_MAX: Final = 100
"""How many matches `search_files` returns unless told."""
PATHS_MAX: Final = 1_000
"""How many paths `list_dir` and `glob` return."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One built-in tool, without the function that does it."""

    name: str
    function_name: str
    """Its name in the tool library."""
    description: str
    parameters: Mapping[str, object]
    """JSON Schema of the arguments."""
    param_map: Mapping[str, str] = field(default_factory=dict)
    """Argument to the library function's keyword, where they differ."""
    mutates: bool = False
    runs_code: bool = False
    is_parallel_safe: bool = True
    """May run beside others of its kind; never true of what changes something."""
    category: str = "files"

    @property
    def is_idempotent(self) -> bool:
        """True for what only reads: doing it twice is as good as once."""
        return self.is_parallel_safe and not self.mutates and not self.runs_code

    def tool(self, fn: Callable[..., Any], *, timeout_s: float | None = None, recovery: Recovery | None = None) -> Tool:
        """Return the tool, done by `fn`, which takes the arguments under their advertised names."""
        return Tool(
            self.name,
            self.description,
            fn,
            parameters=self.parameters,
            mutates=self.mutates,
            runs_code=self.runs_code,
            parallel_safe=self.is_parallel_safe,
            idempotent=self.is_idempotent,
            recovery=recovery,
            timeout_s=timeout_s,
            category=self.category,
        )


def parameters_of(required: str, **properties: Mapping[str, object]) -> dict[str, object]:
    """Return the JSON Schema of an object with exactly these properties; `required` is a list of words."""
    return {
        "type": "object",
        "properties": {name: dict(schema) for name, schema in properties.items()},
        "required": required.split(),
        "additionalProperties": False,
    }


def text(description: str, **more: object) -> dict[str, object]:
    """Return the schema of a string."""
    return {"type": "string", "description": description, **more}


def count(description: str, minimum: int = 1) -> dict[str, object]:
    """Return the schema of a whole number."""
    return {"type": "integer", "description": description, "minimum": minimum}


def flag(description: str) -> dict[str, object]:
    """Return the schema of a yes or no."""
    return {"type": "boolean", "description": description}


PATH: Final = "Path of the file; relative paths start at the working directory."
FOLDER: Final = "Directory to look in; the working directory unless given."
EXPECTED: Final = "Optional: sha256 the file must still have, else nothing is changed."

READ_FILE: Final = Definition(
    "read_file",
    "t_read",
    f"Read a text file. Returns its text as it is, up to {LINES_MAX} lines; when there is more, the last line says "
    "where to go on. Binary files are refused.",
    parameters_of(
        "path",
        path=text(PATH),
        offset=count("First line to return, counted from 1."),
        limit=count("How many lines to return."),
    ),
)
WRITE_FILE: Final = Definition(
    "write_file",
    "t_write",
    "Create a file or replace its whole content; missing directories are created. To change a part of a file, use "
    "str_replace.",
    parameters_of(
        "path content", path=text(PATH), content=text("The whole new content."), expected_sha256=text(EXPECTED)
    ),
    mutates=True,
    is_parallel_safe=False,
)
STR_REPLACE: Final = Definition(
    "str_replace",
    "t_update",
    "Replace text in a file, literally. Only the first occurrence is replaced unless replace_all is true; the answer "
    "says how many there are. Include enough surrounding lines to hit the right place.",
    parameters_of(
        "path",
        path=text(PATH),
        old_str=text("The exact text to replace, with its indentation."),
        new_str=text("What to put there; empty to delete."),
        replace_all=flag("Replace every occurrence."),
        expected_sha256=text(EXPECTED),
        patch=text("In place of old_str and new_str: hunks of a patch, lines marked ' ', '-' or '+'."),
    ),
    param_map={"old_str": "old", "new_str": "new"},
    mutates=True,
    is_parallel_safe=False,
)
_SECONDS: Final = {"type": "number", "description": "Seconds it may run.", "exclusiveMinimum": 0}
EXEC_SHELL: Final = Definition(
    "exec_shell",
    "t_run",
    "Run a command in bash, in the working directory. Returns what it prints (stdout and stderr together) and its exit "
    "code when that is not 0. It has no terminal and no input. Each call is a new shell: cd and variables do not last. "
    "When its time is up, the command is stopped with everything it started.",
    parameters_of("command", command=text("The command line."), timeout_s=_SECONDS),
    mutates=True,
    runs_code=True,
    is_parallel_safe=False,
    category="shell",
)
LIST_DIR: Final = Definition(
    "list_dir",
    "t_list_dir",
    "List a directory, directories first: `d  name`, `f  name`, or `l  name` for a link.",
    parameters_of("", path=text(FOLDER)),
)
GLOB: Final = Definition(
    "glob",
    "t_glob",
    "Find files by name. `*` matches within one name, `**` across directories: `src/**/*.py`. Returns sorted paths; "
    "version control, caches and what .gitignore names are skipped.",
    parameters_of("pattern", pattern=text("The pattern of the path."), path=text(FOLDER)),
)
SEARCH_FILES: Final = Definition(
    "search_files",
    "t_search",
    "Search the content of files with a regular expression (ripgrep's syntax). Returns `path:line:text` a match; "
    f"binary and ignored files are skipped. At most {RESULTS_MAX} matches unless max_results says otherwise.",
    parameters_of(
        "pattern",
        pattern=text("The regular expression."),
        path=text("Directory or file to search; the working directory unless given."),
        glob=text("Only files whose path matches this pattern, such as `*.py` or `src/**`."),
        include=text("The same as glob."),
        context=count("Lines to show around each match.", 0),
        ignore_case=flag("Ignore upper and lower case."),
        max_results=count("How many matches to return."),
    ),
)
ASK_USER: Final = Definition(
    "ask_user",
    "t_ask_user",
    "Ask the user a question and wait for the answer.",
    parameters_of("question", question=text("The question.")),
    is_parallel_safe=False,
    category="user",
)
ASK_USER_QUESTION: Final = Definition(
    "ask_user_question",
    "t_ask_user_question",
    "Ask the user a question with options to choose from, and wait for the answer.",
    parameters_of(
        "question options",
        question=text("The question."),
        options={"type": "array", "items": {"type": "string"}, "description": "What the user can choose from."},
    ),
    is_parallel_safe=False,
    category="user",
)

BUILT_IN: Final = (READ_FILE, WRITE_FILE, STR_REPLACE, EXEC_SHELL, LIST_DIR, GLOB, SEARCH_FILES)
"""The seven tools, in the order in which they are advertised."""
ASKING: Final = (ASK_USER, ASK_USER_QUESTION)
CANONICAL_TOOLS: Final[Mapping[str, str]] = MappingProxyType({known.name: known.function_name for known in BUILT_IN})
"""Advertised name to library function of the built-in tools."""
SUPERSEDED_TOOLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "t_update_file": "t_update",
        "t_list_directory": "t_list_dir",
        "t_search_files": "t_glob",
        "t_find_files": "t_glob",
    }
)
"""Old library function to the one that took its place."""


def with_times(shell: Definition, timeout_s: float, timeout_max_s: float) -> Definition:
    """Return the definition of a shell with its limits filled in."""
    words = f"Seconds it may run; {timeout_s:g} unless given, at most {timeout_max_s:g}."
    properties = shell.parameters["properties"]
    assert isinstance(properties, Mapping)
    limit = {**_SECONDS, "description": words, "maximum": timeout_max_s}
    return replace(shell, parameters={**shell.parameters, "properties": {**properties, "timeout_s": limit}})
