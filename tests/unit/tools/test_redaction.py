"""What tools show holds no secret, wherever it was cut; what the model edits does not lose one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from plait.core.mask import MASK
from plait.core.redact import redact_secrets
from plait.kernel.tools import Tool
from plait.tools.answer import Reply
from plait.tools.redaction import Redaction, held_in, without_secrets
from plait.tools.spill import Spill
from plait.tools.toolbox import Toolbox
from tests.unit.tools.conftest import MakeToolbox
from tests.unit.tools.replies import done, refusal

HELD = "correct-Horse7-battery"
TOKEN = "gh" + "p_" + "abcdefghijklmnopqrstuvwxyz0123456789"
BODY = "".join(f"MIIEowIBAAKCAQEAMIIEowIBAAKCAQEA{n:08d}\n" for n in range(20))
KEY = "-----BEGIN " + f"RSA PRIVATE KEY-----\n{BODY}abc=\n-----END " + "RSA PRIVATE KEY-----\n"
ENV_FILE = f"# settings\nPORT=8080\nAPI_KEY={TOKEN}\nMODE=fast\n"


@pytest.fixture
def masked(make: MakeToolbox) -> Toolbox:
    """Return a toolbox whose model is not shown what this process holds."""
    return make(policy="read_outside", redaction=Redaction({"MY_TOKEN": HELD}))


@pytest.mark.parametrize(
    "name, value, found",
    [
        ("MY_TOKEN", HELD, [HELD]),
        ("ANY_KEYS", "first-Key-1234, second-Key-5678", ["first-Key-1234, second-Key-5678", "first-Key-1234"]),
        ("HTTPS_PROXY", "http://me:s%40cretWord@proxy:3128", ["s%40cretWord", "s@cretWord"]),
        ("DATABASE_URL", "postgres://u:pa55-w0rd@db/x", ["pa55-w0rd"]),
        ("DB_PASSWORD", "short", []),
        ("DB_PASSWORD", "postgres", []),
        ("SSH_AUTH_SOCK", "/tmp/ssh-abc/agent.12345", []),
        ("AWS_PROFILE", "production-admin", []),
        ("VAULT_ADDR", "https://vault.example.com:8200", []),
        ("MAX_TOKENS", "1000000000", []),
        ("HOME", "/home/somebody", []),
        ("GREETING", "hello-World-12345", []),
    ],
)
def test_what_an_environment_holds(name: str, value: str, found: list[str]) -> None:
    """Credentials and passwords of URLs are secret; places, hosts, words and numbers in such variables are not."""
    assert found == list(held_in({name: value}))[: len(found) or 5]


def test_a_model_s_keys_are_known_as_soon_as_they_are_found() -> None:
    """What is held is asked at every text, and the environment once."""
    keys: list[str] = []
    redaction = Redaction({}, lambda: keys)
    text = "the-provider-Key-123 is sent"
    before, _ = redaction(text), keys.append("the-provider-Key-123")
    assert (text, f"{MASK} is sent", "") == (before, redaction(text), redaction(""))


def test_data_loses_what_is_held_and_keeps_what_looks_like_a_secret() -> None:
    """Journals and programs get what happened; a trace, whose function is the other, neither."""
    redaction = Redaction({"MY_TOKEN": HELD})
    data = {"a": [f"x {HELD}", 1, None], HELD: TOKEN, "same": ("b",)}
    assert {"a": [f"x {MASK}", 1, None], MASK: TOKEN, "same": ("b",)} == redaction.data(data)
    assert {"k": [MASK]} == without_secrets({"k": [TOKEN]}, lambda text: redact_secrets(text)[0])
    plain = {"a": [1, "b"]}
    assert plain is redaction.data(plain)


@pytest.mark.parametrize(
    "line",
    [
        TOKEN,
        "API_KEY=aB3dEfGh1JkLmN0p",
        "Authorization: Bearer aB3dEfGh1JkLmN0pq",
        "machine h login u password pa55-Word",
    ],
)
def test_a_secret_that_begins_a_line_in_json_is_found(line: str) -> None:
    """In JSON the line before it ends with a backslash and a letter, which belongs to no word."""
    text = json.dumps({"stdout": f"one\n{line}\ttwo"})
    assert MASK in redact_secrets(text)[0]
    assert line.split("=")[-1].split()[-1] not in redact_secrets(text)[0]


def test_a_held_value_is_found_as_json_writes_it() -> None:
    """With its quotes and backslashes escaped, in whatever letters."""
    value = 'pass"word\\\u00fc-1'
    redaction = Redaction({"MY_SECRET": value})
    texts = [json.dumps(value), json.dumps(value, ensure_ascii=False)]
    assert [f'"{MASK}"'] * 2 == [redaction(text) for text in texts]


def test_output_is_shown_without_secrets_as_it_comes(make: MakeToolbox) -> None:
    """X51: written by halves, in any disguise, to either stream: what is shown as it comes is masked."""
    shown: list[str] = []
    box = make(output=shown.append, redaction=Redaction({"MY_TOKEN": HELD}))
    halves = f"printf %s {HELD[:9]}; sleep 0.02; echo {HELD[9:]}; printf %s {HELD} | base64; "
    more = f"printf %s {HELD} | od -An -tx1 | tr -d ' \\n'; echo; echo 'no end of line {TOKEN}'; printf {HELD} >&2"
    done(box.bash(halves + more))
    text = "".join(shown)
    assert (5, []) == (text.count(MASK), [each for each in (HELD, TOKEN, HELD.encode().hex()) if each in text])
    assert "no end of line" in text


@given(at=st.integers(0, 400), chars=st.integers(40, 300))
def test_no_cut_leaves_a_part_of_a_secret(at: int, chars: int) -> None:
    """Wherever a text is cut in two ends, no eight characters of a secret in it are shown."""
    text = f"{'word ' * 30}{HELD} {'more ' * 10}{TOKEN}\n{'words ' * 30}"
    redaction = Redaction({"MY_TOKEN": HELD})
    head, tail = redaction.ends(text[:at], text[max(at, len(text) - chars) :])
    for secret in (HELD, TOKEN):
        assert not any(secret[n : n + 8] in part for part in (head, tail) for n in range(len(secret) - 8))


def test_a_result_is_masked_before_it_is_cut(masked: Toolbox, root: Path) -> None:
    """A long output whose ends fall into a secret, and the kept part of a long result, show none of it."""
    half = masked.shell.options.chars_max // 2
    for shift in (-1_200, -900, -700):
        (root / "a").write_text("x " * ((half + shift) // 2) + HELD + "y " * 40_000)
        text, _ = done(masked.exec_shell("cat a"))
        assert not any(HELD[n : n + 8] in text for n in range(len(HELD) - 8))
    spill = Spill(root / "kept")
    spill.redact = Redaction({"MY_TOKEN": HELD})
    fitted = spill.fit(f"{HELD} and " * 100, 300)
    assert fitted.path is not None
    assert [False, False] == [HELD in fitted.text, HELD in Path(fitted.path).read_text()]
    spill.close()


@pytest.mark.parametrize("offset", [1, 2, 9, 20, 22])
def test_a_window_inside_a_key_shows_none_of_it(masked: Toolbox, root: Path, offset: int) -> None:
    """A private key is masked from whatever line it is read, with its end in the window or beyond."""
    (root / "id_test").write_text(f"before\n{KEY}after\n")
    for limit in (3, 100):
        text, _ = done(masked.read_file("id_test", offset, limit))
        assert "MIIEow" not in redact_secrets(text)[0]
    assert "after" in text


def test_lines_of_base64_that_are_no_key_are_read(masked: Toolbox, root: Path) -> None:
    """A picture in a stylesheet looks like a key's middle, and is shown."""
    (root / "a.css").write_text(f"data:\n{BODY}")
    assert BODY.splitlines()[1] == done(masked.read_file("a.css", 3, 1))[0].splitlines()[0]


