"""Tokens of known services are found anywhere, and programs are left as they are."""

from __future__ import annotations

import random
import sysconfig
from pathlib import Path

import pytest

from plait.core.redact import MASK, redact_secrets
from plait.core.secret_shapes import SHAPES, Shape

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def sample_of(pattern: str, chance: random.Random) -> str:
    """Return a text of a pattern: made here, so that no scanner takes this file for a leak."""
    import re._parser as parser  # the standard library's own reader of patterns

    return "".join(_drawn(parser.parse(pattern), chance))


def _drawn(tree: object, chance: random.Random) -> list[str]:
    drawn: list[str] = []
    for kind, value in tree:  # type: ignore[attr-defined]
        name = str(kind)
        if name == "LITERAL":
            drawn.append(chr(value))
        elif name == "IN":
            drawn.append(_one_of(value, chance))
        elif name == "BRANCH":
            drawn += _drawn(chance.choice(value[1]), chance)
        elif name == "SUBPATTERN":
            drawn += _drawn(value[3], chance)
        elif name in ("MAX_REPEAT", "POSSESSIVE_REPEAT"):
            low, _, inner = value
            for _ in range(low):
                drawn += _drawn(inner, chance)
        else:
            assert name in ("ASSERT", "ASSERT_NOT", "AT"), name
    return drawn


def _one_of(choices: object, chance: random.Random) -> str:
    letters = ""
    for kind, value in choices:  # type: ignore[attr-defined]
        if str(kind) == "LITERAL":
            letters += chr(value)
        elif str(kind) == "RANGE":
            letters += "".join(map(chr, range(value[0], value[1] + 1)))
        else:
            letters += {"CATEGORY_DIGIT": "0123456789", "CATEGORY_WORD": LETTERS}[str(value)]
    alphanumeric = [letter for letter in letters if letter.isalnum()]
    return chance.choice(alphanumeric or letters)


def test_sixty_kinds_of_token_are_known() -> None:
    """So many services have a shape of their own."""
    assert len({shape.service for shape in SHAPES}) >= 60


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.service)
def test_a_token_is_masked_in_any_surroundings(shape: Shape) -> None:
    """Whatever stands before and behind it, a token of the kind is gone, and its mark brings its pattern to bear."""
    chance = random.Random(shape.service)
    for before, after in (("", ""), ("x = '", "'"), ("url?t=", "&n=1"), ("(", ")."), ("\n", "\n"), ('{"a":"', '"}')):
        token = sample_of(shape.pattern.pattern, chance)
        assert any(mark in token for mark in shape.marks), token
        shown, count = redact_secrets(before + token + after)
        assert (True, False, True) == (count > 0, token in shown, MASK in shown), token
        assert shown.endswith(after)


PROGRAM = """
token = self._tokens.next_token
password = getpass.getpass("Password: ")
secret = request.headers["X-Webhook-Secret"]
api_key = os.environ.get("OPENAI_API_KEY")
self.access_key = settings.AWS_ACCESS_KEY_NAME
const accessToken: AuthenticationToken = createToken(user)
private_key: ed25519.Ed25519PrivateKey,
headers = {"Authorization": f"Bearer {self.access_token_value}"}
headers.Authorization = `Bearer ${config.accessTokenValue}`
authorization = request.headers.get("authorization")
if token == self.expected_token_value: pass
PASSWORD_FIELD = "password_confirmation_field"
<input type="password" class="form-control form-control-lg">
secret_path=/var/run/secrets/kubernetes.io/serviceaccount
KEY_START = "-----BEGIN PRIVATE KEY-----"
def after(): return "this line stays"
https://user:password@example.org/ and https://%s:%s@host and postgres://{user}:{password}@{host}
client_secret: Configuration options for the generated value.
max_tokens=100000000000000, tokenizer="bert-base-uncased-tokenizer"
"""


@pytest.mark.parametrize("line", PROGRAM.strip().splitlines())
def test_a_line_of_a_program_is_left_as_it_is(line: str) -> None:
    """A model edits what it reads: names, expressions, types and templates are no secrets."""
    assert (line, 0) == redact_secrets(line)


def test_a_program_that_names_the_first_line_of_a_key_keeps_the_rest() -> None:
    """Only what looks like a key belongs to it."""
    assert (PROGRAM, 0) == redact_secrets(PROGRAM)


@pytest.mark.prove
def test_the_standard_library_is_read_as_it_is() -> None:
    """In all of Python's own source, at most one place in 10 MB is taken for a secret that is none."""
    size_chars, masked = 0, []
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts or "test" in path.parts:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        size_chars += len(text)
        shown, _ = redact_secrets(text)
        masked += [(path.name, line) for line in shown.splitlines() if MASK in line]
    assert len(masked) <= max(1, size_chars // 10_000_000), masked
