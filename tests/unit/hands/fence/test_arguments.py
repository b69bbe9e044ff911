"""From policy to arguments: the same for the same ground, and nothing of it left to the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.hands.fence.alone import alone_argv
from plait.hands.fence.bubblewrap import fence_argv
from plait.hands.fence.environment import fenced_environment, loaders_in, without_loaders
from plait.hands.fence.ground import Ground, find_program
from plait.hands.fence.policy import ResourceLimits, SandboxPolicy
from plait.hands.fence.seccomp import filter_for

GROUND = Ground(
    system=("/usr", "/etc"),
    links=(("usr/bin", "/bin"),),
    interpreter="/opt/py/bin/python3",
    prefix="/opt/py",
    program="/opt/plait/fence",
    hidden_files=("/etc/shadow",),
    hidden_directories=("/etc/sudoers.d",),
    proc_hidden=("kcore",),
    proc_kept=("sys",),
    landlock=7,
)
COMMAND = ("/bin/bash", "-c", "true")


def filter_hex() -> str:
    """Return the filter of the ground's machine."""
    code = filter_for("x86_64")
    assert code is not None
    return code.hex()


def test_the_whole_line(tmp_path: Path) -> None:
    """This is what a fence consists of, outside in."""
    policy = SandboxPolicy(
        tmp_path,
        read_only_paths=("vendor", "/opt/tools"),
        environment={"A": "1"},
        limits=ResourceLimits(processes=9, memory_bytes=1 << 20, file_bytes=1 << 21, open_files=8, cpu_seconds=3),
    )
    at = policy.root

    argv = fence_argv(policy, GROUND, "/usr/bin/bwrap", COMMAND)

    size = str(policy.limits.temporary_bytes)
    kept = policy.kept
    assert (
        *("/bin/sh", "-c", 'trap "" TERM; exec "$@"', "sh", "/usr/bin/bwrap"),
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *("--unshare-cgroup-try", "--hostname", "plait", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *("--ro-bind-try", "/usr", "/usr", "--ro-bind-try", "/etc", "/etc", "--ro-bind-try", "/opt/py", "/opt/py"),
        *("--ro-bind-try", "/opt/tools", "/opt/tools", "--symlink", "usr/bin", "/bin"),
        *("--ro-bind", "/dev/null", "/etc/shadow", "--tmpfs", "/etc/sudoers.d", "--remount-ro", "/etc/sudoers.d"),
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--ro-bind", "/dev/null", "/proc/kcore"),
        *("--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--size", size, "--tmpfs", "/tmp"),
        *("--dir", "/tmp/home", "--dir", "/var", "--symlink", "../tmp", "/var/tmp", "--bind", at, at),
        *("--ro-bind", "/opt/plait/fence", "/run/plait/program", "--dir", "/run/plait/empty", "--remount-ro", "/"),
        *("--setenv", "HOME", "/tmp/home", "--setenv", "TMPDIR", "/tmp", "--setenv", "A", "1", "--"),
        *("/opt/py/bin/python3", "-I", "-S", "-B", "-c"),
        "import sys; sys.path.append(sys.argv[1]); import confine; confine.main()",
        *("/run/plait/program", f"root={at}", "pin=.git", "pin=.github", *(f"keep={path}" for path in kept)),
        *("limit=RLIMIT_CORE:0", "limit=RLIMIT_NPROC:9", "limit=RLIMIT_DATA:1048576", "limit=RLIMIT_FSIZE:2097152"),
        *("limit=RLIMIT_NOFILE:8", "limit=RLIMIT_CPU:3", "landlock=inside", "read=/"),
        *(f"write={at}", "write=/tmp", "write=/dev", f"filter={filter_hex()}", "--", *COMMAND),
    ) == argv
    assert {".git/hooks", ".git/config", ".plait", "plait.toml", ".mcp.json", "vendor"} <= set(kept)


def test_root_gets_a_process_namespace_that_counts(tmp_path: Path) -> None:
    """The kernel counts no processes of root's: a highest process id does, where each namespace has one."""
    root = Ground(is_root=True)

    argv = fence_argv(SandboxPolicy(tmp_path), root, "/usr/bin/bwrap", COMMAND)
    old = fence_argv(SandboxPolicy(tmp_path), Ground(is_root=True, counts_processes=False), "/usr/bin/bwrap", COMMAND)

    assert 2 == argv.count("/usr/bin/bwrap")
    assert "512" == argv[argv.index("--dev-bind") + 7]
    assert 1 == old.count("/usr/bin/bwrap")
    assert not any("NPROC" in part for part in (*argv, *old))


def test_only_some_paths_are_writable(tmp_path: Path) -> None:
    """Without the whole workspace among the writable paths it is bound read-only, and they over it."""
    argv = fence_argv(
        SandboxPolicy(tmp_path, writable_paths=("build",)), GROUND, "/usr/bin/bwrap", COMMAND, "/workspace"
    )

    at = argv.index("/workspace")
    assert ("--ro-bind", str(tmp_path), "/workspace", "--bind-try", f"{tmp_path}/build", "/workspace/build") == argv[
        at - 2 : at + 4
    ]
    assert "write=/workspace/build" in argv
    assert "write=/workspace" not in argv
    assert ("--chdir", "/workspace") == argv[argv.index("--chdir") :][:2]


def test_secrets_inside_the_workspace_are_hidden(tmp_path: Path) -> None:
    """A workspace that holds places of keys shows them empty."""
    ground = Ground(secrets=(f"{tmp_path}/.ssh", "/root/.aws"))

    argv = fence_argv(SandboxPolicy(tmp_path), ground, "/usr/bin/bwrap", COMMAND)

    assert ["hide=.ssh"] == [part for part in argv if part.startswith("hide=")]


def test_the_lesser_fence_refuses_every_socket(tmp_path: Path) -> None:
    """Landlock alone has no network of its own: no socket family is left."""
    argv = alone_argv(SandboxPolicy(tmp_path), GROUND, "/tmp/own", COMMAND)

    none = filter_for("x86_64", families=())
    assert none is not None
    assert ("/usr/bin/env", "HOME=/tmp/own", "TMPDIR=/tmp/own") == argv[:3]
    assert f"filter={none.hex()}" in argv
    assert "read=/etc" not in argv
    assert {f"write={tmp_path}", "write=/tmp/own", "landlock=alone"} <= set(argv)


def test_only_a_few_names_of_the_environment_pass() -> None:
    """X14: what makes programs load or run something stays out, and what looks like a credential."""
    own = {"PATH": "/bin", "LC_ALL": "C", "GIT_PAGER": "cat", "PLAIT_TREE": "m"}
    bad = "LD_PRELOAD PYTHONPATH GIT_DIR GIT_SSH_COMMAND NODE_OPTIONS BASH_ENV ENV HOME OPENAI_API_KEY SSH_AUTH_SOCK"

    assert own == fenced_environment({**own, **dict.fromkeys(bad.split(), "x")})
    assert ["BASH_ENV", "LD_PRELOAD"] == loaders_in(dict.fromkeys(bad.split(), "x"))
    assert {"A": "1"} == without_loaders({"A": "1", "LD_PRELOAD": "x.so"})


@pytest.mark.parametrize("where", ["workspace", "link", "relative", "into"])
def test_a_planted_program_is_never_found(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X16: a program in the workspace is not the user's, by whatever way the PATH leads to it."""
    workspace, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    for folder in (workspace, elsewhere):
        folder.mkdir()
    planted = workspace / "bwrap"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    (elsewhere / "link").symlink_to(workspace)
    (elsewhere / "bwrap").symlink_to(planted)
    monkeypatch.chdir(workspace)
    path = {"workspace": str(workspace), "link": f"{elsewhere}/link", "relative": ".", "into": str(elsewhere)}[where]

    assert find_program("bwrap", {"PATH": f"{path}:"}, str(workspace)) is None
    assert find_program("./bwrap", {"PATH": path}, str(workspace)) is None
    assert find_program(str(planted), {}, str(workspace)) is None
    assert str(planted) == find_program("bwrap", {"PATH": str(workspace)}, str(elsewhere))


def test_a_program_of_the_repository_is_not_found_from_a_folder_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X16: what a repository has on the PATH is planted for its folders too; a home that is a repository is no such."""
    folder = tmp_path / "work/deep/folder"
    for place in (folder, tmp_path / "work/.git", tmp_path / "work/bin"):
        place.mkdir(parents=True)
    program = tmp_path / "work/bin/bwrap"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environ = {"PATH": str(program.parent)}

    assert find_program("bwrap", environ, str(folder)) is None
    monkeypatch.setenv("HOME", str(tmp_path / "work"))
    assert str(program) == find_program("bwrap", environ, str(folder))
