"""Names that programs outside a fence obey: kept in every repository, put aside where a command has made them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from plait.core.errors import Refusal
from plait.hands.command import Command, RunOptions
from plait.hands.fence.fence import open_fence
from plait.hands.fence.files import FencedFiles
from plait.hands.fence.obeyed import ASIDE, Watch
from plait.hands.fence.policy import PROTECTED, SandboxPolicy
from plait.hands.fence.repositories import Repositories
from plait.hands.process import run
from plait.hands.workspace import Workspace


def git(*arguments: str, cwd: Path) -> None:
    subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments], cwd=cwd, check=True, capture_output=True, timeout=60
    )


@pytest.fixture
def repository(workspace: Path) -> Path:
    """A repository with another one in it that an editor has settings in, a submodule and a linked worktree."""
    for place in (workspace, workspace / "lib/inner", workspace.parent / "origin"):
        git("init", "-q", str(place), cwd=workspace)
        git("-c", "user.name=u", "-c", "user.email=e@x", "commit", "-q", "--allow-empty", "-m", "first", cwd=place)
    git("submodule", "add", "-q", "../origin", "module", cwd=workspace)
    git("worktree", "add", "-q", "tree", cwd=workspace)
    (workspace / "lib/inner/.vscode").mkdir()
    (workspace / "lib/inner/.vscode/tasks.json").write_text("{}")
    return workspace


def fenced(root: Path, *lines: str) -> str:
    """Run each line inside a fence, in one shell; return all that they print."""
    fence = open_fence(SandboxPolicy(root))
    command = "; ".join(f"({line}) 2>&1" for line in lines)
    options = RunOptions(cwd=str(root), environment={"PATH": "/usr/bin:/bin", "LANG": "C"}, timeout_s=60, fence=fence)
    return run(Command.shell(command), options).output.bounded().text


def test_every_repository_inside_keeps_what_is_obeyed(repository: Path) -> None:
    """Settings, hooks, pointers of worktrees and submodules, an editor's tasks; the ordinary work of git goes on."""
    attempts = [
        "echo x >> lib/inner/.git/config",
        "echo x > lib/inner/.git/hooks/pre-commit",
        "mv lib/inner/.git lib/inner/old",
        "echo x > lib/inner/.vscode/tasks.json",
        "rm -rf lib/inner/.vscode",
        "echo gitdir: /tmp/evil > module/.git",
        "rm module/.git",
        "echo /tmp/evil > .git/worktrees/tree/commondir",
        "echo gitdir: /tmp/evil > tree/.git",
    ]
    said = fenced(repository, *(f"{attempt} && echo DONE" for attempt in attempts))
    assert "DONE" not in said
    work = "git -c user.name=u -c user.email=e@x commit -q -m more && echo DONE"
    places = [f"cd {place} && touch new && git add new && {work}" for place in ("lib/inner", ".")]
    assert 2 == fenced(repository, *places).count("DONE")
    assert "{}" == (repository / "lib/inner/.vscode/tasks.json").read_text()


def test_what_a_command_made_is_put_aside_and_a_new_repository_is_told(repository: Path) -> None:
    """Renamed where it stands, whatever it is; what was there before, and what a policy does not know, stays."""
    subject = Watch(SandboxPolicy(repository), repositories := Repositories(str(repository)))
    assert () == subject.settle().aside
    (repository / f".envrc{ASIDE}").write_text("of the user")
    fenced(
        repository,
        "mkdir .husky && echo x > .husky/pre-commit",
        "ln -s /etc/passwd .envrc",
        "mkdir -p lib/inner/.github/workflows .vscode-not; touch lib/inner/.envrc",
        "echo x > .git/commondir",
        "git init -q made/here",
    )
    made = subject.settle()
    assert ("made/here/.git",) == made.left
    assert {
        ".husky": f".husky{ASIDE}",
        ".envrc": f".envrc{ASIDE}-2",
        ".git/commondir": f".git/commondir{ASIDE}",
        "lib/inner/.envrc": f"lib/inner/.envrc{ASIDE}",
        "lib/inner/.github/workflows": f"lib/inner/.github/workflows{ASIDE}",
    } == dict(made.aside)
    assert "x\n" == (repository / f".husky{ASIDE}/pre-commit").read_text()
    assert (repository / f".envrc{ASIDE}-2").is_symlink()
    assert "of the user" == (repository / f".envrc{ASIDE}").read_text()
    assert not any((repository / name).exists() for name, _ in made.aside)
    assert not Watch(SandboxPolicy(repository), repositories).settle().left
    git("status", cwd=repository)