def edits(box: Toolbox) -> list[Reply]:
    """Send what a model would that read `ENV_FILE` with its secret masked."""
    shown = ENV_FILE.replace(TOKEN, MASK)
    line = f"API_KEY={MASK}"
    patch = f"*** Begin Patch\n*** Update File: .env\n@@\n {line}\n-MODE=fast\n+MODE=slow\n*** End Patch\n"
    added = "*** Begin Patch\n*** Update File: .env\n@@\n-MODE=fast\n+MODE=slow\n+KEY_2={MASK}\n*** End Patch\n"
    moved = f"*** Begin Patch\n*** Delete File: .env\n*** Add File: b.env\n+{line}\n*** End Patch\n"
    return [
        box.str_replace(".env", f"{line}\nMODE=fast", f"{line}\nMODE=slow"),
        box.str_replace(".env", line, "API_KEY=new"),
        box.str_replace(".env", "MODE=fast", f"{line}\nMODE=fast"),
        box.edit_file(".env", f"{line}\n", ""),
        box.write_file(".env", shown.replace("fast", "slow")),
        box.patching.apply_patch(patch),
        box.patching.apply_patch(added.replace("{MASK}", MASK)),
        box.patching.apply_patch(moved),
        box.str_replace(".env", patch=f"@@ -2,3 +2,3 @@\n PORT=8080\n {line}\n-MODE=fast\n+MODE=slow\n"),
    ]


def test_an_edit_does_not_put_the_mask_over_a_secret(masked: Toolbox, root: Path) -> None:
    """What was read as [REDACTED] and is sent back so is refused with the way out, and the file is as it was."""
    (root / ".env").write_text(ENV_FILE)
    for number, reply in enumerate(edits(masked)):
        told = refusal(reply).content
        assert [True, True] == [MASK in told, "leave the line" in told], number
    assert [ENV_FILE, False] == [(root / ".env").read_text(), (root / "b.env").exists()]
    done(masked.str_replace(".env", "MODE=fast", "MODE=slow"))
    assert ENV_FILE.replace("fast", "slow") == (root / ".env").read_text()


def test_the_word_itself_can_be_edited(masked: Toolbox, make: MakeToolbox, root: Path) -> None:
    """A program that writes [REDACTED] by itself is edited like any other, and nobody is kept who sees everything."""
    (root / "a.py").write_text(f'MASK = "{MASK}"\n')
    done(masked.str_replace("a.py", f'MASK = "{MASK}"', f'MASK = "{MASK}"  # {MASK}'))
    done(masked.write_file("new.md", f"what is masked reads {MASK}\n"))
    (root / ".env").write_text(ENV_FILE)
    done(make().write_file(".env", f"API_KEY={MASK}\n"))
    assert f"API_KEY={MASK}\n" == (root / ".env").read_text()


def test_a_tool_is_bound_with_the_redaction_of_its_toolbox(masked: Toolbox) -> None:
    """Tools that commands and files are done by know of it without being told."""
    tools: list[Tool] = masked.tools()
    assert [7, True] == [len(tools), masked.files.redaction is masked.shell.options.redaction]
