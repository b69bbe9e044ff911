"""X01, X02, X06, X07, X09: no path leads a file tool out, to what is no file, or over what a file is."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from plait.tools.answer import as_answer
from plait.tools.toolbox import Toolbox, ToolboxOptions

CANARY = "what only the user may read"
OUT: dict[str, str] = {
    "climbs": "../outside/secret",
    "climbs twice": "../../{name}/outside/secret",
    "climbs from a folder": "folder/../../outside/secret",
    "climbs from a folder that is not": "nothing/../../outside/secret",
    "climbs with dots between": "./.././outside/./secret",
    "climbs with slashes": "..//outside///secret",
    "climbs two hundred levels": "../" * 200 + "{bare}/outside/secret",
    "goes down two hundred levels and up": "folder/" * 200 + "../" * 201 + "outside/secret",
    "absolute": "{root}/outside/secret",
    "absolute by two slashes": "/{root}/outside/secret",
    "absolute through the workspace": "{root}/workspace/../outside/secret",
    "a name that begins like the workspace": "{root}/workspace-2/secret",
    "home": "~/secret",
    "home of somebody": "~root/secret",
    "home through the workspace": "~/../workspace/../outside/secret",
    "a variable": "$HOME/secret",
    "an address": "file://{root}/outside/secret",
    "NUL": "folder/file\0/../../../outside/secret",
    "NUL behind": "../outside/secret\0.txt",
    "a line end": "../outside/secret\n",
    "a blank": " ../outside/secret",
    "a component of five thousand": "x" * 5_000 + "/../../outside/secret",
    "half a character": "\ud800/../../outside/secret",
    "backslashes": "..\\outside\\secret",
    "percent signs": "%2e%2e/outside/secret",
    "wide dots": "．．/outside/secret",
    "overlong dots": "\xc0\xae\xc0\xae/outside/secret",
    "a slash that looks like one": "..∕outside∕secret",
    "the machine's list of users": "/etc/passwd",
    "the machine's root": "/",
    "above": "..",
}
LINKS: dict[str, tuple[str, str]] = {
    "a file": ("{root}/outside/secret", "link"),
    "a relative file": ("../outside/secret", "link"),
    "a directory": ("{root}/outside", "link/secret"),
    "a relative directory": ("../outside", "link/secret"),
    "above": ("..", "link/outside/secret"),
    "the root": ("/", "link{root}/outside/secret"),
    "nothing yet": ("{root}/outside/new", "link"),
    "nothing yet in a new directory": ("{root}/outside/new/deep", "link/file"),
    "a chain": ("chain", "link/secret"),
    "a chain of files": ("chained", "link"),
    "itself": ("link", "link"),
    "itself below": ("link", "link/secret"),
    "a folder and up": ("folder/../..", "link/outside/secret"),
    "its own root": ("/proc/self/root", "link{root}/outside/secret"),
    "its own folder": ("/proc/self/cwd", "link{root}/outside/secret"),
    "an open directory": ("/proc/self/fd/{fd}", "link/secret"),
    "an open directory by its other name": ("/dev/fd/{fd}", "link/secret"),
    "an open file": ("/proc/self/fd/{file}", "link"),
    "a thread's open file": ("/proc/thread-self/fd/{file}", "link"),
    "another process's root": ("/proc/1/root", "link{root}/outside/secret"),
}
MAGIC = ("/proc/self/root{root}/outside/secret", "/proc/self/fd/{fd}/secret", "/dev/fd/{file}", "/proc/self/environ")


class Place:
    """A workspace beside an outside that nothing may touch."""

    def __init__(self, root: Path) -> None:
        self.root, self.workspace = root, root / "workspace"
        for name in ("workspace/folder/file", "outside/secret", "workspace-2/secret", "home/secret"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("inside\n" if name.startswith("workspace/") else f"{CANARY}\n")
        self.fd = os.open(root / "outside", os.O_RDONLY)
        self.file = os.open(root / "outside/secret", os.O_RDONLY)
        self.before = self.outside()
        self.box = Toolbox(self.workspace, ToolboxOptions(policy="inside_only"))

    def outside(self) -> dict[str, object]:
        """Return what stands beside the workspace."""
        return {
            str(path): (path.is_file() and path.read_bytes(), path.lstat().st_mode, path.lstat().st_mtime_ns)
            for place in ("outside", "workspace-2", "home")
            for path in (self.root / place).rglob("*")
        }

    def path(self, text: str) -> str:
        """Return a path with its names filled in."""
        bare = str(self.root).lstrip("/")
        return text.format(root=self.root, name=self.root.name, bare=bare, fd=self.fd, file=self.file)

    def close(self) -> None:
        """Let go of everything."""
        self.box.close()
        os.close(self.fd)
        os.close(self.file)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Return a workspace with an outside; the home is outside, too."""
    made = Place(tmp_path.resolve())
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield made
    made.close()


