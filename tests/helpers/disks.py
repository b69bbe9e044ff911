"""A file system of a few kilobytes, to meet "no space left on device" for real."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount an empty file system of `size_bytes` (rounded up to a page) at `folder`; skip the test where that fails."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=0777", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk needs root and mount(8): {getattr(error, 'stderr', '') or error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)
