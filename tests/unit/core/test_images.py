"""Pictures from files, addresses and bytes."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from plait.core import images
from plait.core.errors import ConfigError, RequestTooLarge
from plait.core.images import IMAGE_BYTES_MAX, image_of, media_type_of
from plait.core.messages import Image

PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n....",
    "image/jpeg": b"\xff\xd8\xff\xe0....",
    "image/gif": b"GIF89a....",
    "image/webp": b"RIFF\x10\x00\x00\x00WEBPVP8 ",
}
OTHERS = {
    "empty": b"",
    "a BMP picture": b"BM......",
    "a TIFF picture": b"II*\x00....",
    "a HEIC picture": b"\x00\x00\x00\x18ftypheic",
    "an AVIF picture": b"\x00\x00\x00\x18ftypavif",
    "an SVG drawing": b"  <svg xmlns='x'>",
    "a PDF file": b"%PDF-1.7",
    "no picture": b"hello",
    "an icon": b"\x00\x00\x01\x00....",
}


@pytest.mark.parametrize("media_type", PICTURES)
def test_a_picture_is_told_by_its_content(media_type: str, tmp_path: Path) -> None:
    """Whatever the file is called, its first bytes say what it is; bytes and paths come to the same picture."""
    data = PICTURES[media_type]
    path = tmp_path / "picture.txt"
    path.write_bytes(data)

    expected = Image(base64.b64encode(data).decode(), media_type)
    assert [expected] * 4 == [image_of(data), image_of(path), image_of(str(path)), image_of(expected)]


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_picture_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    """A format that models do not take is named, with the file, and what to do."""
    path = tmp_path / "it.png"
    path.write_bytes(OTHERS[kind])

    with pytest.raises(ConfigError, match=rf"it\.png' is {kind}$") as told:
        image_of(path)
    assert "PNG, JPEG, GIF and WebP" in told.value.hint
    with pytest.raises(ConfigError, match=f"^the picture is {kind}$"):
        image_of(OTHERS[kind])


def test_addresses_stay_addresses() -> None:
    """An address is fetched by the provider; a `data:` URI is the picture itself, and anything else is a path."""
    assert Image("https://x/a.png", kind="url") == image_of("https://x/a.png")
    assert Image("HTTP://x/a.png", kind="url") == image_of("HTTP://x/a.png")
    assert Image("QQ==", "image/gif") == image_of("data:image/gif;base64,QQ==")
    assert Image("data:,hi", kind="url") == image_of("data:,hi")
    with pytest.raises(ConfigError, match=r"'ftp://x/a\.png' cannot be read"):
        image_of("ftp://x/a.png")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file, a folder, a pipe and a name that is none are told as what they are; nothing is waited for."""
    os.mkfifo(tmp_path / "pipe")
    found = []
    for name in ("gone.png", ".", "pipe"):
        with pytest.raises(ConfigError) as told:
            image_of(tmp_path / name)
        found.append(told.value.message.rpartition(": ")[2])

    assert ["No such file or directory", "Is a directory", "it is no file"] == found
    with pytest.raises(ConfigError, match="cannot be read"):
        image_of("a\0b.png")


def test_a_picture_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing beyond the limit is read or sent; at the limit it is."""
    monkeypatch.setattr(images, "IMAGE_BYTES_MAX", 12)
    fits, large = tmp_path / "fits.png", tmp_path / "large.png"
    fits.write_bytes(PICTURES["image/png"])
    large.write_bytes(PICTURES["image/png"] + b"!")

    assert 12 == image_of(fits).size_bytes
    with pytest.raises(RequestTooLarge, match=r"large\.png' is larger than 12 bytes"):
        image_of(large)
    assert 20 * 1024 * 1024 == IMAGE_BYTES_MAX
    assert None is media_type_of(b"RIFF....WAVE")