def test_a_new_repository_in_the_workspace_itself_is_ordinary_work(workspace: Path) -> None:
    """`git init` is told of and left; what else it brings is put aside."""
    subject = Watch(SandboxPolicy(workspace), Repositories(str(workspace)))
    fenced(workspace, "git init -q . && mkdir -p .git/hooks .claude && touch .claude/settings.json")
    made = subject.settle()
    assert {".git/config", ".git/hooks", ".git/info"} == set(made.left)
    assert ((".claude", f".claude{ASIDE}"),) == made.aside


def test_a_link_on_the_way_leads_nothing_aside(workspace: Path) -> None:
    """What stands beyond a link is not renamed: it is told of."""
    outside = workspace.parent / "outside/workflows"
    outside.mkdir(parents=True)
    subject = Watch(SandboxPolicy(workspace), Repositories(str(workspace)))
    (workspace / ".github").symlink_to(outside.parent)
    made = subject.settle()
    assert ((".github/workflows",), ()) == (made.left, made.aside)
    assert outside.is_dir()


def test_what_was_there_before_can_be_kept_and_read_back(workspace: Path) -> None:
    """A job's end is told by another process than its beginning."""
    policy, repositories = SandboxPolicy(workspace), Repositories(str(workspace))
    (workspace / ".envrc").write_text("")
    told = Watch(policy, repositories).to_dict()
    (workspace / ".husky").mkdir()
    made = Watch(policy, Repositories(str(workspace)), told).made()
    assert ((".husky",), ()) == (made.left, made.aside)
    assert (workspace / ".husky").is_dir()


@pytest.mark.parametrize("path", ["sub/.envrc", "sub/.vscode/tasks.json", "sub/.github/workflows/new/ci.yml"])
def test_file_tools_keep_them_in_a_nested_repository_too(tmp_path: Path, path: str) -> None:
    """Also where they do not exist yet; in a folder that is no repository the name means nothing."""
    (tmp_path / "sub/.git").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    policy = SandboxPolicy(tmp_path, read_only_paths=("vendor",))
    place, rules = Workspace(tmp_path), FencedFiles.over(policy, str(tmp_path))
    with pytest.raises(Refusal, match="kept as it is in the sandbox: programs outside obey"):
        rules.check(place.pin(path, "write"))
    with pytest.raises(Refusal, match="kept as it is in the sandbox: whoever set it up says so"):
        rules.check(place.pin("vendor/x", "write"))
    for free in (path.replace("sub", "other"), "sub/src/.vscode/tasks.json", "sub/.github/notes"):
        pinned = place.pin(free, "write")
        rules.check(pinned)
        pinned.close()
    place.close()


def test_no_number_of_repositories_leaves_a_workspace_without_a_fence(workspace: Path) -> None:
    """More names than bubblewrap can be told are kept by the folders that they lie in; what is beside them is free."""
    for number in range(400):
        for name in PROTECTED if number < 300 else (".git/config",):
            (workspace / f"many/{number}/{name}").mkdir(parents=True)

    said = fenced(workspace, "echo x > many/7/.git/hooks/pre-commit", "echo x > many/7/new", "echo x > beside")
    assert 2 == said.count("Read-only file system")
    assert ["beside"] == [path.name for path in workspace.iterdir() if path.is_file()]
