"""Hold the size of the rooms, and what may not happen below the command line.

Hard walls fail: file 500 lines, function 70, class 250, 5 positional parameters; in src also `print` below the cli,
a broad `except` without its `# boundary: reason`, and mutable state in a module. A test says in a docstring what
must hold. Soft walls (file 300, function 40, 3 levels of nesting) are only counted.
Usage: `python tools/check_shape.py FOLDER…`; prints one line an offence, exit code 1 if there is one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

FILE_LINES, FUNCTION_LINES, CLASS_LINES, POSITIONAL_PARAMETERS = 500, 70, 250, 5
FILE_LINES_SOFT, FUNCTION_LINES_SOFT, NESTING_SOFT = 300, 40, 3

STATE_MODULE: Final = "plait/session/defaults.py"
PRINTING: Final = ("plait/cli/", "plait/__main__.py")
MUTABLE_MAKERS: Final = frozenset(
    "list dict set bytearray defaultdict deque OrderedDict Counter ChainMap WeakKeyDictionary WeakValueDictionary"
    " WeakSet Lock RLock Condition Event Semaphore BoundedSemaphore Queue SimpleQueue LifoQueue PriorityQueue"
    " local".split()
)
READ_ONLY_TYPES: Final = re.compile(r"\b(Mapping|Sequence|Collection|Iterable|Set|AbstractSet|Final)\b")
BROAD: Final = frozenset({"Exception", "BaseException"})

Function = ast.FunctionDef | ast.AsyncFunctionDef
Nodes = Sequence[ast.AST]
Found = Iterator[tuple[int, str]]


class Report(NamedTuple):
    """What was found: offences as `path:line: what`, and how often a soft wall was passed."""

    offences: tuple[str, ...]
    soft: int


def length(node: Function | ast.ClassDef) -> int:
    """Return the lines of a definition, its decorators not counted."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name: `threading.Lock` → `Lock`; of anything else the empty text."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return last_name(value)
        case _:
            return ""


def positional_parameters(function: Function, *, is_method: bool) -> int:
    """Count the parameters that may be given by position; the receiver of a method is none."""
    count = len(function.args.posonlyargs) + len(function.args.args)
    is_static = any(last_name(decorator) == "staticmethod" for decorator in function.decorator_list)
    return count - (is_method and not is_static)


def sizes(nodes: Nodes) -> Found:
    """Yield definitions that are too long or take too much."""
    methods = {id(child) for node in nodes if isinstance(node, ast.ClassDef) for child in node.body}
    for node in nodes:
        if isinstance(node, ast.ClassDef) and length(node) > CLASS_LINES:
            yield node.lineno, f"class {node.name} has {length(node)} lines (wall: {CLASS_LINES})"
        if not isinstance(node, Function):
            continue
        if length(node) > FUNCTION_LINES:
            yield node.lineno, f"{node.name} has {length(node)} lines (wall: {FUNCTION_LINES})"
        count = positional_parameters(node, is_method=id(node) in methods)
        if count > POSITIONAL_PARAMETERS:
            yield node.lineno, f"{node.name} takes {count} positional parameters (wall: {POSITIONAL_PARAMETERS})"


def prints(nodes: Nodes) -> Found:
    """Yield calls of `print`."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node.lineno, "print below the cli floor; give the caller an event or a value"


def always_reraises(handler: ast.ExceptHandler) -> bool:
    """Say whether a handler only cleans up: whatever it caught goes on from its end, and there is no other way out."""
    last = handler.body[-1]
    ways_out = ast.Return | ast.Break | ast.Continue
    return (
        isinstance(last, ast.Raise) and last.exc is None and not any(isinstance(n, ways_out) for n in ast.walk(handler))
    )


def broad_excepts(nodes: Nodes, lines: Sequence[str]) -> Found:
    """Yield what swallows everything and gives no `# boundary:` reason on its line or the one above."""
    for node in nodes:
        if isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            is_broad = any(kind is None or last_name(kind) in BROAD for kind in caught) and not always_reraises(node)
        elif isinstance(node, ast.Call) and last_name(node.func) == "suppress":
            is_broad = any(last_name(kind) in BROAD for kind in node.args)
        else:
            continue
        if is_broad and not any("# boundary: " in line for line in lines[max(0, node.lineno - 2) : node.lineno]):
            yield node.lineno, "broad except without a `# boundary: reason`"


def is_mutable(value: ast.expr | None) -> bool:
    """Say whether an expression makes something that can change."""
    displays = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    return isinstance(value, displays) or (isinstance(value, ast.Call) and last_name(value.func) in MUTABLE_MAKERS)


def is_table(target: ast.expr, annotation: ast.expr | None) -> bool:
    """Say whether a module-level name is a constant: `__all__`, or UPPER_CASE with a read-only type."""
    name = last_name(target)
    if name == "__all__":
        return True
    return name.isupper() and annotation is not None and bool(READ_ONLY_TYPES.search(ast.unparse(annotation)))


def module_statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield what runs at import, the branches of `if`, `try` and `with` included."""
    for node in body:
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            for branch in ("body", "orelse", "handlers", "finalbody"):
                yield from module_statements(getattr(node, branch, ()))


