"""What a policy may say, and what is recorded of it."""

from __future__ import annotations

import os
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from plait.hands.fence.policy import ResourceLimits, SandboxPolicy


def test_a_policy_is_resolved_once_and_stays(tmp_path: Path) -> None:
    """Links to the workspace are followed when it is made; later nothing of it changes."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    environment = {"A": "1"}

    policy = SandboxPolicy(tmp_path / "link", environment=environment)
    environment["A"] = "2"

    assert str(tmp_path / "real") == policy.workspace
    assert {"A": "1"} == policy.environment
    with pytest.raises(FrozenInstanceError):
        policy.network = "host"  # type: ignore[misc]


@pytest.mark.parametrize(
    "wrong",
    [
        {"network": "host"},
        {"network": ""},
        {"timeout_seconds": 0},
        {"timeout_seconds": float("nan")},
        {"writable_paths": ("..",)},
        {"writable_paths": ("/etc",)},
        {"writable_paths": ("out",)},
        {"writable_paths": ("",)},
        {"read_only_paths": ("",)},
    ],
)
def test_what_cannot_be_had_is_a_value_error(wrong: dict[str, Any], tmp_path: Path) -> None:
    """A network, a time or a path that no sandbox gives is refused when the policy is made."""
    (tmp_path / "out").symlink_to("/etc")

    with pytest.raises(ValueError, match=r"."):
        SandboxPolicy(tmp_path, **wrong)


@pytest.mark.parametrize("workspace", ["missing", "file", "/"])
def test_a_workspace_is_a_directory_and_not_the_machine(workspace: str, tmp_path: Path) -> None:
    """What is no directory, or everything, cannot be fenced in."""
    (tmp_path / "file").touch()

    with pytest.raises(ValueError, match="workspace"):
        SandboxPolicy(tmp_path / workspace)


def test_limits_leave_something() -> None:
    """A limit of nothing is refused."""
    with pytest.raises(ValueError, match="processes=0"):
        ResourceLimits(processes=0)


def test_paths_are_inside_or_absolute(tmp_path: Path) -> None:
    """Writable paths are joined, read-only ones sorted into those of the workspace and those of the machine."""
    (tmp_path / "a/b").mkdir(parents=True)

    policy = SandboxPolicy(tmp_path, writable_paths=("a", "a/b", tmp_path / "c"), read_only_paths=("a/x", "/usr/share"))

    assert (str(tmp_path / "a"), str(tmp_path / "c")) == policy.writable
    assert ("a/x",) == policy.read_only_inside
    assert ("/usr/share",) == policy.read_only_outside


def test_what_is_recorded_is_json_without_values(tmp_path: Path) -> None:
    """The names of variables are told, never what they hold."""
    told = SandboxPolicy(tmp_path, environment={"TOKEN": "s3cret"}, timeout_seconds=5).metadata()

    assert (str(os.path.realpath(tmp_path)), "none", ["."], 5, ["TOKEN"]) == (
        told["workspace"],
        told["network"],
        told["writable_paths"],
        told["timeout_seconds"],
        told["environment"],
    )
    assert "s3cret" not in repr(told)
