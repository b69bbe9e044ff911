"""X51: a secret that a process holds is in no output, however it is written, cut and surrounded."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from plait.core.mask import MASK
from plait.tools.redaction import Redaction
from tests.helpers.campaigns import Campaign

HELD: Final = ("correct-Horse7-battery", "Zq0fa1b2c3d4e5f6a7b8", 'pa"ss\\w0rd-\u00fc99', "s3cr3t/with+signs==")
WRITTEN: Final[Mapping[str, Callable[[str], str]]] = {
    "as it is": lambda value: value,
    "backwards": lambda value: value[::-1],
    "hex": lambda value: value.encode().hex(),
    "HEX": lambda value: value.encode().hex().upper(),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 behind one byte": lambda value: base64.b64encode(b"u" + value.encode()).decode(),
    "base64 behind two": lambda value: base64.b64encode(b"u:" + value.encode() + b"\n").decode(),
    "base64 for URLs": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "percent": lambda value: quote(value, safe=""),
    "form": quote_plus,
    "JSON": lambda value: json.dumps(value),
    "JSON, as it is": lambda value: json.dumps(value, ensure_ascii=False),
    "JSON in JSON": lambda value: (
        json.dumps(json.dumps({"out": f"a\n{value}"})) if value.isalnum() or ("-" in value and '"' not in value) else ""
    ),
}
AROUND: Final = (" ", "\n", "\t", "word ", "key: ", "\u00e4\u00f6 ", "x=1;", "(", ")", "[31m", "a" * 300 + " ", "\r\n")


def text_of(chance: random.Random) -> tuple[str, list[str]]:
    """Return a text with secrets in it, and how each was written there."""
    parts, secrets = [], []
    for _ in range(chance.randint(1, 5)):
        parts += chance.choices(AROUND, k=chance.randint(1, 40))
        written = WRITTEN[chance.choice([*WRITTEN])](chance.choice(HELD))
        secrets += [written] if written else []
        parts += [" ", written, " "]
    return "".join(parts), secrets


def pieces_of(text: str, chance: random.Random) -> list[str]:
    """Cut a text into pieces of any size."""
    cuts = sorted(chance.choices(range(len(text) + 1), k=chance.randint(0, 12)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def test_x51_what_is_streamed_and_what_is_cut(campaign: Campaign) -> None:
    """In pieces, whole and in its two ends: no text shows a secret that is held, nor ten characters of one at a cut."""
    redaction = Redaction({f"KEY_{number}_TOKEN": value for number, value in enumerate(HELD)})
    for seed in campaign.seeds(60, 200_000):
        chance = random.Random(seed)
        text, secrets = text_of(chance)
        shown: list[str] = []
        stream = redaction.stream(shown.append)
        for piece in pieces_of(text, chance):
            stream.write(piece)
        stream.close()
        whole = redaction(text)
        assert whole == "".join(shown), seed
        assert [] == [written for written in secrets if written in whole], seed
        assert not secrets or MASK in whole, seed
        cut = chance.randint(0, len(text))
        head, tail = redaction.ends(text[:cut], text[min(len(text), cut + chance.randint(0, 30)) :])
        for value in HELD:
            parts = [value[at : at + 10] for at in range(len(value) - 9)]
            assert [] == [part for part in parts if part in head or part in tail], seed
