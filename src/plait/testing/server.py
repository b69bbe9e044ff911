"""A scripted model server as a program: `python -m plait.testing.server --script FILE`.

Floor: testing. Owns: its arguments, the line with the URL, the exit code; never: serving.

It prints its URL as one line and serves until SIGINT or SIGTERM. Exit code 0 when the requests were those of the
script, 1 when not (and it says why on stderr), 2 when the script file cannot be used.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence

from plait.core.errors import PlaitError
from plait.testing.errors import ScriptError
from plait.testing.script_file import ScriptFile, read_script
from plait.testing.script_server import ScriptServer


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve a script file until told to stop; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        script = read_script(options.script)
        server = _server(script, options)
        server.start()
    except (PlaitError, OSError) as wrong:
        _complain(str(wrong), getattr(wrong, "hint", ""))
        return 2
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    stopped.wait()
    server.stop()
    try:
        server.check()
    except ScriptError as disagreement:
        _complain(disagreement.message, disagreement.hint)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m plait.testing.server",
        description="Serve a scripted model over loopback HTTP; prints the URL as one line.",
    )
    parser.add_argument("--script", required=True, metavar="FILE", help="JSON or YAML file with the steps")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one (default)")
    parser.add_argument("--repeat", action="store_true", help="begin the steps again when they are used up")
    parser.add_argument("--allow-unused", action="store_true", help="exit 0 even if steps are left")
    return parser


def _server(script: ScriptFile, options: argparse.Namespace) -> ScriptServer:
    return ScriptServer(
        script.steps,
        usage=script.usage,
        models=script.models,
        repeat=script.repeat or options.repeat,
        allow_unused=script.allow_unused or options.allow_unused,
        port=options.port,
    )


def _complain(sentence: str, hint: str) -> None:
    sys.stderr.write(f"plait.testing.server: {sentence}\n")
    if hint:
        sys.stderr.write(f"  {hint}\n")


if __name__ == "__main__":
    sys.exit(main())
