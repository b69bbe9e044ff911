"""Contents that files held before, and a file that is taken back to one of them."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from plait.core.errors import Refusal
from plait.hands.editing.versions import TakenBack, Versions, take_back
from plait.hands.workspace import Workspace
from tests.unit.hands.ground import Ground


def digest(data: bytes) -> str:
    """Return the sha256 of a content."""
    return hashlib.sha256(data).hexdigest()


def back(workspace: Workspace, path: str, data: bytes | None, expected: bytes | None) -> TakenBack:
    """Take a file back."""
    with workspace.pin(path, "write") as target:
        return take_back(target, data, expected=None if expected is None else digest(expected))


def test_contents_come_back(tmp_path: Path) -> None:
    """What was kept is there for another process, private from the first moment; the same content is kept once."""
    data = bytes(range(256)) * 100
    versions = Versions(tmp_path / "a" / "before")
    assert versions.keep(data, digest(data))
    assert versions.keep(data, digest(data))
    assert versions.keep(b"", digest(b""))

    assert [data, b""] == [Versions(tmp_path / "a" / "before").get(digest(each)) for each in (data, b"")]
    files = [*(tmp_path / "a" / "before").iterdir()]
    assert 2 == len(files)
    assert {0o600} == {stat.S_IMODE(file.stat().st_mode) for file in files}
    assert 0o700 == stat.S_IMODE((tmp_path / "a" / "before").stat().st_mode)


def test_a_damaged_or_unknown_content_is_none(tmp_path: Path) -> None:
    """A content that is not what its name says is not given out; neither is a name that is no digest."""
    versions = Versions(tmp_path)
    versions.keep(b"content", digest(b"content"))
    (tmp_path / digest(b"content")).write_bytes(b"kontent")
    (tmp_path / "secret").write_bytes(b"x")
    assert [None, None, None] == [versions.get(name) for name in (digest(b"content"), digest(b"other"), "../secret")]


def test_a_folder_that_cannot_be_written_costs_only_the_way_back(tmp_path: Path) -> None:
    """Keeping never raises; it says whether the content is there."""
    (tmp_path / "file").write_bytes(b"")
    assert not Versions(tmp_path / "file").keep(b"x", digest(b"x"))


def test_a_file_is_taken_back(ground: Ground, workspace: Workspace) -> None:
    """Byte for byte, with its mode; a second time there is nothing left to do."""
    path = ground.root / "f"
    path.write_bytes(b"new")
    path.chmod(0o751)

    assert ["restored", "already"] == [back(workspace, "f", b"\xff\r\nold", b"new") for _ in range(2)]
    assert (b"\xff\r\nold", 0o751) == (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))


def test_a_file_that_was_new_is_removed(ground: Ground, workspace: Workspace) -> None:
    """And one that is gone comes back; what was never there stays away."""
    (ground.root / "f").write_bytes(b"new")
    assert ["restored", "already"] == [back(workspace, "f", None, b"new") for _ in range(2)]
    assert not (ground.root / "f").exists()
    assert "restored" == back(workspace, "d/f", b"old", None)
    assert b"old" == (ground.root / "d" / "f").read_bytes()
    assert "already" == back(workspace, "never/there", None, b"x")
    assert not (ground.root / "never").exists()


@pytest.mark.parametrize("now", [b"somebody else's", None])
@pytest.mark.parametrize("wanted", [b"old", None])
def test_what_somebody_changed_since_is_left_alone(
    ground: Ground, workspace: Workspace, now: bytes | None, wanted: bytes | None
) -> None:
    """A file that holds anything but what was left in it is not touched."""
    path = ground.root / "f"
    if now is not None:
        path.write_bytes(now)
    expected: TakenBack = "already" if now is wanted else "changed"
    assert expected == back(workspace, "f", wanted, b"new")
    assert now == (path.read_bytes() if path.exists() else None)


def test_a_link_is_not_followed_out(ground: Ground, workspace: Workspace) -> None:
    """A name that has become a link out of the workspace is refused, and what it leads to stays."""
    outside = ground.root.parent / "elsewhere.txt"
    outside.write_bytes(b"new")
    os.symlink(outside, ground.root / "f")
    with pytest.raises(Refusal):
        back(workspace, "f", None, b"new")
    assert b"new" == outside.read_bytes()


def test_a_file_that_cannot_be_removed_is_a_refusal(
    ground: Ground, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that says no leaves the file as it was, and the refusal names it."""
    (ground.root / "f").write_bytes(b"new")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(Refusal, match="'f'"):
        back(workspace, "f", None, b"new")
    assert b"new" == (ground.root / "f").read_bytes()
