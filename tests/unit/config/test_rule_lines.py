"""A rule is written into a settings file beside what stands there, or not at all."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from plait.config.rule_lines import add_rule, with_rule
from plait.core.errors import ConfigError

RULE = "Bash(echo \"a\\b\" 'c')"
FILES = {
    "nothing": "",
    "only a comment": "# mine\n",
    "no table": 'model = "m"  # why\n\n[other]\nx = 1\n',
    "no end of line": 'model = "m"',
    "an empty table": "[permissions]\n",
    "another list": '[permissions] # rules\nask = ["Bash"]\n\n[z]\nallow = [1]\n',
    "an empty list": "[permissions]\nallow = []\n",
    "an empty list with blanks": "[permissions]\nallow = [ ]\n",
    "an empty list of lines": "[permissions]\nallow = [\n]\n",
    "one line": '[permissions]\nallow = ["a"]  # after\n',
    "one line with a comma": '[permissions]\nallow = ["a", ]\n',
    "lines": '[permissions]\nallow = [\n    "a",  # first\n    # between\n    "b",  # last\n    # end\n]\ndeny = []\n',
    "lines without a comma": '[permissions]\nallow = [\n  "a", "b" # last, ]\n]\n',
    "brackets in strings": '[permissions]\nallow = ["a]", \'[b\', "c\\"]", """d\n]"""]\n',
    "a quoted key": '[permissions]\n"allow" = ["a"]\n',
    "windows": '[permissions]\r\nallow = [\r\n  "a",\r\n]\r\n',
    "a byte order mark": '\ufeff[permissions]\nallow = ["a"]\n',
    "a header in a string": 'text = """\n[permissions]\nallow = [\n"""\n[permissions]\nallow = ["a"]\n',
    "a subtable before": '[permissions.more]\nx = 1\n[permissions]\nallow = ["a"]\n',
}


def told(data: bytes) -> dict[str, object]:
    """Read a file."""
    return tomllib.loads(data.decode("utf-8-sig"))


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_a_rule_goes_in_and_everything_else_stays(text: str) -> None:
    """Every line that was there is there, comments too; the rule is the last of its list; twice is once."""
    before = text.encode()
    after = with_rule(before, "allow", RULE, "f")
    wanted = told(before)
    wanted.setdefault("permissions", {}).setdefault("allow", []).append(RULE)  # type: ignore[attr-defined]
    assert wanted == told(after)
    assert after == with_rule(after, "allow", RULE, "f")
    left = iter(after.decode())
    assert all(char in left for char in text)
    assert text.count("#") == after.decode().count("#")
    assert ("\r\n" in text) == ("\r\n" in after.decode())
    assert "\n" not in after.decode().replace("\r\n", "") or "\r\n" not in text


@given(st.lists(st.text(max_size=12), max_size=6), st.sampled_from(["allow", "ask", "deny"]), st.text(max_size=20))
def test_rules_one_after_another(rules: list[str], action: str, comment: str) -> None:
    """Any texts, added one by one, are what the list holds, in that order."""
    line = "".join(char for char in comment if char.isprintable())
    data = f"# {line}\n".encode("utf-8", "replace")
    for rule in rules:
        if any("\ud800" <= char <= "\udfff" for char in rule):
            continue
        data = with_rule(data, action, rule, "f")
    kept = [rule for rule in dict.fromkeys(rules) if not any("\ud800" <= char <= "\udfff" for char in rule)]
    assert kept == told(data).get("permissions", {}).get(action, [])  # type: ignore[attr-defined]
    assert data.startswith(f"# {line}\n".encode("utf-8", "replace"))


@pytest.mark.parametrize(
    "text",
    [
        'permissions = {allow = ["a"]}\n',
        'permissions.allow = ["a"]\n',
        '[permissions]\nallow = "a"\n',
        "permissions = 1\n",
        "[permissions\n",
        "\xff",
    ],
)
def test_a_form_that_is_not_edited_is_left_as_it_is(text: str, tmp_path: Path) -> None:
    """The error says what to write by hand, or what is wrong; nothing is half written."""
    path = tmp_path / "plait.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError):
        add_rule(path, "allow", "Bash(ls)")
    assert text.encode("latin-1") == path.read_bytes()
    assert {"plait.toml", ".plait.toml.lock"} == set(os.listdir(tmp_path))


def test_the_file_keeps_its_mode_and_a_link_stays_one(tmp_path: Path) -> None:
    """Settings that are kept elsewhere are changed there; a new file is its owner's alone."""
    real = tmp_path / "dotfiles.toml"
    real.write_text("# mine\n")
    real.chmod(0o640)
    link = tmp_path / "plait.toml"
    link.symlink_to(real)
    assert add_rule(link, "deny", "Bash(rm:*)") is True
    assert add_rule(link, "deny", "Bash(rm:*)") is False
    assert (True, 0o640, '# mine\n\n[permissions]\ndeny = ["Bash(rm:*)"]\n') == (
        link.is_symlink(),
        real.stat().st_mode & 0o777,
        real.read_text(),
    )
    new = tmp_path / "deep" / "plait.toml"
    assert add_rule(new, "allow", "Bash(ls)") is True
    assert 0o600 == new.stat().st_mode & 0o777
