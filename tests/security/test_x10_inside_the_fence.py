"""X08, X10 to X14: what a command tries behind a fence, in bash; the same lines work where there is no fence."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from plait.hands.capture import CaptureLimits
from plait.hands.command import Command, RunOptions
from plait.hands.environment import child_environment
from plait.hands.fence.fence import open_fence
from plait.hands.fence.policy import SandboxPolicy
from plait.hands.process import run
from plait.hands.process_tree import Tree
from tests.security.fence_attacks import ENVIRONMENT, NETWORK, POWERS, REACHED, READS, SYSTEM, WRITES

LINES = {"read": READS, "write": WRITES, "system": SYSTEM, "network": NETWORK, "power": POWERS}
ALL = [(kind, name) for kind, lines in LINES.items() for name in lines]
HOME = (
    *(".ssh/id_ed25519", ".ssh/authorized_keys", ".aws/credentials", ".config/gh/hosts.yml", ".netrc", ".bashrc"),
    *(".bash_history", ".gitconfig", ".mozilla/firefox/p/cookies.sqlite"),
)
NAME = "a-name-that-nothing-else-has"


@dataclass(frozen=True)
class World:
    """A workspace, and around it what its commands want to have."""

    root: Path
    targets: Mapping[str, object]

    def line(self, kind: str, name: str) -> str:
        """Return a line with its targets."""
        return re.sub(r"@(\w+)@", lambda found: str(self.targets[found[1]]), LINES[kind][name])

    def script(self, lines: Iterable[tuple[str, str]], where: str) -> str:
        """Return lines as one program, which says what came of each; each has a folder of its own."""
        return "\n".join(
            f"echo; echo {shlex.quote(f'== {kind}: {name}')}; (mkdir {where}-{n} && cd {where}-{n} && "
            f"eval {shlex.quote(self.line(kind, name))}) 2>/dev/null </dev/null"
            for n, (kind, name) in enumerate(lines)
        )

    def state(self) -> dict[str, object]:
        """Return what stands outside, with content, rights and times."""
        return {
            str(path): (path.is_file() and path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
            for place in (self.root / "outside", self.root / "home")
            for path in sorted(place.rglob("*"))
        }


def fill(root: Path) -> None:
    """Make the files of a world."""
    for path in ("workspace/", f"outside/{NAME}", "outside/secret", *(f"home/{name}" for name in HOME)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if not path.endswith("/"):
            (root / path).write_text("canary\n")
    (root / "workspace").mkdir(exist_ok=True)


def own_address() -> str:
    """Return an address of this machine that others would use, where it has one."""
    told = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    return next((address for address in told if "." in address), "127.0.0.1")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Make a world, with a process and addresses that listen; the temporary folder is one that everybody has."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plait-fence-"))).resolve()
        fill(root)
        beside = stack.enter_context(tempfile.TemporaryDirectory(prefix="plait-beside-"))
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        everywhere = stack.enter_context(socket.create_server(("0.0.0.0", 0)))
        tcp6 = tcp
        with suppress(OSError):  # not every machine has it
            tcp6 = stack.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        abstract = f"plait-test-{os.urandom(8).hex()}"
        for address in (f"{root}/outside/socket", "\0" + abstract):
            peer = stack.enter_context(socket.socket(socket.AF_UNIX))
            peer.bind(address)
            peer.listen(8)
        held = stack.enter_context((root / "outside/secret").open())
        victim = subprocess.Popen(["sleep", "600"], env={"VICTIM_CANARY": "canary"}, cwd=root / "workspace", stdin=held)
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        targets = {"secret": f"{root}/outside/secret", "outside": f"{root}/outside", "home": f"{root}/home"}
        targets |= {
            "root": str(root),
            "name": NAME,
            "pid": str(victim.pid),
            "temporary": Path(beside).name,
            "address": own_address(),
        }
        targets |= {"unix": f"{root}/outside/socket", "abstract": abstract}
        for name, server in (("tcp", tcp), ("tcp_any", everywhere), ("tcp6", tcp6), ("udp", udp)):
            targets[name] = str(server.getsockname()[1])
        yield World(root, targets)
        with pytest.raises(BlockingIOError):
            udp.recv(1)


def ran(world: World, script: str, *, is_fenced: bool) -> dict[str, str]:
    """Run lines and return what each printed."""
    fence = open_fence(SandboxPolicy(world.root / "workspace")) if is_fenced else None
    added = ENVIRONMENT if is_fenced else ("DISPLAY",)
    environment = {**os.environ, **dict.fromkeys(added, "canary"), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    options = RunOptions(
        cwd=str(world.root / "workspace"),
        environment=environment if fence is None else fence.environment(child_environment(environment)),
        timeout_s=60,
        limits=CaptureLimits(head_bytes=200_000),
        fence=fence,
    )
    done = run(Command(("/bin/bash", "-c", script)), options)
    parts = re.split(r"^== (.*)$", done.output.head, flags=re.M)[1:]
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))


@pytest.fixture(scope="module")
def said(world: World) -> dict[str, str]:
    """Try every line behind the fence, once; afterwards nothing outside may be another."""
    before = world.state()
    printed = ran(world, world.script(ALL, "fenced") + "\necho '== environment'\nenv", is_fenced=True)
    printed["changed outside"] = "\n".join(path for path, what in world.state().items() if before.get(path) != what)
    printed["gone outside"] = "\n".join(before.keys() - world.state().keys())
    return printed


@pytest.mark.parametrize("kind, name", ALL)
def test_a_line_gets_nothing(kind: str, name: str, said: dict[str, str]) -> None:
    """X10, X11, X12: neither what is outside, nor the network, nor power over the machine."""
    assert [] == [line for line in said[f"{kind}: {name}"].splitlines() if line.startswith("GOT")]
    assert ("", "") == (said["changed outside"], said["gone outside"])


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_a_variable_stays_outside(name: str, said: dict[str, str]) -> None:
    """X14: what makes programs load something, leads to a service or is a secret."""
    assert f"{name}=canary" not in said["environment"].splitlines()


def test_without_a_fence_the_lines_get_what_they_want(world: World) -> None:
    """So that it is the fence which refuses, and not a mistake in the line."""
    lines = [*(("read", name) for name in READS), *(("network", name) for name in REACHED)]

    printed = ran(world, world.script(lines, "free"), is_fenced=False)

    assert [] == [name for name, text in printed.items() if "GOT" not in text]


def test_without_a_fence_the_lines_change_what_is_outside(tmp_path: Path) -> None:
    """Each by itself: whatever it does to what is there, another could not do it."""
    for number, name in enumerate(WRITES):
        root = tmp_path / str(number)
        fill(root)
        (root / "workspace/here").mkdir()
        targets = {"secret": f"{root}/outside/secret", "outside": f"{root}/outside", "home": f"{root}/home"}
        world = World(root, targets)
        before = world.state()
        subprocess.run(["bash", "-c", world.line("write", name)], cwd=root / "workspace/here", timeout=10, check=False)
        assert before != world.state(), name


CONTROLLER = """
import os, sys
from plait.hands.command import Command, RunOptions
from plait.hands.environment import child_environment
from plait.hands.fence.fence import open_fence
from plait.hands.fence.policy import SandboxPolicy
from plait.hands.process import run
fence = open_fence(SandboxPolicy(sys.argv[1]))
line = "trap '' TERM HUP INT; (setsid sh -c 'sleep 600 & sleep 600' &); echo ready; sleep 600 & wait"
environment = fence.environment({"PATH": "/usr/bin:/bin"})
say = lambda text, stream: print(text, flush=True)
options = RunOptions(
    cwd=sys.argv[1], environment=environment, timeout_s=60, mark=sys.argv[2], fence=fence, on_output=say
)
run(Command.shell(line), options)
"""


def test_a_fence_ends_with_whoever_opened_it(tmp_path: Path) -> None:
    """X13: killed without a word, the controller leaves no command behind, whatever it ignores and detaches."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    mark = os.urandom(8).hex()
    argv = [sys.executable, "-c", CONTROLLER, tmp_path, mark]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as controller:
        assert controller.stdout is not None
        assert b"ready\n" == controller.stdout.readline()
        tree = Tree(0, mark)
        assert tree.members()
        controller.kill()
        is_dead = tree.wait_until_dead(2)

    assert is_dead, tree.members()
