"""What an error of the operating system means to whoever asked for a file or a process.

Floor: 2. Owns: errno → `Refusal`; never: the wording of a tool's own rules.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from plait.core.errors import Refusal, RefusalCode

_MEANINGS: Final[Mapping[int, tuple[RefusalCode, str, str]]] = {
    errno.ENOENT: ("NOT_FOUND", "no such file or directory", "list the directory to see what is there"),
    errno.ENOTDIR: ("NOT_FOUND", "a part of the path is a file, not a directory", "list the directory above it"),
    errno.EISDIR: ("INVALID_INPUT", "it is a directory", "name a file in it, or list it"),
    errno.EEXIST: ("CONFLICT", "it exists already", "read it first, or choose another name"),
    errno.ENOTEMPTY: ("CONFLICT", "the directory is not empty", ""),
    errno.EACCES: ("FORBIDDEN", "permission denied", "this user may not do that here; choose another place"),
    errno.EPERM: ("FORBIDDEN", "operation not permitted", "this user may not do that here; choose another place"),
    errno.EROFS: ("FORBIDDEN", "the file system is read-only", "choose another place"),
    errno.ELOOP: ("FORBIDDEN", "a symbolic link stands in the way", "name the file that the link leads to"),
    errno.EXDEV: ("FORBIDDEN", "it leads to another file system", "choose another place"),
    errno.ETXTBSY: ("CONFLICT", "the program is running", "stop it first"),
    errno.ENAMETOOLONG: ("INVALID_INPUT", "a name in the path is too long", "use a shorter name"),
    errno.EINVAL: ("INVALID_INPUT", "the file system does not take this name", "use another name"),
    errno.ENOSPC: ("TOO_LARGE", "no space is left on the device", "free some space; the old content is untouched"),
    errno.EDQUOT: ("TOO_LARGE", "the disk quota is used up", "free some space; the old content is untouched"),
    errno.EFBIG: ("TOO_LARGE", "the file would grow larger than allowed", "write less"),
    errno.E2BIG: ("TOO_LARGE", "the command is too long", "write it to a script file and run that"),
    errno.ENOEXEC: ("INVALID_INPUT", "it is not a program", ""),
}


def refusal_from(error: OSError, path: str, doing: str) -> Refusal:
    """Turn an operating-system error into words: `cannot <doing> '<path>': <what happened>`.

    An error that says nothing a caller could act on becomes `INTERNAL_SERVER_ERROR` with the system's own text;
    the path shown is always the one that was asked for.
    """
    code, meaning, hint = _MEANINGS.get(
        error.errno or 0,
        ("INTERNAL_SERVER_ERROR", (error.strerror or "the system gave no reason").lower(), ""),
    )
    return Refusal(code, f"cannot {doing} {path!r}: {meaning}", hint=hint, details={"path": path})
