"""The entry point: answers `--version` at once and leaves everything else to modules that cost more to load.

Floor: 7. Owns: the process's arguments and its exit, Ctrl-C before and after the work; never: a command.
"""

import os
import sys


def main() -> None:
    """Run the command line on this process's arguments and exit with its code."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.exit(_version())
    import signal

    # While plait loads there is nothing to close, and a KeyboardInterrupt would only draw a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from plait.cli.entry import run_command_line

    code = run_command_line(arguments)
    # The exit code stands from here on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _leave(number: int, _frame: object) -> None:
    """End the process on the spot, as interrupted."""
    os._exit(128 + number)


def _version() -> int:
    """Print the version, and fail like any command when nobody can read it."""
    from plait._version import __version__

    if sys.stdout is None:
        return 1  # it was closed
    try:
        print(f"plait {__version__}", flush=True)
    except OSError:
        # What is still in the buffer would fail again at exit, with a traceback.
        sys.stdout = None
        return 1
    return 0
