"""A repository's parts are used only as its user has seen them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from plait.config.repository_parts import PART_BYTES_MAX, parts_of
from plait.config.trust import TrustStore
from plait.core.errors import ConfigError, TrustRequired


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A clone with a hook, a server and settings of its own."""
    root = tmp_path / "clone"
    (root / ".git").mkdir(parents=True)
    (root / ".plait" / "hooks").mkdir(parents=True)
    script = root / ".plait" / "hooks" / "stop.sh"
    script.write_text("#!/bin/sh\necho one\n")
    script.chmod(0o755)
    (root / ".mcp.json").write_text('{"mcpServers": {}}')
    (root / "plait.toml").write_text('endpoint = "http://127.0.0.1:1/v1"\n')
    (root / "src").mkdir()
    (root / "src" / "main.py").write_text("print(1)\n")
    return root


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    """An empty list."""
    return TrustStore(tmp_path / "state" / "trust.json")


def test_nothing_is_trusted_until_somebody_says_so(repository: Path, store: TrustStore) -> None:
    """A repository with parts needs a yes; with it it is trusted from any of its folders, and without it again not."""
    before = store.look(repository)
    assert (True, False) == (before.is_needed, before.is_trusted)
    store.trust(before.now)
    again = TrustStore(store.path)
    assert again.look(repository / "src").is_trusted
    assert (str(repository),) == again.roots()
    assert again.revoke(repository / "src")
    assert (False, False) == (again.look(repository).is_trusted, again.revoke(repository))


def test_a_repository_without_parts_needs_no_trust(tmp_path: Path, store: TrustStore) -> None:
    """What runs nothing is asked about never."""
    (tmp_path / "plain" / ".git").mkdir(parents=True)
    assert not store.look(tmp_path / "plain").is_needed


@pytest.mark.parametrize(
    "change, kind, shown",
    [
        (lambda root: (root / ".plait/hooks/stop.sh").write_text("#!/bin/sh\nrm -rf x\n"), "changed", "+rm -rf x"),
        (lambda root: (root / ".plait/hooks/stop.sh").chmod(0o644), "mode", ""),
        (lambda root: (root / ".plait/hooks/stop.sh").unlink(), "gone", "-echo one"),
        (lambda root: (root / ".plait/hooks/more.sh").write_text("evil\n"), "new", "+evil"),
        (lambda root: (root / ".codex").mkdir() or (root / ".codex/hooks.json").write_text("{}"), "new", "+{}"),
        (lambda root: (root / "plait.toml").write_text('endpoint = "http://evil/"\n'), "changed", "+endpoint"),
    ],
    ids=["changed", "mode", "gone", "new hook", "new file", "settings"],
)
def test_a_change_asks_again_and_is_shown(
    repository: Path, store: TrustStore, change: object, kind: str, shown: str
) -> None:
    """Any byte, name or right that changes ends the trust, and the difference is told."""
    store.trust(store.look(repository).now)
    change(repository)  # type: ignore[operator]
    standing = store.look(repository)
    assert not standing.is_trusted
    (told,) = standing.changes()
    assert kind == told.kind
    assert shown in told.diff


def test_other_files_change_nothing(repository: Path, store: TrustStore) -> None:
    """Trust is about what runs; the work on the code goes on."""
    store.trust(store.look(repository).now)
    (repository / "src" / "main.py").write_text("print(2)\n")
    (repository / ".plait" / "hooks" / "__pycache__").mkdir()
    (repository / ".plait" / "hooks" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert store.look(repository).is_trusted


def test_trust_does_not_spread(repository: Path, store: TrustStore, tmp_path: Path) -> None:
    """Neither to a repository inside a trusted one, nor to a copy, nor through a link to another name."""
    store.trust(store.look(repository).now)
    inner = repository / "vendor"
    (inner / ".git").mkdir(parents=True)
    (inner / ".mcp.json").write_text("{}")
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(repository), str(copy)], check=True)
    (tmp_path / "link").symlink_to(repository)
    standings = [store.look(place).is_trusted for place in (inner, copy, tmp_path / "link")]
    assert [False, False, True] == standings


