"""Guards around every test: no keys, no proxies, a home of its own, and no network beyond loopback."""

from __future__ import annotations

import faulthandler
import gc
import ipaddress
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.campaigns import Campaign
from tests.helpers.disks import small_disk as mounted_disk
from tests.helpers.grouping import Grouping, is_wanted
from tests.helpers.privileges import run_unprivileged

settings.register_profile(
    "fast",
    max_examples=25,  # a tap on every law; `make prove` knocks
    deadline=None,
    derandomize=True,  # a red run must be red again when it is repeated
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("prove", max_examples=1_000, deadline=None, print_blob=True)
settings.load_profile("fast")

_UNWANTED_SUFFIXES = ("_API_KEY", "_API_TOKEN", "_BASE_URL", "_PROXY")
_UNWANTED_PREFIXES = ("PLAIT_", "XDG_", "GIT_")
_UNWANTED_NAMES = frozenset({"NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "PYTHONPATH"})
_HOMES = itertools.count()
_HANGING_S = 120
"""A test that takes longer shows where it is, and ends its process instead of holding the suite."""


class NetworkForbidden(BaseException):
    """A test reached for a host that is not this one; not an `Exception`, so that nothing swallows it."""


def _is_here(host: object) -> bool:
    """Say whether `host` is this machine, or a name that can never resolve."""
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if not isinstance(host, str) or host in {"", "localhost"} or host.endswith(".invalid"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _guard_network(event: str, args: tuple[object, ...]) -> None:
    if event == "socket.getaddrinfo" and not _is_here(args[0]):
        raise NetworkForbidden(f"this test looked up {args[0]!r}; tests may only talk to this machine")
    if event in {"socket.connect", "socket.sendto"}:
        address = args[1]  # a tuple for the internet, text or bytes for a Unix socket
        if isinstance(address, tuple) and not _is_here(address[0]):
            raise NetworkForbidden(f"this test reached for {address!r}; tests may only talk to this machine")


def pytest_configure(config: pytest.Config) -> None:
    """Start guarding the network; an audit hook stays for the life of the process."""
    sys.addaudithook(_guard_network)
    _hear_signals()
    if "PROVE_PART" not in os.environ:  # a campaign takes as long as it takes, and its runner watches it
        config.pluginmanager.register(_Watch())
    if is_wanted(config):
        config.pluginmanager.register(Grouping(lambda: own_home(Path(os.environ["HOME"]).parent)))
    config.addinivalue_line("markers", "campaign: a test whose size `make prove` sets; whatever uses `campaign` is one")


def _hear_signals() -> None:
    """Hear Ctrl-C and a hang-up again, which whatever a script starts in the background is born without hearing."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


class _Watch:
    """Watches for tests that hang. pytest's own watch is a thread for each test: a third of what a small one costs."""

    def __init__(self) -> None:
        self._set_s = float("-inf")
        self._stderr = open(os.dup(2), "w")  # noqa: SIM115  # what is caught of a test is lost with its process

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        now_s = time.monotonic()
        if now_s - self._set_s > _HANGING_S / 4:
            self._set_s = now_s
            faulthandler.dump_traceback_later(_HANGING_S * 5 / 4, exit=True, file=self._stderr)
        return (yield)

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._stderr.close()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among thousands of tests that all stay: neither while they are collected nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark campaigns, so that the runner finds them."""
    for item in items:
        if "campaign" in getattr(item, "fixturenames", ()):
            item.add_marker("campaign")


def _is_unwanted(name: str) -> bool:
    upper = name.upper()
    return upper.startswith(_UNWANTED_PREFIXES) or upper.endswith(_UNWANTED_SUFFIXES) or upper in _UNWANTED_NAMES


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(autouse=True)
def home(_homes: Path) -> Iterator[Path]:
    """Give the test an empty home and a clean environment, and put the old environment back."""
    with own_home(_homes) as folder:
        yield folder


@contextmanager
def own_home(homes: Path) -> Iterator[Path]:
    """Make an empty home among others and a clean environment, and put the old environment back."""
    before = dict(os.environ)
    folder = homes / str(next(_HOMES))
    folder.mkdir()
    for name in filter(_is_unwanted, before):
        del os.environ[name]
    os.environ.update(
        HOME=str(folder),
        PLAIT_HOME=str(folder / "plait"),
        XDG_CACHE_HOME=str(folder / ".cache"),
        XDG_CONFIG_HOME=str(folder / ".config"),
        XDG_DATA_HOME=str(folder / ".local/share"),
        XDG_STATE_HOME=str(folder / ".local/state"),
        GIT_CONFIG_NOSYSTEM="1",
        PLAIT_AWARENESS="off",  # most tests say word for word what a model gets; those of the senses turn them on
    )
    try:
        yield folder
    finally:
        after = dict(os.environ)
        for name in after.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before.items() - after.items())


@pytest.fixture
def campaign(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Iterator[Campaign]:
    """Return how large this test is to be run: small in every suite, large under `make prove`."""
    running = Campaign.from_environment(
        sharing=sum("campaign" in getattr(item, "fixturenames", ()) for item in request.session.items)
    )
    yield running
    record_property("cases", running.cases)
    record_property("cut", running.is_cut)


@pytest.fixture
def unprivileged() -> Callable[..., CompletedProcess[str]]:
    """Return `tests.helpers.privileges.run_unprivileged`: run Python code where file modes bind even root."""
    return run_unprivileged


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Return a function that mounts a file system of so many bytes and returns its folder, until the test ends."""
    with ExitStack() as mounts:

        def mount(size_bytes: int) -> Path:
            folder = tmp_path / f"disk-{size_bytes}"
            folder.mkdir()
            return mounts.enter_context(mounted_disk(folder, size_bytes))

        yield mount
