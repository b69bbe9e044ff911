"""What takes secrets out of the output of tools: the values that this process holds, and all that looks like one.

Floor: 3. Owns: which values are held, and where text was cut; never: a shape (`core.redact`), a file, a key's source.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from plait.core.mask import VALUE_CHARS_MIN
from plait.hands.environment import is_credential

if TYPE_CHECKING:
    from plait.core.known_secrets import RedactedStream, Redactor

Held = Callable[[], Iterable[str]]
"""Returns secrets that somebody holds now."""

_LOGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?P<login>[^/\s@]*)@", re.IGNORECASE)
_NO_SECRET: Final = re.compile(
    r"(?:~|\.{0,2}/|[A-Za-z]:\\)\S*|[a-z]{0,12}|[0-9.:,_-]{0,15}|\w+://\S*|[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+(?::\d+)?"
)
"""Places, hosts, single words and numbers: they stand in such variables too, and in much of what commands print."""
_NO_SECRET_NAMES: Final = re.compile(
    r"(?i)(?:AWS|AZURE|VAULT)_\w*(?:PROFILE|REGION|ACCOUNT(?:_ID)?|URL|ROLE_ARN|ADDR|NAMESPACE|TENANT(?:_ID)?|MODE|CLOUD)"
)
"""Names that begin like a credential's and hold settings."""
_ONE_BY_ONE: Final = re.compile(r"[,\n]")


class Redaction:
    """Masks what tools bring before a model, a screen or a file of kept output gets it. Safe in any thread.

    Of the environment it knows the variables that commands are not given (`is_credential`), as they were when the
    first text came.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, held: Held | None = None) -> None:
        """Take the process's own environment unless another is given; `held` is asked at every text."""
        self._environ = environ
        self._held = held
        self._lock = threading.Lock()
        self._of_environ: tuple[str, ...] | None = None
        self._last: tuple[tuple[str, ...], Redactor] | None = None

    def holds(self, held: Held) -> None:
        """Mask what `held` returns as well, from now on; in place of what was asked before."""
        self._held = held

    @property
    def redactor(self) -> Redactor:
        """What masks the values that are held now."""
        held = () if self._held is None else tuple(self._held())
        last = self._last  # read once, and so without the lock: every result asks
        if last is not None and last[0] == held:
            return last[1]
        from plait.core.known_secrets import Redactor  # many patterns, for what tools bring

        with self._lock:
            if self._last is None or self._last[0] != held:
                if self._of_environ is None:
                    environ = os.environ if self._environ is None else self._environ
                    self._of_environ = _all_held_in(tuple(environ.items()))
                self._last = (held, Redactor((*held, *self._of_environ)))
            return self._last[1]

    def __call__(self, text: str) -> str:
        """Return the text without secrets."""
        return self.redactor.redact(text)[0] if text else text

    def count(self, text: str) -> int:
        """Return how many secrets a text holds."""
        return self.redactor.redact(text)[1]

    def stream(self, show: Callable[[str], object]) -> RedactedStream:
        """Return what takes a text piece by piece and shows it without secrets; to be closed at its end."""
        return self.redactor.stream(show)

    def ends(self, head: str, tail: str) -> tuple[str, str]:
        """Return the two ends of a text whose middle was left out, without secrets."""
        return self.redactor.redact_ends(head, tail)

    def data(self, value: Any) -> Any:
        """Return JSON without the values that are held; what only looks like a secret stays.

        It is for journals and programs, not for a model: they hold what happened.
        """
        redactor = self.redactor
        return _mapped(value, lambda text: redactor.redact_known(text)[0])


def without_secrets(value: Any, redact: Callable[[str], str]) -> Any:
    """Return JSON with every text in it, keys too, as `redact` leaves it."""
    return _mapped(value, redact)


def held_in(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in an environment: the values of what is a credential, and passwords of URLs."""
    from urllib.parse import unquote

    for name, value in environ.items():
        if len(value) < VALUE_CHARS_MIN:
            continue
        if (found := _LOGIN.search(value)) is not None:
            _, _, password = found["login"].rpartition(":")
            yield from (password, unquote(password))
        elif is_credential(name, value) and not (_NO_SECRET.fullmatch(value) or _NO_SECRET_NAMES.fullmatch(name)):
            yield value
            yield from (part.strip() for part in _ONE_BY_ONE.split(value) if part.strip() != value)


@lru_cache(maxsize=4)
def _all_held_in(variables: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return what `held_in` yields; every conversation asks this of the same environment."""
    return tuple(held_in(dict(variables)))


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return JSON with every text changed; a part in which nothing changes is returned as it is."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        pairs = [(key, change(str(key)), old, _mapped(old, change)) for key, old in value.items()]
        is_same = all(key == new_key and old is new for key, new_key, old, new in pairs)
        return value if is_same else {new_key: new for _, new_key, _, new in pairs}
    if isinstance(value, (list, tuple)):
        items = [_mapped(item, change) for item in value]
        return value if all(old is new for old, new in zip(value, items, strict=True)) else type(value)(items)
    return value
