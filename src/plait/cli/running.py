"""Carries out one task: from the options of a command to its exit code.

Floor: 7. Owns: the order of things around a run, and every way it can end before it begins; never: the turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from plait.cli.folder import inside, nothing_begun
from plait.cli.outcome import Outcome
from plait.cli.run_options import RunOptions
from plait.cli.screen import Manner, Screen
from plait.cli.signals import Signals
from plait.cli.whom import chosen
from plait.core.cancel import Cancel
from plait.core.errors import ConfigError, LimitReached, PlaitError
from plait.core.images import image_of
from plait.core.messages import Image
from plait.core.strict_json import parse_object
from plait.engine.documents import read_document

_SCHEMA_BYTES_MAX: Final = 16 << 20


def run_and_report(options: RunOptions, after: Callable[[Outcome, Screen], Outcome] | None = None) -> int:
    """Run a task, show it, and return the exit code.

    `after` may look at what the run left behind and change the outcome before it is told.
    """

    begun = threading.Event()

    def attempt(screen: Screen, cancel: Cancel) -> Outcome:
        outcome = _run(options, screen, cancel, begun)
        return outcome if after is None else after(outcome, screen)

    return report(attempt, Manner(options.form, quiet=options.quiet, is_show=options.is_show), begun)


def report(attempt: Callable[[Screen, Cancel], Outcome], manner: Manner, begun: threading.Event | None = None) -> int:
    """Do some work between a screen and a stop signal, tell its outcome, and return the exit code.

    A `PlaitError` that the work raises is its outcome. Until `begun` is set, a signal ends the process on the spot.
    """
    cancel = Cancel()
    with Signals(cancel, begun) as signals, Screen(manner, cancel) as screen:
        began_s = time.monotonic()
        try:
            outcome = attempt(screen, cancel)
        except PlaitError as error:
            outcome = Outcome("error", error=error)
        duration_s = time.monotonic() - began_s
        return screen.finish(replace(outcome, duration_s=duration_s, signal_exit=signals.exit_code))


def _run(options: RunOptions, screen: Screen, cancel: Cancel, begun: threading.Event) -> Outcome:
    directory, going = options.directory, None
    if options.resume is not None:
        from plait.cli.continuing import folder_of, session_meant

        with nothing_begun():
            going = session_meant(options)
        directory = directory or (None if going is None else folder_of(going))
    with inside(directory or "."), ExitStack() as limited:
        if going is None and (options.session or options.is_continue):
            from plait.cli.continuing import session_meant

            with nothing_begun():
                going = session_meant(options)
        if not options.is_show:
            from plait.cli.configured import configured

            options = configured(options, goes_on=going is not None)
        limited.enter_context(_time_limit(options.timeout_s, cancel))
        choice = chosen(options, going)
        images = [_image(place) for place in options.images]
        schema = None if options.output_schema is None else _schema(options.output_schema)
        # Only now: a run that cannot begin should say so before the agent is even loaded.
        from plait.cli.turn import Work, carry_out

        outcome = carry_out(Work(options, choice, images, cancel, screen, begun, going, schema))
    return _timed_out(outcome, options) if cancel.reason == "timeout" else outcome


def _schema(path: str) -> Mapping[str, object]:
    """Read the JSON Schema of the answer."""
    try:
        return parse_object(read_document(Path(path), _SCHEMA_BYTES_MAX))
    except OSError as error:
        raise ConfigError(f"cannot read {path!r}: {error.strerror}", hint="check --output-schema") from error
    except ValueError as error:
        raise ConfigError(f"{path!r} is no JSON Schema: {error}", hint="check --output-schema") from error


def _image(place: str) -> Image:
    try:
        return image_of(place)
    except PlaitError as error:
        error.hint = f"{error.hint} (--image {place})"
        raise


@contextmanager
def _time_limit(timeout_s: float | None, cancel: Cancel) -> Iterator[None]:
    if timeout_s is None:
        yield
        return
    timer = threading.Timer(min(timeout_s, threading.TIMEOUT_MAX), cancel.cancel, ("timeout",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _timed_out(outcome: Outcome, options: RunOptions) -> Outcome:
    """Return a run that its time limit stopped as one that reached a limit, unless it was done by then."""
    if outcome.status != "interrupted":
        return outcome
    error = LimitReached(
        f"stopped after {options.timeout_s:g} s", limit="timeout", hint="give it more time with --timeout"
    )
    return replace(outcome, status="limit", error=error)
