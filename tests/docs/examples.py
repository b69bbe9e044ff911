"""Run the examples of a Markdown file, in order, as its reader would.

- ```` ```python ````: executed; all blocks of a file share one namespace.
- ```` ```console ````: each `$ command` is run by bash and must end with 0, or with N if the line ends in `# exit N`.
  Where lines of output follow, what was printed must be those lines; `…` stands for any text.
- ```` ```sh ````: shown, not run, but each `make TARGET` in it must exist.
- `text`, `json`, `toml`, `yaml`, `diff`, `markdown`: shown only. Any other tag, or none, is a mistake.
- `<!-- python` … `-->`: run like python, not shown: a server to talk to, files to work on. `cleanup` is an ExitStack
  that is closed at the end of the file.

Everything runs in one temporary folder and home a file.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers.warm import PLAIT, run_warm

REPOSITORY = Path(__file__).resolve().parents[2]
SHOWN_ONLY = frozenset({"text", "json", "toml", "yaml", "diff", "markdown"})
COMMAND_TIMEOUT_S = 60
BLOCK = re.compile(
    r"^```(?P<tag>\S*)[^\n]*\n(?P<code>.*?)^```$|^<!-- (?P<hidden>python)\n(?P<setup>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """One fenced block: its tag, its code, and the line of the file on which the code begins."""

    tag: str
    code: str
    line: int


class Command(NamedTuple):
    """One `$ command` of a console block with what it should do; no output means that any will do."""

    text: str
    exit_code: int
    output: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced and the hidden blocks of a Markdown text."""
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        yield Block(match["tag"] or match["hidden"] or "", match["code"] or match["setup"] or "", line)


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block; a backslash at the end of a line continues it."""
    joined = block.code.replace("\\\n", "")
    for match in re.finditer(
        r"^\$ (?P<text>.*?)(?:  # exit (?P<code>\d+))?\n(?P<output>(?:(?!\$ ).*\n)*)", joined, re.MULTILINE
    ):
        line = block.line + joined.count("\n", 0, match.start())
        yield Command(match["text"], int(match["code"] or 0), match["output"], line)


def run_command(command: Command, place: str) -> None:
    """Run one command in the current folder and compare what it did with what the page says."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = run_warm(
        argv_of(command.text),
        env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"},  # both streams in the order a terminal shows
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
    )
    where = f"{place}:{command.line}: $ {command.text}\n{ran.stdout}"
    assert command.exit_code == ran.returncode, f"{where}[exit {ran.returncode}, not {command.exit_code}]"
    expected = "\n".join(re.escape(line.rstrip()).replace("…", ".*") for line in command.output.strip().splitlines())
    printed = "\n".join(line.rstrip() for line in ran.stdout.strip().splitlines())
    assert not expected or re.fullmatch(expected, printed, re.DOTALL), f"{where}[is not what the page shows]"


def argv_of(line: str) -> list[str | Path]:
    """Return how a line is run: by bash, unless all of it is words for `plait`."""
    if re.fullmatch(r"plait [^|;&<>()`\\*?~#{}\[\]!]*", line):
        _, *words = shlex.split(os.path.expandvars(line))
        return [PLAIT, *words]
    return ["bash", "-c", line]


def check_targets(block: Block, place: str) -> None:
    """Check that every `make TARGET` of a block exists."""
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|&& )make ([a-z]+)", block.code, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{place}:{block.line}: there is no `make {target}`"


def run_page(page: Path, place: str) -> None:
    """Run every example of `page` in the current folder; `place` is what failures call it."""
    with ExitStack() as cleanup:
        namespace: dict[str, Any] = {"__name__": "__main__", "cleanup": cleanup}
        for block in blocks(page.read_text(encoding="utf-8")):
            match block.tag:
                case "python":
                    exec(compile("\n" * (block.line - 1) + block.code, place, "exec"), namespace)
                case "console":
                    for command in commands(block):
                        run_command(command, place)
                case "sh":
                    check_targets(block, place)
                case _:
                    assert block.tag in SHOWN_ONLY, (
                        f"{place}:{block.line}: a block tagged {block.tag!r}; see tests/docs"
                    )
