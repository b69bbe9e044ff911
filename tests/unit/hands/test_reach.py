"""Reach and secret places: inside, outside and secret are told apart by what was opened, not by its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from plait.core.errors import Refusal
from plait.hands.editing.edit import plan_write
from plait.hands.reach import OutsidePolicy, Reach
from plait.hands.secret_places import SecretPlaces
from tests.unit.hands.ground import Ground


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    """A home with a key in it."""
    made = tmp_path / "home"
    (made / ".ssh").mkdir(parents=True)
    (made / ".ssh/id_rsa").write_text("key")
    return made


@pytest.fixture
def reach(ground: Ground, user_home: Path) -> Reach:
    """Everything allowed outside except secret places: the default of the session face."""
    secrets = SecretPlaces.usual(
        str(user_home), own=(str(user_home / "state"),), exceptions=(str(user_home / "state/spill"),)
    )
    return Reach(ground.workspace(home=str(user_home)), OutsidePolicy(True, True, secrets))


def code_of(call: Callable[[], object]) -> str:
    """The code with which a call is refused."""
    with pytest.raises(Refusal) as caught:
        call()
    return caught.value.refusal


def test_outside_is_refused_unless_allowed(ground: Ground) -> None:
    """Without leave nothing outside is reached; a yes to one purpose gives that purpose only."""
    nothing = Reach(ground.workspace())
    path = str(ground.outside / "canary")
    assert "FORBIDDEN" == code_of(lambda: nothing.open_file(path))
    assert "FORBIDDEN" == code_of(lambda: nothing.pin(path, "write"))
    reading = nothing.allowing("read")
    reading.open_file(path).close()
    assert "FORBIDDEN" == code_of(lambda: reading.pin(path, "write"))


def test_outside_is_reached_when_allowed(ground: Ground, reach: Reach) -> None:
    """With leave, files outside are read, written and listed, also through `..`, `~` and links that lead out."""
    (ground.root / "out").symlink_to(ground.outside)
    for path in (str(ground.outside / "canary"), "../outside/canary", "out/canary"):
        with reach.open_file(path) as opened:
            assert "outside" == os.read(opened.fd, 100).decode()
    with reach.pin("~/new/file", "write") as pinned:
        assert f"{ground.root.parent}/home/new/file" == pinned.shown
        plan_write(pinned, "text").apply()
    reach.open_directory(str(ground.outside)).close()


@pytest.mark.parametrize(
    "path, expected",
    [
        ("file", "inside"),
        ("new/file", "inside"),
        ("../outside/canary", "outside"),
        ("out/canary", "outside"),
        ("~/.ssh", "secret"),
        ("~/.ssh/id_rsa", "secret"),
        ("~/.ssh/new", "secret"),
        ("~/.aws/credentials", "secret"),
        ("~/.config/gcloud/x", "secret"),
        ("~/.config/other", "outside"),
        ("~/.netrc", "secret"),
        ("~/.docker/config.json", "secret"),
        ("~/.docker/other", "outside"),
        ("keys/id_rsa", "secret"),
        ("key", "secret"),
        ("hard", "secret"),
        ("/etc/shadow", "secret"),
        ("/proc/self/environ", "secret"),
        ("/proc/1/environ", "secret"),
        ("/proc/self/task/1/mem", "secret"),
        ("/proc/meminfo", "outside"),
        ("/proc/sys/kernel/pid_max", "outside"),
        ("~/state/trust.json", "secret"),
        ("~/state/spill/output", "outside"),
    ],
)
def test_places_are_classified(ground: Ground, reach: Reach, user_home: Path, path: str, expected: str) -> None:
    """Where a path leads is decided on directories that were opened: links and hard links hide nothing."""
    (ground.root / "file").write_text("")
    (ground.root / "out").symlink_to(ground.outside)
    (ground.root / "keys").symlink_to(user_home / ".ssh")
    (ground.root / "key").symlink_to(user_home / ".ssh/id_rsa")
    (ground.root / "hard").hardlink_to(user_home / ".ssh/id_rsa")
    (user_home / "state/spill").mkdir(parents=True)
    (user_home / "state/spill/output").write_text("")
    assert expected == reach.classify(path)


def test_secrets_are_refused_inside_too(user_home: Path) -> None:
    """A workspace that is the whole home keeps its keys, for every purpose and after a yes."""
    secrets = SecretPlaces.usual(str(user_home))
    ground = Ground(user_home, user_home)
    reach = Reach(ground.workspace(), OutsidePolicy(secrets=secrets)).allowing("write").allowing("read")
    assert "FORBIDDEN" == code_of(lambda: reach.open_file(".ssh/id_rsa"))
    assert "FORBIDDEN" == code_of(lambda: reach.pin(".ssh/authorized_keys", "write"))
    assert "FORBIDDEN" == code_of(lambda: reach.open_directory(".ssh"))


def test_strict_does_not_leave_even_when_allowed(ground: Ground) -> None:
    """The strict style knows no outside: leave for it changes nothing."""
    reach = Reach(ground.workspace(style="strict"), OutsidePolicy(True, True))
    assert "FORBIDDEN" == code_of(lambda: reach.open_file(str(ground.outside / "canary")))
    assert "FORBIDDEN" == code_of(lambda: reach.open_file("../outside/canary"))


def test_a_walk_is_told_what_is_secret(user_home: Path) -> None:
    """The identities that a descent may not enter are those of the directories and of the files in them."""
    status = [os.stat(user_home / name) for name in (".ssh", ".ssh/id_rsa")]
    found = SecretPlaces.usual(str(user_home)).identities()
    assert {(one.st_dev, one.st_ino) for one in status} <= found
