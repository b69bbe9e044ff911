"""What is told of a git repository is what git says of it, and git is never run."""

from __future__ import annotations

import os
import subprocess
import zlib
from pathlib import Path

import pytest

from plait.context.git_folder import git_folder, read_head
from plait.context.git_lines import git_lines
from plait.context.ground import Ground


def git(folder: Path, *words: str, stdin: str = "") -> str:
    """Run git in a folder, as somebody with a name."""
    who = ("-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60, input=stdin
    )
    return done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with a packed history, and one commit that is not."""
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    for number in range(7):
        (root / "src" / f"f{number}").write_text(f"{number}\n" * 50)
        git(root, "add", ".")
        git(root, "commit", "-qm", f"number {number}\n\nWith more to say.")
    git(root, "gc", "-q")
    (root / "last").write_text("x")
    git(root, "add", ".")
    git(root, "commit", "-qm", "the last one")
    return root


def test_branch_commits_and_changes_are_those_of_git(tree: Path) -> None:
    """Five commits out of packs and loose files, and the very marks of `git status --short`; then a clean tree."""
    subjects = ["the last one", "number 6", "number 5", "number 4", "number 3"]
    lines = git_lines(str(tree / "src"))
    assert "Git: on branch main" == lines[0]
    assert subjects == [line.split(maxsplit=1)[1] for line in lines[2:7]]
    assert ["Working tree: clean"] == lines[7:]

    (tree / "src" / "f0").write_text("other\n")
    (tree / "src" / "f1").unlink()
    (tree / "src" / "f2").touch()
    (tree / ".gitignore").write_text("*.log\n")
    (tree / "a.log").touch()
    (tree / "new").mkdir()
    (tree / "new" / "inside").touch()
    (tree / "empty").mkdir()
    (tree / "staged").write_text("s")
    (tree / "src" / "f3").write_text("staged\n")
    git(tree, "add", "staged", "src/f3")
    (tree / "src" / "f3").write_text("and more\n")
    git(tree, "rm", "-q", "src/f4")

    said = git(tree, "status", "--short").splitlines()
    assert [f"Changed files ({len(said)}):", *(f"  {line}" for line in said)] == git_lines(str(tree))[7:]


@pytest.mark.parametrize("version", ["2", "4"])
def test_every_form_of_the_index_is_read(tree: Path, version: str) -> None:
    """Paths that are written in full and paths that go on from the one before."""
    git(tree, "update-index", "--index-version", version)
    assert ["Working tree: clean"] == git_lines(str(tree))[7:]


def test_a_linked_working_tree_is_one_and_a_lie_is_none(tree: Path, tmp_path: Path) -> None:
    """A `.git` file is followed to a folder that says itself that it belongs here, and to no other."""
    git(tree, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "side")
    assert "Git: on branch side" == git_lines(str(tmp_path / "linked"))[0]
    liar = tmp_path / "liar"
    liar.mkdir()
    (liar / ".git").write_text(f"gitdir: {tree / '.git'}\n")
    assert [] == git_lines(str(liar))
    assert git_folder(liar) is None


def test_outside_of_a_repository_nothing_is_said(tmp_path: Path) -> None:
    """Neither in an ordinary folder nor where `.git` is not git's."""
    assert [] == git_lines(str(tmp_path))
    (tmp_path / ".git").mkdir()
    assert [] == git_lines(str(tmp_path))


def test_a_damaged_repository_is_told_as_far_as_it_goes(tree: Path) -> None:
    """Rubbish in the place of index and packs leaves the branch; a FIFO is not waited for; nothing is raised."""
    (tree / ".git" / "index").write_bytes(b"DIRC\0\0\0\2\0\0\0\5rubbish")
    for path in (tree / ".git" / "objects" / "pack").iterdir():
        path.chmod(0o600)
        path.write_bytes(b"\xfftOc\x00\x00\x00\x02" + bytes(2000))
    lines = git_lines(str(tree))
    assert ("Git: on branch main", 3) == (lines[0], len(lines))
    (tree / ".git" / "HEAD").unlink()
    os.mkfifo(tree / ".git" / "HEAD")
    assert [] == git_lines(str(tree))


def loose(tree: Path, name: str, content: bytes) -> None:
    """Write an object under a name that need not be its own."""
    folder = tree / ".git" / "objects" / name[:2]
    folder.mkdir(exist_ok=True)
    (folder / name[2:]).write_bytes(zlib.compress(content))


