"""Keys from files, commands and a keyring, and the user's list of endpoints."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from plait.core.errors import AgentSpecInvalidError
from plait.core.exchange import ProviderFailed
from plait.models import key_sources
from plait.models.credentials import Credentials, FromEnv
from plait.models.inference_db import database_path, load_entry
from plait.models.key_sources import FromCommand, FromFile, FromKeyring, NoKey, opencode_source

LIST = """
[endpoints.kimi]
url = "https://api.kimi.example/{model}/v1"
auth = "x-api-key"
headers = { X-Team = "blue" }
query = { version = "2 a" }
params = { temperature = 1 }
tool_loading = "system-message-tools"
key = [
  { source = "plaintext", key = "never-read" },
  { source = "keyring", service = "s", username = "kimi-key" },
  { source = "command", command = "ask (the admin)" },
  { source = "env", var = "KIMI" },
]
[endpoints.kimi.model_params.k2]
thinking = { type = "enabled" }
temperature = 0.6

[endpoints.open]
url = "http://127.0.0.1:1/v1"
auth = "none"
key = [{ source = "none" }]

[endpoints.broken]
url = "http://x/v1"
params = 3
"""


def test_a_file_holds_a_key_whole_or_in_a_field(tmp_path: Path) -> None:
    """The whole file, a dotted field of JSON or TOML, or the first entry of an object."""
    plain, document, table = tmp_path / "key", tmp_path / "key.json", tmp_path / "key.toml"
    plain.write_text(" k1 \n")
    document.write_text('{"a": {"first": {"token": "k2"}}}')
    table.write_text('[a]\ntoken = "k3"\n')
    assert ("k1",) == FromFile(str(plain)).find({})
    assert ("k2",) == FromFile(str(document), "a.*.token").find({})
    assert ("k3",) == FromFile(str(table), "a.token").find({})
    assert () == FromFile(str(document), "a.b.c").find({})
    assert () == FromFile(str(tmp_path / "none")).find({})


def test_a_source_may_hold_several_keys(tmp_path: Path) -> None:
    """One key a line, or split by commas, from a file and from a command; blanks and repetitions are nothing."""
    (tmp_path / "keys").write_text("k1\n\nk2, k3\nk1\n")
    assert ("k1", "k2", "k3") == FromFile(str(tmp_path / "keys")).find({})
    assert ("k1", "k2", "k3") == FromCommand(f"cat {tmp_path / 'keys'}").find({})


def test_a_damaged_file_is_told_without_what_is_in_it(tmp_path: Path) -> None:
    """The failure names the file and quotes nothing of it."""
    path = tmp_path / "key.json"
    path.write_text("{very-secret")
    with pytest.raises(ProviderFailed) as unreadable:
        FromFile(str(path), "a").find({})
    assert str(path) in unreadable.value.message
    assert "very-secret" not in unreadable.value.message


def test_a_command_prints_a_key_without_a_shell(tmp_path: Path) -> None:
    """Its output is the key; a command that fails or is not there has none, and nothing in it is expanded."""
    python = sys.executable
    assert ("k",) == FromCommand(f"{python} -c 'print(\" k \")'").find({})
    assert () == FromCommand(f"{python} -c 'raise SystemExit(1)'").find({})
    assert () == FromCommand("no-such-program-here").find({})
    assert () == FromCommand("'").find({})
    assert () == FromCommand(f"{python} -c 'pass' > {tmp_path}/out").find({})
    assert [] == list(tmp_path.iterdir())


def test_a_command_shows_no_arguments() -> None:
    """A password on a command line stays there."""
    assert "secret" not in FromCommand("get-key --token secret").label


def keyring_that(answer: object) -> types.ModuleType:
    """Make a module in place of the keyring package."""
    module = types.ModuleType("keyring")

    def get_password(service: str, username: str) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer(service, username) if callable(answer) else answer

    module.get_password = get_password  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize("answer, expected", [("k", "k"), (None, "v"), (RuntimeError("no backend"), "v")])
def test_a_keyring_entry_wins_over_its_variable(monkeypatch: pytest.MonkeyPatch, answer: object, expected: str) -> None:
    """Where the keyring has nothing, or fails, the variable called like the user stands in."""
    monkeypatch.setitem(sys.modules, "keyring", keyring_that(answer))
    assert (expected,) == FromKeyring("s", "my-key").find({"MY_KEY": "v"})


def test_a_keyring_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A keyring that waits for a window to be answered costs its time and no more."""
    import threading

    gate = threading.Event()
    monkeypatch.setitem(sys.modules, "keyring", keyring_that(lambda *_: gate.wait(10)))
    monkeypatch.setattr(key_sources, "KEYRING_WAIT_S", 0.05)
    with pytest.raises(ProviderFailed) as hung:
        FromKeyring("s", "my-key").find({"MY_KEY": "v"})
    gate.set()
    assert "did not answer" in hung.value.message


