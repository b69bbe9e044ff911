"""`plait run`: one task, one answer, an exit code.

Floor: 7. Owns: the options and how the task is read; never: the run itself.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import click

from plait.cli.awareness_flags import awareness_options
from plait.cli.permission_flags import permission_options
from plait.cli.run_options import DEFAULT_RETRIES, RunOptions
from plait.cli.running import run_and_report
from plait.cli.sandbox_flags import sandbox_options
from plait.cli.screen import Form
from plait.cli.streams import read_input

_EPILOG: Final = """\b
Exit codes: 0 completed; 1 the agent failed, was stopped by a limit, or a call was not run because nobody could be
asked; 2 wrong options or configuration; 3 the model or its key; 4 cache proof; 5 waits for an approval;
130, 143, 129 stopped by Ctrl-C, SIGTERM, SIGHUP."""


def finite(_ctx: click.Context, _param: click.Parameter, value: float | None) -> float | None:
    """Refuse what is a number to Python and no length of time: nan, inf."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number of seconds.")
    return value


def money(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Decimal | None:
    """Read an amount of money exactly."""
    try:
        amount = None if value is None else Decimal(value.removeprefix("$"))
    except InvalidOperation:
        amount = Decimal("NaN")
    if amount is not None and not (amount.is_finite() and amount >= 0):
        raise click.BadParameter(f"{value!r} is no amount of money: write 0.50 for fifty cents.")
    return amount


def filled(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
    """Refuse an empty text, which is what the shell makes of a variable that is not set."""
    for text in value if isinstance(value, tuple) else (value,):
        if text is not None and not text.strip():
            raise click.BadParameter("it is empty; is the variable set that it comes from?")
    return value


@click.command(short_help="Give the agent a task and wait for its answer.", epilog=_EPILOG)
@click.argument("words", metavar="TASK...", nargs=-1, required=True)
@click.option("-m", "--model", metavar="NAME", callback=filled, help="The model to ask.")
@click.option(
    "--endpoint",
    metavar="URL",
    callback=filled,
    help="Where it is: a base URL, or a provider's name such as openrouter.",
)
@click.option("--key-env", metavar="NAME", callback=filled, help="Environment variable that holds the key.")
@click.option(
    "--inference-db",
    metavar="ID",
    callback=filled,
    help="An endpoint of your own list of endpoints, in place of --endpoint.",
)
@click.option("-C", "--cwd", "directory", metavar="DIR", callback=filled, help="Work in this folder.")
@click.option("--config", metavar="FILE", callback=filled, help="Read these settings in place of your own plait.toml.")
@click.option(
    "--profile",
    metavar="NAME",
    callback=filled,
    help="Work in this way: coder, planner, researcher, reviewer, safe, or one of your own.",
)
@click.option("--spec", metavar="FILE", callback=filled, help="An agent spec: model, endpoint and tools as JSON.")
@click.option(
    "--max-steps",
    metavar="N",
    type=click.IntRange(min=1),
    help="Stop after so many answers of the model (200).",
)
@click.option(
    "--max-cost", metavar="USD", callback=money, help="Stop once so much is spent; also where nobody says how much is."
)
@click.option(
    "--max-tokens",
    metavar="N",
    type=click.IntRange(min=1),
    help="Stop after so many tokens; those that a cache held are not counted (3000000).",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    callback=finite,
    help="Stop then.",
)
@click.option(
    "--retries",
    metavar="N",
    type=click.IntRange(min=0),
    help=f"Ask so many times again when an endpoint fails in passing ({DEFAULT_RETRIES}).",
)
@click.option(
    "--strict-cache-proof/--no-strict-cache-proof",
    default=None,
    help="End with 4 unless the endpoint says what its prompt cache held; left out: where it is known to say so.",
)
@click.option(
    "--min-cacheable-tokens", metavar="N", type=click.IntRange(min=0), help="Shorter prompts are never cached."
)
@click.option(
    "--cache-ttl-seconds",
    "cache_ttl_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    callback=finite,
    help="How long the cache holds a prompt (3600).",
)
@click.option("--session", metavar="ID", callback=filled, help="Go on with this session, or begin one of this name.")
@click.option("--continue", "is_continue", is_flag=True, help="Go on with the newest session of this folder.")
@click.option("--no-durable", is_flag=True, help="Keep no journal: nothing to go on with later.")
@click.option(
    "--no-plugins", "has_plugins", is_flag=True, flag_value=False, default=True, help="Load no plugins of your own."
)
@click.option(
    "--image",
    "images",
    metavar="PATH|URL",
    multiple=True,
    callback=filled,
    help="Show the model a picture; may be repeated.",
)
@click.option("--output-schema", metavar="FILE", callback=filled, help="The answer is JSON that fits this JSON Schema.")
@click.option(
    "--mcp-config",
    "mcp_files",
    metavar="FILE",
    multiple=True,
    callback=filled,
    help="Have the tools of these MCP servers too; may be repeated.",
)
@click.option("--nohup", is_flag=True, help="Let the model start background jobs; they end with the run.")
@click.option(
    "--hooks",
    metavar="FILE|DIR",
    multiple=True,
    callback=filled,
    help="Ask these hooks too, beside your own; may be repeated.",
)
@click.option("--no-hooks", is_flag=True, help="Ask no hooks, not even your own.")
@permission_options
@sandbox_options
@awareness_options
@click.option("-y", "--yes", is_flag=True, help="Say yes to whatever would be asked; the sandbox stays.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--stream-json", is_flag=True, help="Print every event as a line of JSON; the last line is the result.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress, only the answer.")
def run(words: Sequence[str], as_json: bool, stream_json: bool, no_durable: bool, **chosen: Any) -> int:
    """Give the agent a TASK in the current folder and wait for its answer.

    The words of the task are joined by blanks; `-` stands for what comes on standard input. File tools inside the
    folder run freely, and so do commands, in a sandbox without network that can change nothing else. A change outside
    the folder, and a command where no sandbox can be made, is asked for on the terminal; where there is none it is
    denied unless --yes was given.

    The answer goes to stdout, everything else to stderr, unless stdout is a terminal, which shows both. What happens
    is kept as a session, which `plait resume` goes on with.
    """
    if chosen["session"] and chosen["is_continue"]:
        raise click.UsageError("--session and --continue exclude each other")
    form = form_of(as_json, stream_json)
    return run_and_report(RunOptions(task=read_task(words), form=form, durable=not no_durable, **chosen))


def form_of(as_json: bool, stream_json: bool) -> Form:
    """Return how a run shows itself; raise `UsageError` for two ways at once."""
    if as_json and stream_json:
        raise click.UsageError("--json and --stream-json exclude each other")
    return "json" if as_json else "lines" if stream_json else "text"


def read_task(words: Sequence[str]) -> str:
    """Return the task: the words, and standard input where one of them is `-`; raises `UsageError` for none."""
    parts = [" ".join(word for word in words if word != "-")]
    if "-" in words:
        parts.append(_standard_input())
    task = "\n\n".join(part.strip() for part in parts if part.strip())
    if not task:
        raise click.UsageError("the task is empty")
    return _as_text(task)


def _as_text(task: str) -> str:
    """Return a task without the stand-ins for bytes that the locale could not read: most often they are UTF-8."""
    try:
        task.encode("utf-8")
    except UnicodeEncodeError:
        return os.fsencode(task).decode("utf-8", "replace")
    return task


def _standard_input() -> str:
    data = read_input("-")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"standard input is not UTF-8 text (byte {error.start})") from None
