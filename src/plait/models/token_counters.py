"""Exact counts of tokens: the vocabularies of the extra `tokens`, a `tokenizer.json` of the user's, a function.

Floor: 2. Owns: which names there are, and what is said where a library is missing; never: a download, a window.

Nothing is fetched: the vocabularies of `o200k` and `cl100k` come with the package, those of other models are files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from plait.core.errors import ConfigError
from plait.kernel.counting import TokenCounter

AUTO: Final = "auto"
NAMES: Final = (AUTO, "o200k", "cl100k")
_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "o200k": ("gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss", "chatgpt-4o", "o1", "o3", "o4"),
        "cl100k": ("gpt-4", "gpt-3.5"),
    }
)
"""The vocabularies of models by how their names begin; the first that fits counts."""
_KEPT_MAX: Final = 2_048
"""Texts whose counts are remembered: a history is counted again and again, and each text in it stays as it is."""


def token_counter_of(wanted: object, model: str = "") -> TokenCounter | None:
    """Return what counts the tokens of texts, None for nothing that does.

    Args:
        wanted: a function of a text; `o200k`, `cl100k`; the path of a `tokenizer.json`; `auto`, which goes by the
            model's name and counts nothing for one that is not known; or None.

    Raises:
        ConfigError: it means nothing, or its library is not installed; the hint says what to do.
    """
    if wanted is None or wanted == "":
        return None
    if callable(wanted):
        return _whole(wanted)
    if not isinstance(wanted, str):
        raise ConfigError(f"token_counter={wanted!r} cannot count", hint="it is a function of a text, or a name")
    if wanted == AUTO:
        wanted = family_of(model)
        if not wanted:
            return None
    if wanted in _FAMILIES:
        return _remembering(_vocabulary(wanted))
    if wanted.endswith(".json"):
        return _remembering(_file(Path(wanted).expanduser()))
    raise ConfigError(
        f"token_counter={wanted!r} is unknown", hint=f"it is one of {', '.join(NAMES)}, or the path of a tokenizer.json"
    )


def family_of(model: str) -> str:
    """Return the name of a model's vocabulary; empty where it is not known."""
    name = model.rsplit("/", 1)[-1].lower()
    return next((family for family, names in _FAMILIES.items() if name.startswith(names)), "")


def _vocabulary(name: str) -> TokenCounter:
    try:
        from rs_bpe.bpe import openai
    except ImportError as error:
        raise ConfigError(
            f"the token counter {name!r} needs a library that is not installed",
            hint="pip install 'plait[tokens]'; without a token counter sizes are estimated",
        ) from error
    tokenizer: Any = openai.o200k_base() if name == "o200k" else openai.cl100k_base()
    count: TokenCounter = tokenizer.count
    return count


def _file(path: Path) -> TokenCounter:
    try:
        library: Any = import_module("tokenizers")
    except ImportError as error:
        raise ConfigError(
            f"the token counter {str(path)!r} needs a library that is not installed",
            hint="pip install tokenizers; without a token counter sizes are estimated",
        ) from error
    try:
        tokenizer: Any = library.Tokenizer.from_file(str(path))
    except Exception as error:  # boundary: the library raises a bare Exception for every fault of a file
        raise ConfigError(f"cannot read the token counter {str(path)!r}: {error}", hint="mend or remove it") from error

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count


def _remembering(count: TokenCounter) -> TokenCounter:
    """Return a counter for every text, also for one that is no proper Unicode."""

    def counted(text: str) -> int:
        try:
            return count(text)
        except UnicodeEncodeError:
            return count(text.encode("utf-8", "replace").decode())

    return lru_cache(_KEPT_MAX)(counted)


def _whole(count: Callable[[str], object]) -> TokenCounter:
    """Return a caller's own counter; raise `ConfigError` where it does not count."""
    found = count("plait")
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ConfigError(f"the token counter returns {found!r} for a text", hint="it returns the number of tokens")
    return count  # type: ignore[return-value]
