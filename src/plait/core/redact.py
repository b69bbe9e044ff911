"""Takes secrets out of text before a model or a log sees it.

Floor: 0. Owns: what a secret looks like; never: where text comes from or goes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

MASK: Final = "[REDACTED]"

_KEY_BLOCK: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_TOKENS: Final = re.compile(
    r"\b(?:"
    r"sk-ant-[\w-]{20,}"
    r"|sk-(?:proj-|or-)?[\w-]{20,}"
    r"|gh[posru]_[A-Za-z0-9]{30,}"
    r"|github_pat_\w{20,}"
    r"|glpat-[\w-]{20,}"
    r"|xox[baprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|AIza[\w-]{35}"
    r"|hf_[A-Za-z0-9]{30,}"
    r"|[sr]k_live_[A-Za-z0-9]{20,}"
    r"|(?<![\w-])eyJ[\w-]{10,}+\.eyJ[\w-]{10,}+\.[\w-]{10,}"
    r")"
)
# A label begins a word, or a part of one (`MY_API_KEY`, `clientSecret`). What stands before it is only glanced at: a
# pattern that tries every beginning of a long line takes minutes for it.
_LABELLED: Final = re.compile(
    r"(?P<label>(?:(?<![A-Za-z0-9])"
    r"(?i:api[_ -]?key|access[_ -]?key|private[_ -]?key|secret[_ -]?key|secret|token|password|passwd|pwd)"
    r"|(?<=[a-z0-9])(?:ApiKey|AccessKey|PrivateKey|SecretKey|Secret|Token|Password))"
    r"[\"']?\s*+[:=]\s*+[\"']?)(?P<value>[A-Za-z0-9._\-/+=]{12,})"
)
_HEADER: Final = re.compile(
    r"(?i)(?P<label>\bauthorization[\"']?\s*+[:=]\s*+[\"']?(?:bearer\s++|basic\s++)?)(?P<value>[^\s\"']{16,})"
)
_URL_LOGIN: Final = re.compile(r"(?P<label>\b[a-z][a-z0-9+.-]{0,20}+://[^\s:/@]*+:)(?P<value>[^\s@/]++)(?=@)")
_PATTERNS: Final[Sequence[re.Pattern[str]]] = (_KEY_BLOCK, _TOKENS, _LABELLED, _HEADER, _URL_LOGIN)


def redact_secrets(text: str) -> tuple[str, int]:
    """Return the text with every secret replaced by `[REDACTED]`, and how many there were.

    Labels, operators and header names stay, so that a reader still sees what stood there.
    """
    count = 0
    for pattern in _PATTERNS:
        text, found = pattern.subn(_mask, text)
        count += found
    return text, count


def _mask(match: re.Match[str]) -> str:
    return match.group("label") + MASK if "label" in match.re.groupindex else MASK