@pytest.mark.parametrize(
    "plant, said",
    [
        (lambda root, out: (root / ".mcp.json").unlink() or (root / ".mcp.json").symlink_to(out), "is a link"),
        (lambda root, out: (root / ".claude").symlink_to(out.parent), "lies behind the link .claude"),
        (lambda root, out: (root / ".plait/hooks/x.sh").symlink_to(out), "is a link"),
        (lambda root, out: (root / ".plait/plugins").symlink_to(out.parent), "is a link"),
        (lambda root, out: os.mkfifo(root / ".plait/hooks/pipe"), "no ordinary file"),
        (lambda root, out: (root / ".plait/hooks/stop.sh").chmod(0o777), "written by everybody"),
        (lambda root, out: (root / "plait.toml").write_bytes(b" " * (PART_BYTES_MAX + 1)), "is larger than"),
        (lambda root, out: (root / ".plait/hooks" / "/".join("d" * 20)).mkdir(parents=True), "inside each other"),
    ],
    ids=["link", "link above", "linked hook", "linked folder", "pipe", "rights", "size", "depth"],
)
def test_what_cannot_be_held_to_its_word_is_not_trusted(
    repository: Path, store: TrustStore, tmp_path: Path, plant: object, said: str
) -> None:
    """Links, pipes, everybody's files and files without measure are named, and no yes makes them trusted."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "settings.json").write_text("{}")
    plant(repository, tmp_path / "outside" / "settings.json")  # type: ignore[operator]
    standing = store.look(repository)
    assert [True] == [said in fault for fault in standing.now.faults]
    with pytest.raises(ConfigError, match="cannot be trusted"):
        store.trust(standing.now)
    assert not store.look(repository).is_trusted


def test_a_part_is_read_as_it_was_looked_at(repository: Path) -> None:
    """Whoever uses a part gets the bytes that were trusted, or an error that names it; nothing else is a part."""
    parts = parts_of(repository)
    script = repository / ".plait/hooks/stop.sh"
    assert b"#!/bin/sh\necho one\n" == parts.read(script) == parts.read(".plait/hooks/stop.sh")
    script.write_text("#!/bin/sh\necho two\n")
    for name in (script, ".plait/hooks/gone.sh", repository / "src/main.py", "/etc/passwd", "../elsewhere"):
        with pytest.raises(TrustRequired):
            parts.read(name)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"version": 2, "trusted": {}}', b"\xff", b'{"version": 1}'])
def test_a_damaged_list_trusts_nothing_and_says_so(repository: Path, store: TrustStore, content: bytes) -> None:
    """A list that cannot be read is a mistake with a name, and is never written over."""
    store.path.parent.mkdir()
    store.path.write_bytes(content)
    for attempt in (lambda: store.look(repository), lambda: store.trust(parts_of(repository)), store.roots):
        with pytest.raises(ConfigError, match=r"trust\.json"):
            attempt()
    assert content == store.path.read_bytes()


def test_an_entry_that_was_changed_by_hand_trusts_nothing(repository: Path, store: TrustStore) -> None:
    """The digest of an entry is over its parts: neither can be changed alone."""
    store.trust(store.look(repository).now)
    told = json.loads(store.path.read_text())
    told["trusted"][str(repository)]["parts"][0]["sha256"] = "0" * 64
    store.path.write_text(json.dumps(told))
    with pytest.raises(ConfigError, match="is damaged"):
        store.look(repository)


def test_the_list_is_its_users_alone(repository: Path, store: TrustStore) -> None:
    """Whatever the umask, nobody else can read or write it."""
    old = os.umask(0)
    try:
        store.trust(store.look(repository).now)
    finally:
        os.umask(old)
    modes = [path.stat().st_mode & 0o777 for path in (store.path, store.path.parent)]
    assert [0o600, 0o700] == modes


def test_many_at_once_lose_nothing(tmp_path: Path, store: TrustStore) -> None:
    """Each yes is kept, whoever else says one at the same time."""
    roots = [tmp_path / f"r{number}" for number in range(8)]
    for root in roots:
        (root / ".git").mkdir(parents=True)
        (root / ".mcp.json").write_text("{}")
    threads = [
        threading.Thread(target=lambda root=root: TrustStore(store.path).trust(parts_of(root))) for root in roots
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tuple(sorted(map(str, roots))) == store.roots()


HOSTILE = """
import sys
seen = []
sys.addaudithook(lambda event, args: seen.append((event, args)) if event in (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "socket.getaddrinfo",
    "exec", "import") else None)
from pathlib import Path
from plait.config.trust import TrustStore
del seen[:]
standing = TrustStore(Path(sys.argv[2])).look(sys.argv[1])
assert standing.is_needed
print([event for event, args in seen if event != "import" and not (event == "exec")])
"""


def test_looking_at_a_hostile_clone_starts_nothing(repository: Path, store: TrustStore) -> None:
    """No process, no address, whatever its hooks, its servers and git's own configuration would start."""
    (repository / ".git" / "config").write_text(
        '[core]\n\tfsmonitor = touch /nowhere\n\thooksPath = evil\n\tsshCommand = evil\n[filter "x"]\n\tclean = evil\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(repository), str(store.path)], capture_output=True, text=True, timeout=60
    )
    assert ("", "[]\n") == (done.stderr, done.stdout)
