"""Pictures from files, addresses and bytes: only what models take, of a size that they take.

Floor: 0. Owns: telling pictures by their first bytes, the largest one that is read; never: fetching an address.
"""

from __future__ import annotations

import base64
import os
import stat
from typing import Final

from plait.core.errors import ConfigError, RequestTooLarge
from plait.core.messages import Image

ImageSource = Image | str | os.PathLike[str] | bytes
"""A picture, a path, an address (`http:`, `https:`, `data:`), or a file's content."""

IMAGE_BYTES_MAX: Final = 20 * 1024 * 1024
"""The largest picture that is sent to any endpoint."""
_ADDRESSES: Final = ("http://", "https://", "data:")
_TAKEN: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_NOT_TAKEN: Final = (
    (b"BM", "a BMP picture"),
    (b"II*\x00", "a TIFF picture"),
    (b"MM\x00*", "a TIFF picture"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"%PDF-", "a PDF file"),
    (b"<svg", "an SVG drawing"),
    (b"<?xml", "an XML file"),
)
_ISO_MEDIA: Final = {b"heic": "a HEIC picture", b"heix": "a HEIC picture", b"mif1": "a HEIC picture"} | {
    b"avif": "an AVIF picture",
    b"avis": "an AVIF picture",
}


def image_of(source: ImageSource) -> Image:
    """Return the picture that a path, an address, or some bytes stand for.

    Raises:
        ConfigError: the file cannot be read, or is no picture that models take.
        RequestTooLarge: it is larger than `IMAGE_BYTES_MAX`.
    """
    if isinstance(source, Image):
        return source
    if isinstance(source, bytes):
        return image_of_bytes(source)
    if isinstance(source, str) and source.lower().startswith(_ADDRESSES):
        return Image.from_url(source)
    return image_of_file(source)


def image_of_file(path: str | os.PathLike[str]) -> Image:
    """Read a picture; raise as `image_of` does."""
    name = os.fspath(path)
    try:
        data = _read(name)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"the picture {name!r} cannot be read: {reason}", hint="give the path of a file") from error
    return image_of_bytes(data, name=name)


def image_of_bytes(data: bytes, *, name: str = "") -> Image:
    """Return the picture that a file's content is, told by its first bytes; raise as `image_of` does."""
    what = f"the picture {name!r}" if name else "the picture"
    if len(data) > IMAGE_BYTES_MAX:
        raise RequestTooLarge(
            f"{what} is larger than {IMAGE_BYTES_MAX:,} bytes", hint="make it smaller; models scale pictures down"
        )
    media_type = media_type_of(data)
    if media_type is None:
        raise ConfigError(f"{what} is {_kind_of(data)}", hint="models take PNG, JPEG, GIF and WebP: convert it")
    return Image(base64.b64encode(data).decode("ascii"), media_type)


def media_type_of(data: bytes) -> str | None:
    """Return the media type of a picture that models take, None for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for start, media_type in _TAKEN if data.startswith(start)), None)


def _kind_of(data: bytes) -> str:
    if not data:
        return "empty"
    if data[4:8] == b"ftyp" and data[8:12] in _ISO_MEDIA:
        return _ISO_MEDIA[data[8:12]]
    start = data[:64].lstrip()
    return next((kind for begin, kind in _NOT_TAKEN if start.startswith(begin)), "no picture")


def _read(name: str) -> bytes:
    """Read a file, but no more of it than a picture may have."""
    # Not blocked by a pipe that nobody writes to: it is no file, and refused.
    handle = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is no file")
        return file.read(IMAGE_BYTES_MAX + 1)