def everything(box: Toolbox, path: str) -> dict[str, str]:
    """Have every file tool do its work at a path; return what was said."""
    patch = "*** Begin Patch\n{}\n*** End Patch"
    acts: dict[str, Callable[[], object]] = {
        "read": lambda: box.read_file(path),
        "info": lambda: box.file_info(path),
        "list": lambda: box.list_dir(path),
        "glob": lambda: box.glob("*", path),
        "glob by pattern": lambda: box.glob(f"{path}*"),
        "search": lambda: box.search_files("only the user", path),
        "replace": lambda: box.str_replace(path, "what", "changed"),
        "edit": lambda: box.edit_file(path, "what", "changed"),
        "patch": lambda: box.patching.apply_patch(patch.format(f"*** Update File: {path}\n@@\n-{CANARY}\n+changed")),
        "move": lambda: box.patching.apply_patch(
            patch.format(f"*** Update File: folder/file\n*** Move to: {path}\n@@\n-inside\n+moved")
        ),
        "delete": lambda: box.patching.apply_patch(patch.format(f"*** Delete File: {path}")),
        "add": lambda: box.patching.apply_patch(patch.format(f"*** Add File: {path}\n+new")),
        "write": lambda: box.write_file(path, "new\n"),
        "write below": lambda: box.write_file(f"{path}/below/file", "new\n"),
    }
    return {name: as_answer(act())[0] for name, act in acts.items()}  # type: ignore[arg-type]


def untouched(place: Place, said: dict[str, str]) -> bool:
    """Say whether nothing outside was changed, and nothing of it told."""
    assert place.before == place.outside()
    assert [] == [name for name, text in said.items() if CANARY in text or "secret:" in text]
    return True


@pytest.mark.parametrize("name", OUT)
def test_x01_a_path_that_leads_out(name: str, place: Place) -> None:
    """Whatever a tool was to do at it, nothing outside is read, listed, made or changed."""
    said = everything(place.box, place.path(OUT[name]))

    assert untouched(place, said)


@pytest.mark.parametrize("name", LINKS)
def test_x02_a_link_that_leads_out(name: str, place: Place) -> None:
    """Links of files and directories, chains, loops and the magic ones of the kernel."""
    target, path = LINKS[name]
    (place.workspace / "chain").symlink_to(place.root / "outside")
    (place.workspace / "chained").symlink_to("chain/secret")
    (place.workspace / "link").symlink_to(place.path(target))

    said = everything(place.box, place.path(path))

    assert untouched(place, said)
    assert said["read"].startswith("ERROR")
    assert said["write"].startswith("ERROR")


@pytest.mark.parametrize("path", MAGIC)
def test_x02_the_kernels_own_names_lead_nowhere(path: str, place: Place) -> None:
    """What a process has open, or is in, is no place of the workspace."""
    said = everything(place.box, place.path(path))

    assert untouched(place, said)
    assert said["read"].startswith("ERROR")


def test_x02_a_change_goes_to_the_name_and_not_to_its_twin(place: Place) -> None:
    """A hard link to a file outside is read as what it is; whatever changes it leaves the file outside as it was."""
    os.link(place.root / "outside/secret", place.workspace / "twin")
    before = (place.root / "outside/secret").read_text()

    for act in (lambda: place.box.str_replace("twin", "what", "x"), lambda: place.box.write_file("twin", "x")):
        assert not as_answer(act())[0].startswith("ERROR")

    assert before == (place.root / "outside/secret").read_text()


def pipe(path: Path, _: ExitStack) -> None:
    """Make a pipe that nobody writes to."""
    os.mkfifo(path)


def local_socket(path: Path, stack: ExitStack) -> None:
    """Make a socket."""
    made = stack.enter_context(socket.socket(socket.AF_UNIX))
    here = os.getcwd()
    os.chdir(path.parent)  # its name may be no longer than a hundred bytes
    try:
        made.bind(path.name)
    finally:
        os.chdir(here)


