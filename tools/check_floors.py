"""Hold the floors: every import of plait goes down, or stays in its own room.

Imports inside functions and under `TYPE_CHECKING` count; so does `import_module("plait.…")`.
Usage: `python tools/check_floors.py [REPOSITORY]`; prints one line an offence, exit code 1 if there is one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

FLOORS: Final[Mapping[str, int]] = {
    "_version": 0,
    "core": 0,
    "kernel": 1,
    "wire": 1,
    "events": 1,
    "models": 2,
    "store": 2,
    "hands": 2,
    "config": 2,
    "context": 3,
    "tools": 3,
    "hooks": 3,
    "engine": 4,
    "session": 5,
    "runtime": 5,
    "kit": 6,
    "serve": 6,
    # what programs written for the older system import: re-exports without logic
    "tool_library": 6,
    "async_toolkit": 6,
    "openai_compat": 6,
    "testing": 6,
    "cli": 7,
    "__main__": 8,
}
STANDARD_LIBRARY_ONLY_UP_TO: Final = 1
DOUBLES: Final = "testing"
USERS_OF_DOUBLES: Final = ("plait.cli.demo",)
"""The demo plays a scripted model against the real agent; nothing else in plait may know a double."""


class Import(NamedTuple):
    """One import: the line it stands on and the module it names."""

    line: int
    target: str


def room_of(module: str) -> str:
    """Return the sub-package (or top module) of a dotted name: `plait.kernel.loop` → `kernel`; `plait` → ``."""
    return module.split(".")[1] if "." in module else ""


def resolve(module: str, level: int, package: str) -> str:
    """Return the absolute name of `from <level dots><module> import …`, written in `package`."""
    if not level:
        return module
    parents = package.split(".")
    return ".".join([*parents[: len(parents) + 1 - level], *filter(None, [module])])


def imports_of(tree: ast.Module, package: str) -> Iterator[Import]:
    """Yield every import of a module that lives in `package`, relative ones resolved."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (Import(node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = resolve(module or "", level, package)
                yield from (Import(node.lineno, f"plait.{a.name}" if base == "plait" else base) for a in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str() as target), *_],
            ):
                yield Import(node.lineno, target)
            case _:
                pass


def judge(module: str, found: Import) -> str | None:
    """Say what is wrong with one import, or None."""
    room, target_room = room_of(module), room_of(found.target)
    floor, here = FLOORS[room], f"{module} (floor {FLOORS[room]})"
    root = found.target.partition(".")[0]
    if root != "plait":
        is_foreign = floor <= STANDARD_LIBRARY_ONLY_UP_TO and root not in sys.stdlib_module_names
        return f"{here} imports {found.target}; floors 0 and 1 use the standard library only" if is_foreign else None
    if target_room not in FLOORS:
        return f"{here} imports {found.target}, the public face; import the name from its home"
    if target_room == room:
        return None
    if target_room == DOUBLES:
        return None if module.startswith(USERS_OF_DOUBLES) else f"{here} imports {found.target} (doubles, on no floor)"
    if FLOORS[target_room] < floor:
        return None
    return f"{here} imports {found.target} (floor {FLOORS[target_room]})"


def stated_floor(tree: ast.Module) -> int | None:
    """Return the number in the module docstring's `Floor: n.`, or None."""
    stated = re.search(r"^Floor: (\d+)\.", ast.get_docstring(tree) or "", re.MULTILINE)
    return int(stated[1]) if stated else None


def check_module(path: Path, module: str) -> Iterator[tuple[int, str]]:
    """Yield line and offence for one file."""
    room = room_of(module)
    if not room:
        return  # plait/__init__.py is the public face: it names everything and imports nothing
    if room not in FLOORS:
        yield 1, f"{module} has no floor; give its room one in tools/check_floors.py"
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    stated = stated_floor(tree)
    if room not in {DOUBLES, "__main__"} and stated != FLOORS[room]:
        yield 1, f"{module} is on floor {FLOORS[room]}, its docstring says {stated}"
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for found in imports_of(tree, package):
        if offence := judge(module, found):
            yield found.line, offence


def offences(repository: Path) -> list[str]:
    """Return every offence of `repository`/src/plait as `path:line: what`."""
    source = repository / "src"
    found: list[str] = []
    for path in sorted(source.glob("plait/**/*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        place = path.relative_to(repository).as_posix()
        found += dict.fromkeys(f"{place}:{line}: {text}" for line, text in check_module(path, module))
    return found


def main() -> int:
    """Check the repository named on the command line, or this one."""
    repository = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = offences(repository)
    print("\n".join([*found, f"floors: {len(found)} offences"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
