"""Carries out one task: from the options of a command to its exit code.

Floor: 7. Owns: the order of things around a run, and every way it can end before it begins; never: the turn.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plait.cli.choosing import Choice, choose
from plait.cli.outcome import Outcome
from plait.cli.screen import Form, Manner, Screen
from plait.cli.signals import Signals
from plait.core.cancel import Cancel
from plait.core.errors import ConfigError, JournalError, LimitReached, PlaitError
from plait.core.images import image_of
from plait.core.messages import Image
from plait.core.strict_json import parse_object
from plait.engine.documents import read_document

if TYPE_CHECKING:
    from plait.cli.continuing import Going
    from plait.engine.profile import Profile
    from plait.session.options import Proof

DEFAULT_RETRIES: Final = 5
"""Requests that are made again when an endpoint fails in passing, unless somebody says otherwise."""
_SCHEMA_BYTES_MAX: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a run was asked for."""

    task: str | None
    """None only finishes what a session left unfinished."""
    model: str | None = None
    endpoint: str | None = None
    key_env: str | None = None
    inference_db: str | None = None
    because: str = ""
    """Who named the model and the endpoint, where no option did."""
    config: str | None = None
    """File that is read in place of the user's and the project's settings."""
    profile: Profile | str | None = None
    """The way of working, or its name."""
    supplement: str = ""
    """Stands in the system prompt."""
    tool_concurrency: int | None = None
    fields: Mapping[str, object] = field(default_factory=dict)
    """What the configuration says, as fields of an agent spec."""
    notices: Sequence[str] = ()
    """What is told of the configuration."""
    directory: str | None = None
    """Where to work; None is here, or where the resumed session did."""
    session: str | None = None
    """The session of this name goes on, or begins."""
    resume: str | None = None
    """This session goes on."""
    is_continue: bool = False
    """The newest session of the folder goes on."""
    durable: bool = True
    has_plugins: bool = True
    """Load the user's own plugins."""
    spec: str | None = None
    max_steps: int | None = None
    """None is as the spec says, or else `MAX_STEPS`."""
    max_cost: Decimal | None = None
    """In US dollars."""
    max_tokens: int | None = None
    """Prompt tokens that no cache held, and completion tokens."""
    retries: int | None = None
    """None is `DEFAULT_RETRIES`."""
    timeout_s: float | None = None
    strict_cache_proof: Proof | None = None
    """None: where the endpoint is known to report what it cached."""
    min_cacheable_tokens: int | None = None
    cache_ttl_s: float | None = None
    images: Sequence[str] = ()
    output_schema: str | None = None
    """File with the JSON Schema of the answer."""
    mcp_files: Sequence[str] = ()
    """Files that declare MCP servers, beside the user's own."""
    nohup: bool = False
    """The model may start background jobs."""
    hooks: Sequence[str] = ()
    """Files and folders of hooks, beside the user's own."""
    no_hooks: bool = False
    allow: Sequence[str] = ()
    """Permission rules of this run; `ask` and `deny` too."""
    ask: Sequence[str] = ()
    deny: Sequence[str] = ()
    sandbox: str | None = None
    """`auto`, `on` or `off`; None is as the files say."""
    sandbox_network: Sequence[str] = ()
    """Hosts that commands in the sandbox can reach, beside those of the files."""
    bare: bool = False
    """The model gets the task alone."""
    without: Sequence[str] = ()
    """Senses that are off."""
    yes: bool = False
    form: Form = "text"
    quiet: bool = False
    introduction: str = ""
    """Told before anything else."""
    is_show: bool = False
    """The run is to be watched: everything goes to stdout, whoever reads it."""


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


@contextmanager
def nothing_begun() -> Iterator[None]:
    """Tell of a place that cannot be used for a journal as of configuration: nothing was begun there.

    A journal that is there and busy or damaged, and a disk that is full, stay what they are.
    """
    try:
        yield
    except JournalError as error:
        if type(error) is not JournalError:
            raise
        raise ConfigError(error.message, hint=error.hint) from error


def chosen(options: RunOptions, going: Going | None) -> Choice:
    """Return the model to ask, and where: what the flags name, else the session's own, else what is at hand."""
    if going is not None:
        from plait.cli.continuing import terms_of

        if (choice := terms_of(options, going)) is not None:
            return choice
    if options.inference_db and not (options.model or options.spec):
        raise ConfigError(f"no model was chosen for the endpoint {options.inference_db!r}", hint="name it with -m")
    if options.inference_db or (options.spec and not options.endpoint):
        # The entry's endpoint, or the spec's own model and endpoint, count where no flag says otherwise.
        return Choice(options.model or "", "", options.key_env)
    choice = choose(options.model, options.endpoint, options.key_env, os.environ)
    return replace(choice, reason=choice.reason or options.because)


@contextmanager
def inside(directory: str) -> Iterator[None]:
    """Work in a folder and come back."""
    try:
        before = os.getcwd()
        os.chdir(directory)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot work in {directory!r}: {reason}", hint="give an existing folder with -C") from error
    try:
        yield
    finally:
        os.chdir(before)


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
