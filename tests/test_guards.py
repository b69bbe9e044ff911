"""The guards around every test hold."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("2001:db8::1", 80)])
def test_no_test_reaches_another_machine(address: tuple[str, int]) -> None:
    """A connection that leaves this machine fails loudly, and not as an `Exception` that code would handle."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as connection, pytest.raises(BaseException, match="only talk to this machine") as caught:
        connection.connect(address)

    assert not isinstance(caught.value, Exception)


def test_no_test_looks_up_a_real_name() -> None:
    """Looking up the name of another machine fails before anything is sent."""
    with pytest.raises(BaseException, match="only talk to this machine"):
        socket.getaddrinfo("example.com", 80)


def test_loopback_is_open() -> None:
    """A server of the test's own can be reached."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert server.getsockname() == client.getpeername()


def test_every_test_has_a_home_of_its_own(home: Path) -> None:
    """Home, configuration and state lie in an empty temporary folder, and no key or proxy is left."""
    assert [] == list(home.iterdir())
    assert home == Path.home() == Path(os.environ["PLAIT_HOME"]).parent
    assert home == Path(os.environ["XDG_CONFIG_HOME"]).parent
    assert [] == [name for name in os.environ if name.upper().endswith(("_API_KEY", "_PROXY"))]


def test_file_modes_bind_the_unprivileged(tmp_path: Path, unprivileged: Callable[..., CompletedProcess[str]]) -> None:
    """Under the helper a read-only folder refuses a new file, whoever runs the tests."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)

    ran = unprivileged("import sys, pathlib; pathlib.Path(sys.argv[1], 'new').touch()", closed)

    assert (1, []) == (ran.returncode, list(closed.iterdir()))
    assert "PermissionError" in ran.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
def test_a_small_disk_is_full_soon(small_disk: Callable[[int], Path]) -> None:
    """A file that does not fit fails with ENOSPC."""
    disk = small_disk(64 * 1024)

    with pytest.raises(OSError, match="No space left on device"):
        (disk / "big").write_bytes(bytes(128 * 1024))
