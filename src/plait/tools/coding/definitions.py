"""The strict tools as a model sees them.

Floor: 3. Owns: what is advertised; never: what a tool does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plait.tools.definitions import Definition, count, flag, parameters_of, text

_PATH: Final = text("Path relative to the workspace, with `/`; no `..`, no links.")
_FOLDER: Final = text("Directory relative to the workspace; `.` is the workspace.", default=".")
_EXPECTED: Final = text("Optional: sha256 the file must still have, else nothing is changed.")

READ_FILE: Final = Definition(
    "read_file",
    "",
    "Read a UTF-8 file of the workspace. When there is more, the last line says where to go on.",
    parameters_of(
        "path",
        path=_PATH,
        offset=count("First line to return, counted from 1."),
        limit=count("How many lines to return."),
    ),
)
WRITE_FILE: Final = Definition(
    "write_file",
    "",
    "Create a file; missing directories are created. A file that exists is replaced only with overwrite.",
    parameters_of(
        "path content",
        path=_PATH,
        content=text("The whole content."),
        overwrite=flag("Replace a file that exists."),
        expected_sha256=_EXPECTED,
    ),
    mutates=True,
    is_parallel_safe=False,
)
EDIT_FILE: Final = Definition(
    "edit_file",
    "",
    "Replace text in a file, character for character. It must occur exactly once, unless replace_all is true.",
    parameters_of(
        "path old_text new_text",
        path=_PATH,
        old_text=text("The exact text to replace."),
        new_text=text("What to put there; empty to delete."),
        replace_all=flag("Replace every occurrence."),
        expected_sha256=_EXPECTED,
    ),
    mutates=True,
    is_parallel_safe=False,
)
LIST_DIRECTORY: Final = Definition(
    "list_directory",
    "",
    "List a directory by name; `(excluded)` marks a directory that searches pass over.",
    parameters_of("", path=_FOLDER),
)
GLOB: Final = Definition(
    "glob",
    "",
    "Find paths that fit a pattern: `*` within a name, `**/` across directories.",
    parameters_of("pattern", pattern=text("The pattern."), path=_FOLDER),
)
SEARCH_FILES: Final = Definition(
    "search_files",
    "",
    "Find lines that hold a text, as `path:line:text`.",
    parameters_of(
        "pattern",
        pattern=text("The text, or with regex the regular expression."),
        path=_FOLDER,
        regex=flag("Take the pattern as a regular expression."),
        include=text("Only files whose whole relative path fits this pattern, such as `src/**/*.py`."),
        context=count("Lines to show around each match.", 0),
    ),
)
ON_FILES: Final = (READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIRECTORY, GLOB, SEARCH_FILES)
READ_OUTPUT: Final = Definition(
    "read_output",
    "",
    "Read a part of a command's output that was too long to show. The last line says where there is more.",
    parameters_of(
        "reference",
        reference=text("What the command's answer named."),
        offset=count("First byte to return, counted from 0.", 0),
        limit=count("How many bytes to return."),
    ),
)


def run_command(names: Sequence[str], timeout_max_s: float) -> Definition:
    """Return the tool that runs one of the named commands."""
    return Definition(
        "run_command",
        "",
        "Run one of the commands that are offered, with arguments; there is no shell and no input.",
        parameters_of(
            "command",
            command=text("Which command.", enum=list(names)),
            args={"type": "array", "items": {"type": "string"}, "description": "Its arguments."},
            timeout_s={
                "type": "number",
                "description": "Seconds it may run.",
                "exclusiveMinimum": 0,
                "maximum": timeout_max_s,
            },
        ),
        mutates=True,
        runs_code=True,
        is_parallel_safe=False,
        category="shell",
    )