def test_a_keyring_that_is_not_installed_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package the variable is enough; without both the extra is named."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert ("v",) == FromKeyring("s", "my-key").find({"MY_KEY": "v"})
    with pytest.raises(ProviderFailed) as missing:
        FromKeyring("s", "my-key").find({})
    assert "plait[keyring]" in missing.value.hint


def test_opencode_s_token_is_found(home: Path) -> None:
    """The token of opencode's GitHub Copilot login is read where opencode keeps it."""
    path = home / ".local/share/opencode/auth.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"github-copilot": {"access": "t"}}')
    assert ("t",) == opencode_source().find({})


def test_an_entry_of_the_list_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """URL, query, headers, parameters of any name and sources of keys come from the entry; a plain key is not read."""
    path = tmp_path / "endpoints.toml"
    path.write_text(LIST)
    monkeypatch.setitem(sys.modules, "keyring", None)
    entry = load_entry("kimi", database_path({"INFERENCE_DB": str(path)}))
    assert "https://api.kimi.example/k2/v1?version=2+a" == entry.url_for("k2")
    assert ("x-api-key", {"X-Team": "blue"}) == (entry.auth_header, entry.headers)
    assert {"temperature": 0.6, "thinking": {"type": "enabled"}} == entry.params_for("k2")
    assert {"temperature": 1} == entry.params_for("other")
    assert "system-message-tools" == entry.tool_loading_for("k2")
    assert ["FromKeyring", "FromEnv"] == [type(source).__name__ for source in entry.keys]
    assert ("k",) == entry.credentials("h").find({"KIMI_KEY": "k", "KIMI": "x"})
    assert "never-read" not in repr(entry)


def test_an_entry_without_a_key_needs_none(tmp_path: Path) -> None:
    """The word `none` is enough."""
    path = tmp_path / "endpoints.toml"
    path.write_text(LIST)
    entry = load_entry("open", path)
    assert (NoKey(),) == entry.keys
    assert () == entry.credentials("h").find({"PLAIT_API_KEY": "p"})


def test_a_key_that_is_nowhere_lists_where_it_was_sought(tmp_path: Path) -> None:
    """The failure names every source that was tried."""
    path = tmp_path / "endpoints.toml"
    path.write_text(LIST.replace('{ source = "keyring", service = "s", username = "kimi-key" },', ""))
    with pytest.raises(ProviderFailed) as missing:
        load_entry("kimi", path).credentials("h").find({})
    assert "KIMI" in missing.value.message


@pytest.mark.parametrize("id, words", [("nobody", "it has: broken, kimi, open"), ("broken", "params")])
def test_a_wrong_entry_is_named(tmp_path: Path, id: str, words: str) -> None:
    """An unknown id lists the known ones, a field of the wrong type is named with its file."""
    path = tmp_path / "endpoints.toml"
    path.write_text(LIST)
    with pytest.raises(AgentSpecInvalidError) as wrong:
        load_entry(id, path)
    assert words in f"{wrong.value} {wrong.value.hint}"
    assert str(path) in str(wrong.value)


def test_a_list_that_is_not_there_says_where_it_would_be(tmp_path: Path) -> None:
    """The path and the variable that moves it are in the error."""
    with pytest.raises(AgentSpecInvalidError) as missing:
        load_entry("x", tmp_path / "none.toml")
    assert "INFERENCE_DB" in missing.value.hint


def test_a_source_that_cannot_be_read_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next source is tried; only when none has a key is the first problem the failure."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    damaged = tmp_path / "key.json"
    damaged.write_text("{")
    sources = (FromKeyring("s", "nobody"), FromFile(str(damaged), "a"), FromEnv("KIMI"))

    assert ("k",) == Credentials(sources, is_named=True).find({"KIMI": "k"})
    with pytest.raises(ProviderFailed, match="keyring needs a package"):
        Credentials(sources, is_named=True).find({})