def module_state(tree: ast.Module, nodes: Nodes) -> Found:
    """Yield module-level names that hold something mutable, and functions that rebind one."""
    for node in module_statements(tree.body):
        if isinstance(node, ast.Assign):
            targets, annotation = node.targets, None
        elif isinstance(node, ast.AnnAssign):
            targets, annotation = [node.target], node.annotation
        else:
            continue
        for target in targets:
            if is_mutable(node.value) and not is_table(target, annotation):
                yield node.lineno, f"module-level mutable state: {ast.unparse(target)}"
    for global_ in (node for node in nodes if isinstance(node, ast.Global)):
        yield global_.lineno, f"module-level mutable state: global {', '.join(global_.names)}"


def silent_tests(nodes: Nodes) -> Found:
    """Yield tests that do not say what must hold."""
    for node in nodes:
        if isinstance(node, Function) and node.name.startswith("test_") and not ast.get_docstring(node):
            yield node.lineno, f"{node.name} has no docstring that says what must hold"


def parts_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements, handlers and cases right inside a node; what an expression holds is no block."""
    for branch in ("body", "orelse", "handlers", "finalbody", "cases"):
        part = getattr(node, branch, ())
        yield from part if isinstance(part, list) else ()


def nesting(node: ast.AST) -> int:
    """Return how deep blocks stand inside one another; an `elif` is no deeper than its `if`."""
    blocks = ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith | ast.Try | ast.Match
    deepest = 0
    for child in parts_of(node):
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child in node.orelse
        deepest = max(deepest, nesting(child) + (isinstance(child, blocks) and not is_elif))
    return deepest


def soft_walls(nodes: Nodes, lines: Sequence[str]) -> int:
    """Count the soft walls that one file passes."""
    functions = [node for node in nodes if isinstance(node, Function)]
    long = sum(length(function) > FUNCTION_LINES_SOFT for function in functions)
    deep = sum(nesting(function) > NESTING_SOFT for function in functions)
    return (len(lines) > FILE_LINES_SOFT) + long + deep


def check_file(path: Path) -> Report:
    """Check one file; which rules hold depends on the folder it stands in."""
    place = path.as_posix()
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    tree = ast.parse(text, place)
    nodes = [*ast.walk(tree)]  # once for all rules: walking is most of the work
    found = [*sizes(nodes)]
    if len(lines) > FILE_LINES:
        found.append((1, f"{len(lines)} lines (wall: {FILE_LINES})"))
    if "tests" in path.parts:
        found += silent_tests(nodes)
    if "src" in path.parts:
        inside = place.rpartition("src/")[2]
        found += broad_excepts(nodes, lines)
        found += [] if inside.startswith(PRINTING) else prints(nodes)
        found += [] if inside == STATE_MODULE else module_state(tree, nodes)
    return Report(tuple(f"{place}:{line}: {what}" for line, what in sorted(found)), soft_walls(nodes, lines))


def check(folders: Sequence[Path]) -> Report:
    """Check every Python file under `folders`."""
    reports = [check_file(path) for folder in folders for path in sorted(folder.rglob("*.py"))]
    return Report(tuple(line for report in reports for line in report.offences), sum(r.soft for r in reports))


def main() -> int:
    """Check the folders named on the command line."""
    report = check([Path(name) for name in sys.argv[1:]])
    print("\n".join([*report.offences, f"shape: {len(report.offences)} offences; soft walls passed: {report.soft}"]))
    return 1 if report.offences else 0


if __name__ == "__main__":
    sys.exit(main())