def test_a_repository_that_lies_leads_nowhere(tree: Path, tmp_path: Path) -> None:
    """A tree that holds itself, a parent that is no name, a path and a link that lead out: all end and show nothing."""
    commit, itself = "a" * 40, "b" * 40
    loose(tree, itself, b"tree 33\x0040000 again\x00" + bytes.fromhex(itself))
    loose(tree, commit, f"commit 9\x00tree {itself}\nparent ../../x\n\nlies".encode())
    (tree / ".git" / "HEAD").write_text(commit)
    lines = git_lines(str(tree))
    assert ["Git: at aaaaaaaaa, on no branch", "Recent commits:", "  aaaaaaaaa lies"] == lines[:3]
    assert "  (there may be others: not everything was looked at)" not in lines[:3]

    secret = tmp_path / "secret"
    (secret / "deep").mkdir(parents=True)
    (secret / "deep" / "diary").touch()
    (tree / "d" / "deep").mkdir(parents=True)
    (tree / "d" / "deep" / "f").touch()
    git(tree, "read-tree", "--empty")
    git(tree, "add", "d")
    (tree / "d" / "deep" / "f").unlink()
    (tree / "d" / "deep").rmdir()
    (tree / "d").rmdir()
    (tree / "d").symlink_to(secret)
    assert "diary" not in "\n".join(git_lines(str(tree)))
    index = tree / ".git" / "index"
    index.write_bytes(index.read_bytes().replace(b"d/deep/f", b"../../ab"))
    assert ["Git: at aaaaaaaaa, on no branch", "Recent commits:", "  aaaaaaaaa lies"] == git_lines(str(tree))


def test_names_out_of_a_repository_stay_on_their_line(tree: Path) -> None:
    """A file's name or a branch's cannot begin a line of its own."""
    (tree / "a\nWorking tree: clean").touch()
    assert r"  ?? 'a\nWorking tree: clean'" == git_lines(str(tree))[-1]


def test_a_large_repository_is_counted_and_not_read(tree: Path) -> None:
    """An index of 200,000 entries is not gone through, nor is any file looked at."""
    index = tree / ".git" / "index"
    head = index.read_bytes()
    index.write_bytes(head[:8] + (200_000).to_bytes(4, "big") + head[12:])
    assert "Changed files: not looked for among 200,000 tracked ones; ask git" == git_lines(str(tree))[-1]
    ground = Ground(str(tree))
    ground.settle()
    assert {} == ground._tracked


def test_time_that_runs_out_is_said(tree: Path) -> None:
    """What was not looked at is not called clean."""
    seconds = iter(range(1_000))
    assert "Changed files: none found in the time there was; ask git" == git_lines(str(tree), lambda: next(seconds))[-1]


def test_packed_branches_are_found(tree: Path) -> None:
    """A branch whose file git has put into `packed-refs` has its commit."""
    git(tree, "pack-refs", "--all")
    folder = git_folder(tree)
    assert folder is not None
    head = read_head(folder)
    assert head is not None
    assert ("main", git(tree, "rev-parse", "HEAD").strip()) == (head.branch, head.commit)
    git(tree, "checkout", "-q", "--detach")
    assert git_lines(str(tree))[0].endswith("on no branch")


@pytest.mark.prove
def test_two_hundred_thousand_files_hold_nothing_up(tmp_path: Path) -> None:
    """A repository of that size is counted, not gone through; many names that are not tracked are not gone through."""
    root = tmp_path / "large"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "file").write_text("x")
    blob = git(root, "hash-object", "-w", "file").strip()
    names = "".join(f"100644 {blob}\td{number // 500}/f{number}\n" for number in range(200_000))
    git(root, "update-index", "--index-info", stdin=names)
    git(root, "commit", "-qm", "all of them")
    lines = git_lines(str(root))
    assert ["Git: on branch main", "Recent commits:"] == lines[:2]
    assert "Changed files: not looked for among 200,000 tracked ones; ask git" == lines[-1]
    ground = Ground(str(root))
    ground.touched(["file"])
    ground.settle()
    (root / "file").write_text("theirs")
    moved = ground.moved()
    assert moved is not None
    assert (("file",), {}) == (moved.files, ground._tracked)

    many = tmp_path / "many"
    many.mkdir()
    git(many, "init", "-q", "-b", "main")
    for number in range(6_000):
        os.close(os.open(many / f"g{number}", os.O_CREAT | os.O_WRONLY))
    git(many, "add", "g0")
    assert "  (there may be others: not everything was looked at)" == git_lines(str(many))[-1]


def test_nobody_waits_for_a_pipe(tree: Path) -> None:
    """Whatever file of git's is one in a hostile clone, what can be told without it is told at once."""
    commit = git(tree, "rev-parse", "HEAD").strip()
    pack = next((tree / ".git" / "objects" / "pack").glob("*.idx"))
    places = (
        *(".gitignore", ".git/packed-refs", ".git/refs/heads/main", f".git/objects/{commit[:2]}/{commit[2:]}"),
        *(f".git/objects/pack/{pack.name}", f".git/objects/pack/{pack.stem}.pack", ".git/index", ".git/HEAD"),
    )
    for place in places:
        (tree / place).unlink(missing_ok=True)
        os.mkfifo(tree / place)
        told = git_lines(str(tree))
        assert (place, place != ".git/HEAD") == (place, "Git: on branch main" in told)
        assert Ground(str(tree)).moved() is None
