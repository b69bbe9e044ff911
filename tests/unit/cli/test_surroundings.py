"""What commands in a run's sandbox can read beside its folder."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from plait.cli.surroundings import readable_around, variables_around

_COMMIT: Final = ("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "first")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def test_programs_of_the_home_are_seen_and_the_home_is_not(home: Path, tmp_path: Path) -> None:
    """What is on the PATH, all of a place with its own `lib`, and the usual stores; never what holds keys or a home."""
    names = (".local/bin", ".local/lib", ".cargo/bin", "tool/bin", "tool/lib", "bin", ".rustup")
    for name in (".local/share/uv/python", ".local/share/uv/credentials", *names):
        (home / name).mkdir(parents=True)
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (folder / "bin").mkdir()
    on_path = [
        home / ".local/bin",
        home / ".cargo/bin",
        home / "tool/bin",
        home / "bin",
        home,
        folder / "bin",
        "/usr/bin",
    ]
    environ = {"HOME": str(home), "PATH": ":".join(map(str, [*on_path, "relative", "", "/", "/tmp", "/none"]))}

    wanted = (".local/share/uv/python", ".rustup", ".local/lib", ".local/bin", ".cargo/bin", "tool", "bin")
    assert tuple(str(home / name) for name in wanted) == readable_around(str(folder), environ)
    assert {"RUSTUP_HOME": str(home / ".rustup")} == variables_around()


def test_a_repository_is_seen_from_its_folders(home: Path, tmp_path: Path) -> None:
    """Not one that a home, its keys, or what plait keeps lies in."""
    (tmp_path / "work/.git").mkdir(parents=True)
    (tmp_path / "work/docs").mkdir()
    docs = str(tmp_path / "work/docs")

    assert (str(tmp_path / "work"),) == readable_around(docs, {"HOME": str(home), "PATH": ""})
    assert () == readable_around(docs, {"HOME": str(home), "PLAIT_HOME": str(tmp_path / "work/state")})


def test_a_linked_worktree_sees_a_repository_that_knows_it(home: Path, tmp_path: Path) -> None:
    """Not what a folder merely says is its repository, were it laid out like one."""
    environ = {"HOME": str(home), "PATH": ""}
    main, tree, forged = tmp_path / "main", tmp_path / "tree", tmp_path / "forged"
    for command in (["init", "-q", str(main)], ["-C", str(main), *_COMMIT], ["-C", str(main), "worktree", "add", tree]):
        subprocess.run(["git", *command], check=True, capture_output=True)
    forged.mkdir()
    (forged / ".git").write_text((tree / ".git").read_text())

    assert (str(main / ".git"),) == readable_around(str(tree), environ)
    assert () == readable_around(str(forged), environ)
    for place in ("no\0where", str(home), str(forged / ".git"), ""):
        (forged / ".git").write_text(f"gitdir: {place}\n")
        assert () == readable_around(str(forged), environ)
    (forged / "worktrees/x").mkdir(parents=True)
    (forged / "worktrees/x/gitdir").write_text(f"{forged}/.git\n")
    (forged / "worktrees/x/commondir").write_text(f"{home}\n")
    (forged / ".git").write_text(f"gitdir: {forged}/worktrees/x\n")
    assert () == readable_around(str(forged), environ)


def test_a_repository_does_not_say_what_of_the_home_is_seen(home: Path, tmp_path: Path) -> None:
    """Its `bin`, on the PATH and a link, shows a virtual environment and nothing else; nobody's link shows a key."""
    bin_folder = tmp_path / "work/.venv/bin"
    for place in (bin_folder.parent, home / "letters", home / ".ssh/keys", home / "env/bin", home / "env/lib"):
        place.mkdir(parents=True)
    (home / "env/pyvenv.cfg").touch()
    (home / "own").symlink_to(home / ".ssh/keys")
    environ = {"HOME": str(home), "PATH": f"{bin_folder}:{home / 'own'}"}

    for target, seen in [(home / "letters", ()), (home / ".ssh/keys", ()), (home / "env/bin", (str(home / "env"),))]:
        bin_folder.symlink_to(target)
        assert seen == readable_around(str(tmp_path / "work"), environ)
        bin_folder.unlink()
