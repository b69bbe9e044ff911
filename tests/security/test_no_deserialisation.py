"""X84: nothing that is read becomes code: there is no pickle, no `eval`, no loader of objects in plait."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import plait

SOURCE: Final = Path(plait.__file__).parent
MODULES: Final = frozenset(
    {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "jsonpickle"}
)
BUILT_IN: Final = frozenset({"eval", "exec", "compile", "__import__"})
LOADERS: Final = frozenset({"__setstate__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__"})
NAMES: Final = MODULES | BUILT_IN | LOADERS | {"__reduce__"}
MAY: Final = {
    "session/session.py:__reduce__": "a session that is copied becomes a plain dict",
    "core/values.py:exec": "the methods of plait's own frozen classes, as `dataclasses` makes them",
    "tools/plugins.py:exec": "a plugin of the user's, or of a repository that is trusted, byte for byte",
    "tools/plugins.py:compile": "the same",
    "testing/script_file.py:yaml": "a script for the test server; `safe_load` makes plain values",
}
"""What is there, and why nothing that was read runs by it."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield every module of plait that has one of the names in it, as it is written."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if any(name in text for name in NAMES):
            yield str(path.relative_to(SOURCE)), ast.parse(text)


def offences(name: str, tree: ast.AST) -> Iterator[str]:
    """Yield what in a module could make code or objects out of data."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names if alias.name.partition(".")[0] in MODULES]
            case ast.ImportFrom(module=str(module)):
                found = [module] if module.partition(".")[0] in MODULES else []
            case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant()]):
                continue
            case ast.Call(func=ast.Name(id=called)):
                found = [called] if called in BUILT_IN else []
            case ast.Attribute(attr=attribute, value=ast.Name(id="builtins")):
                found = [attribute] if attribute in BUILT_IN else []
            case ast.FunctionDef(name=method):
                found = [method] if method in LOADERS or method == "__reduce__" else []
            case ast.Constant(value=str(text)):
                found = [text] if text in MODULES - {"yaml"} else []
            case _:
                continue
        yield from (f"{name}:{each}" for each in found)


def test_x84_nothing_that_is_read_becomes_code() -> None:
    """In no module of plait, not even inside a function, by its name as text, or through `builtins`."""
    found = {offence for name, tree in trees() for offence in offences(name, tree)}
    assert set(MAY) == found


def test_x84_the_look_finds_what_it_looks_for() -> None:
    """Each way to load objects is an offence."""
    methods = "class A:\n def __setstate__(s, t): 0\n"
    bad = f"import pickle\nfrom yaml import load\neval('1')\nimport builtins\nbuiltins.exec\n{methods}"
    found = list(offences("m", ast.parse(f"{bad}import_module('marshal')\n")))
    assert ["m:pickle", "m:yaml", "m:eval", "m:exec", "m:__setstate__", "m:marshal"] == sorted(found, key=found.index)


def test_x84_a_session_is_copied_as_a_dict() -> None:
    """The one `__reduce__` names `dict` and the session's own keys, so that loading it runs nothing of plait."""
    text = (SOURCE / "session" / "session.py").read_text(encoding="utf-8")
    method = re.search(r"def __reduce__.*?(?=\n    def |\n\n\n)", text, re.DOTALL)
    assert method is not None
    assert "return dict" in method[0] or "(dict," in method[0]
