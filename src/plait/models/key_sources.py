"""Keys from the system's keyring, from files and from commands.

Floor: 2. Owns: reading them, within a time; never: keeping one, or showing one.

Each is named by its user, in flags, environment or the user's own files; a repository's configuration names none.
"""

from __future__ import annotations

import importlib
import json
import shlex
import subprocess
import threading
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from plait.core.exchange import ProviderFailed
from plait.core.values import dataclass
from plait.models.credentials import split_keys

KEYRING_WAIT_S: Final = 5.0
COMMAND_WAIT_S: Final = 10.0
OPENCODE_FILE: Final = "~/.local/share/opencode/auth.json"
OPENCODE_FIELD: Final = "github-copilot.access"


@dataclass(frozen=True, slots=True)
class FromKeyring:
    """An entry of the system's keyring; where there is none, the variable that is called like its user."""

    service: str
    username: str

    @property
    def label(self) -> str:
        """The entry, and the variable that may stand in."""
        return f"the keyring entry {self.service!r} of {self.username!r}, or {self.variable}"

    @property
    def variable(self) -> str:
        """The variable that may stand in."""
        return self.username.upper().replace("-", "_")

    def find(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the entry, else the variable.

        Raises:
            ProviderFailed: the keyring did not answer, or is not installed and the variable is not set.
        """
        key = environ.get(self.variable, "").strip()
        try:
            return _some(self._ask() or key)
        except ModuleNotFoundError:
            if key:
                return (key,)
            hint = f"pip install 'plait[keyring]', or set {self.variable}"
            raise _unreadable("the keyring needs a package that is not installed", hint) from None

    def _ask(self) -> str | None:
        """Ask in a thread, because a keyring may open a window and wait for ever."""
        keyring: Any = importlib.import_module("keyring")  # an extra
        answers: list[str | None] = []
        problems: list[Exception] = []

        def ask() -> None:
            try:
                answers.append(keyring.get_password(self.service, self.username))
            except Exception as problem:  # boundary: keyrings fail in their own ways, and the variable may stand in
                problems.append(problem)

        asking = threading.Thread(target=ask, name="plait-keyring", daemon=True)
        asking.start()
        asking.join(KEYRING_WAIT_S)
        if not answers and not problems:
            hint = f"unlock it, or set {self.variable}"
            raise _unreadable(f"the keyring did not answer within {KEYRING_WAIT_S:g} s", hint)
        return answers[0] if answers else None


@dataclass(frozen=True, slots=True)
class FromFile:
    """A file that holds a key: the whole of it, or a field of JSON or TOML.

    `field` is a dotted path; `*` in it is the first entry of an object.
    """

    path: str
    field: str = ""

    @property
    def label(self) -> str:
        """The file, and where in it."""
        return f"{self.field!r} in {self.path}" if self.field else self.path

    def find(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the key; a file or a field that is not there is none.

        Raises:
            ProviderFailed: the file cannot be read.
        """
        path = Path(self.path).expanduser()
        try:
            text = path.read_text(encoding="utf-8")
            return _some(text) if not self.field else _some(_field(_parsed(path, text), self.field))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as error:
            # The error of a parser may quote the file.
            reason = error.strerror if isinstance(error, OSError) else "it is not what its name says"
            raise _unreadable(f"the key file {self.path} cannot be read: {reason}", "check the file") from None


@dataclass(frozen=True, slots=True)
class FromCommand:
    """A program that prints a key, run without a shell."""

    command: str

    @property
    def label(self) -> str:
        """The program's name; its arguments may be nobody's business."""
        return f"the command {_words(self.command)[:1] or ['']}"

    def find(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return what it printed; a program that is not there, or failed, has none."""
        words = _words(self.command)
        if not words:
            return ()
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_WAIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ()
        return _some(done.stdout.decode("utf-8", "replace")) if done.returncode == 0 else ()


@dataclass(frozen=True, slots=True)
class NoKey:
    """The user's word that the endpoint takes none."""

    label: str = "no key"

    def find(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return nothing."""
        return ()


def opencode_source() -> FromFile:
    """Return where opencode keeps its GitHub Copilot token."""
    return FromFile(OPENCODE_FILE, OPENCODE_FIELD)


def _parsed(path: Path, text: str) -> object:
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def _field(value: object, dotted: str) -> object:
    for name in dotted.split("."):
        if not isinstance(value, dict):
            return None
        value = next(iter(value.values()), None) if name == "*" else value.get(name)
    return value


def _some(value: object) -> tuple[str, ...]:
    """Return the keys in a value: one a line, or split by commas."""
    return split_keys(",".join(value.splitlines())) if isinstance(value, str) else ()


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _unreadable(message: str, hint: str) -> ProviderFailed:
    return ProviderFailed("auth", message, retryable=False, phase="connect", detail="missing_key", hint=hint)