def device(path: Path, _: ExitStack) -> None:
    """Make a device without an end."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except OSError:
        pytest.skip("only root makes devices")


def terabyte(path: Path, _: ExitStack) -> None:
    """Make a file of a terabyte that takes no room."""
    try:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    except OSError:
        pytest.skip("the file system has no such files")


def growing(path: Path, stack: ExitStack) -> None:
    """Make a file that grows as long as it is looked at."""
    stop = threading.Event()

    def grow() -> None:
        with path.open("ab") as file, suppress(OSError):
            while not stop.wait(0.0005):
                file.write(b"line\n" * 2_000)
                file.flush()

    path.write_text("line\n")
    thread = threading.Thread(target=grow)
    thread.start()
    stack.callback(thread.join)
    stack.callback(stop.set)


@pytest.mark.parametrize("make", [pipe, local_socket, device, terabyte])
def test_x06_what_is_no_file_or_has_no_end_is_refused(make: Callable[[Path, ExitStack], None], place: Place) -> None:
    """Neither is it read nor written to, and nothing hangs; a search passes it over."""
    with ExitStack() as stack:
        make(place.workspace / "odd", stack)
        kind = (place.workspace / "odd").lstat().st_mode

        said = [place.box.read_file("odd"), place.box.str_replace("odd", "a", "b")]
        if make is not terabyte:
            said.append(place.box.write_file("odd", "x"))

        assert ["ERROR"] * len(said) == [as_answer(reply)[0][:5] for reply in said]
        assert "inside" in as_answer(place.box.search_files("inside"))[0]
        assert kind == (place.workspace / "odd").lstat().st_mode


@pytest.mark.parametrize("path", ["/dev/tty", "/dev/zero", "/dev/random", "/dev/stdin", "/dev/full", "/proc/kmsg"])
def test_x06_devices_of_the_machine_are_no_files(path: str, place: Place) -> None:
    """Also through a link, and where reading outside is allowed."""
    (place.workspace / "link").symlink_to(path)
    free = Toolbox(place.workspace, ToolboxOptions(policy="read_outside"))
    for box, name in ((place.box, path), (place.box, "link"), (free, path), (free, "link")):
        assert as_answer(box.read_file(name))[0].startswith("ERROR"), name
    free.close()


def test_x06_a_file_that_grows_is_read_to_where_it_was(place: Place) -> None:
    """The answer has an end, though the file has none."""
    with ExitStack() as stack:
        growing(place.workspace / "odd", stack)
        text, data = as_answer(place.box.read_file("odd"))

    assert text.startswith("line\n")
    assert data["total_lines"] > 0


NAMES = (
    *("CON", "NUL", "aux.txt", "COM1", "LPT1.txt", "C:\\Windows\\x", "C:x", "\\\\server\\share\\x", "\\\\?\\C:\\x"),
    *("file.txt:stream", "file::$DATA", "PROGRA~1", "name.", "name ", " name", "name\t", "FOLDER", "Folder/FILE"),
    *("cafe\u0301", "caf\u00e9", "ﬁle", "..．", "...", ".. ", "..\u200b", "a\u202egpj.exe", "-rf", "--help", "*", "?"),
)


@pytest.mark.parametrize("name", NAMES)
def test_x07_a_name_of_another_system_is_a_name_or_refused(name: str, place: Place) -> None:
    """What is written under it is read under it, is in the workspace, and is no other file's twin."""
    before = {path.name for path in place.workspace.rglob("*")}
    text, _ = as_answer(place.box.write_file(name, "mine"))

    made = {path.name for path in place.workspace.rglob("*")} - before
    assert place.before == place.outside()
    if not text.startswith("ERROR"):
        assert "mine" == as_answer(place.box.read_file(name))[0].strip()
        assert name.split("/")[-1] in made
    assert "inside\n" == (place.workspace / "folder/file").read_text()


@pytest.mark.parametrize("content", [b"one\ntwo\n", b"one\r\ntwo\r\n", b"\xef\xbb\xbfone\ntwo", b"one\xff\ntwo\n"])
@pytest.mark.parametrize("mode", [0o600, 0o755, 0o2640])
def test_x09_an_edit_changes_the_content_and_nothing_else(content: bytes, mode: int, place: Place) -> None:
    """Mode, owner, extended attributes, line ends, marks and odd bytes stay; no stray file is left."""
    path = place.workspace / "folder/file"
    path.write_bytes(content)
    if os.geteuid() == 0:
        os.chown(path, 12, 34)
    path.chmod(mode)
    with suppress(OSError):
        os.setxattr(path, "user.note", b"kept")
    before = path.stat()

    text, _ = as_answer(place.box.str_replace("folder/file", "two", "2"))

    after = path.stat()
    assert not text.startswith("ERROR")
    assert content.replace(b"two", b"2") == path.read_bytes()
    assert (before.st_mode, before.st_uid, before.st_gid) == (after.st_mode, after.st_uid, after.st_gid)
    with suppress(OSError):
        assert b"kept" == os.getxattr(path, "user.note")
    assert ["file"] == os.listdir(path.parent)
