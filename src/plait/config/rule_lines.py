"""A permission rule written into a TOML file, whose other lines stay as they are, comments too.

Floor: 2. Owns: where in the text a rule goes, and putting the file in place; never: what a rule means.

The text is edited and not written anew. Whatever comes out is read back: it has to say what it said before and the
rule, or nothing is written.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from plait.config.settings import settings_of
from plait.core.errors import ConfigError

TABLE: Final = "permissions"
_HEADER: Final = re.compile(r"^[ \t]*\[[ \t]*permissions[ \t]*\][ \t]*(?:#.*)?$", re.MULTILINE)
_MARK: Final = b"\xef\xbb\xbf"
_ITEM: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[\],]|\s+', re.DOTALL
)


def add_rule(path: Path, action: str, rule: str) -> bool:
    """Write a rule into a file, which is made where there is none; False when it stands there already.

    Durability: the file is whole at every moment, and on disk on return.

    Raises:
        ConfigError: the file cannot be read, or written, or has a form that is not edited; it is as it was.
    """
    try:
        path = Path(os.path.realpath(path))  # a link to it stays one
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(path):
            before = path.read_bytes() if path.exists() else b""
            after = with_rule(before, action, rule, str(path))
            if after == before:
                return False
            _put(path, after)
            return True
    except OSError as error:
        raise ConfigError(
            f"cannot write {str(path)!r}: {error.strerror or error}", hint="make it writable; nothing was changed"
        ) from error


def with_rule(data: bytes, action: str, rule: str, source: str) -> bytes:
    """Return the text of a file with a rule in it; the same when it stands there already. Raises `ConfigError`."""
    told = settings_of(data, repr(source))
    table = told.get(TABLE, {})
    listed = table.get(action, []) if isinstance(table, dict) else None
    if not isinstance(listed, list):
        raise _by_hand(source, action, rule, f"its {TABLE} are no lists of rules")
    if rule in listed:
        return data
    wanted = copy.deepcopy(told)
    wanted.setdefault(TABLE, {}).setdefault(action, []).append(rule)
    mark = _MARK if data.startswith(_MARK) else b""
    text = data.removeprefix(mark).decode("utf-8")
    newline = "\r\n" if "\r\n" in text else "\n"
    quoted = json.dumps(rule, ensure_ascii=False)
    for made in _edited(text.replace("\r\n", "\n"), action, quoted, has_table=TABLE in told, has_list=action in table):
        new = mark + made.replace("\n", newline).encode()
        if _says(new, wanted):
            return new
    raise _by_hand(source, action, rule, "it has a form that is not edited")


def _says(data: bytes, wanted: dict[str, Any]) -> bool:
    try:
        return settings_of(data, "") == wanted
    except ConfigError:
        return False


def _edited(text: str, action: str, quoted: str, *, has_table: bool, has_list: bool) -> Iterator[str]:
    """Yield texts that may be the one that is wanted: what looks like a table may be the inside of a string."""
    if not has_table:
        before = f"{text.rstrip(chr(10))}\n\n" if text.strip() else text
        yield f"{before}[{TABLE}]\n{action} = [{quoted}]\n"
        return
    key = re.compile(rf"^[ \t]*(?:{action}|\"{action}\"|'{action}')[ \t]*=[ \t]*\[", re.MULTILINE)
    for header in _HEADER.finditer(text):
        if not has_list:
            yield f"{text[: header.end()]}\n{action} = [{quoted}]{text[header.end() :]}"
        elif (found := key.search(text, header.end())) is not None:
            yield _with_item(text, found.end(), quoted)


def _with_item(text: str, at: int, quoted: str) -> str:
    """Put an item at the end of the list that begins before `at`."""
    last_end, has_comma, is_first = at, False, True
    depth = 0
    while (found := _ITEM.match(text, at)) is not None:
        item, at = found[0], found.end()
        if item == "]" and depth == 0:
            break
        depth += {"[": 1, "]": -1}.get(item, 0)
        if item == ",":
            has_comma, last_end = True, at
        elif not item.isspace() and not item.startswith("#"):
            is_first, has_comma, last_end = False, False, at
    else:
        return text
    close = at - 1
    if "\n" not in text[last_end:close]:
        comma = "" if is_first or has_comma else ","
        blank = "" if is_first else " "
        return f"{text[:last_end]}{comma}{blank}{quoted}{text[last_end:]}"
    # A line of its own, after what is said of the last one.
    comma = "" if is_first or has_comma else ","
    line_end = text.index("\n", last_end)
    line = text[text.rfind("\n", 0, last_end) + 1 : last_end]
    indent = "    " if is_first or "[" in line else line[: len(line) - len(line.lstrip())] or "    "
    return f"{text[:last_end]}{comma}{text[last_end:line_end]}\n{indent}{quoted},{text[line_end:]}"


def _by_hand(source: str, action: str, rule: str, why: str) -> ConfigError:
    return ConfigError(
        f"the rule was not written into {source!r}: {why}",
        hint=f"add {json.dumps(rule)} to the list {action!r} of [{TABLE}] by hand",
    )


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes from editing the file meanwhile."""
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _put(path: Path, data: bytes) -> None:
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
