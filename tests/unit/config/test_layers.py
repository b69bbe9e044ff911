"""Settings in layers: what each says, with its place, and which of several counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.config.keys import KEYS
from plait.config.layers import (
    Layer,
    Setting,
    layer_of_environment,
    layer_of_file,
    merged,
    strange_variables,
    with_model,
)
from plait.config.places import project_root
from plait.core.errors import ConfigError

EXAMPLE = b"""# mine
model = "qwen3"   # the usual one
max_cost_usd = 0.5

awareness = ["time", "git"]
system_prompt_supplement = '''
max_steps = 3
'''

[permissions]
allow = ["Read"]

[models.big]
model = "org/big-1"
endpoint = "openrouter"
context_window = 200_000
"""


def of(**settings: object) -> Layer:
    return Layer({name: Setting(value, "a") for name, value in settings.items()})


def test_a_file_says_its_settings_with_their_lines() -> None:
    """Every value has its place; what stands inside of a text over several lines is no setting."""
    layer = layer_of_file(EXAMPLE, "plait.toml")

    assert {
        "model": Setting("qwen3", "plait.toml:2"),
        "max_cost_usd": Setting(0.5, "plait.toml:3"),
        "awareness": Setting(["time", "git"], "plait.toml:5"),
        "system_prompt_supplement": Setting("max_steps = 3\n", "plait.toml:6"),
    } == dict(layer.settings)
    assert {
        "model": Setting("org/big-1", "plait.toml:14"),
        "endpoint": Setting("openrouter", "plait.toml:15"),
        "context_window": Setting(200_000, "plait.toml:16"),
    } == dict(layer.models["big"])


@pytest.mark.parametrize(
    "text, message, hint",
    [
        ("\nmodle = 'x'", "f:2: 'modle' is no setting", "did you mean 'model'?"),
        ("[permisions]\nallow = []", "f:1: 'permisions' is no setting", "did you mean 'permissions'?"),
        ("zzz = 1", "f:1: 'zzz' is no setting", "`plait config show --all` lists the settings"),
        ("max_steps = '3'", "f:1: 'max_steps' is '3'", "a whole number from 1"),
        ("max_steps = 0", "f:1: 'max_steps' is 0", "a whole number from 1"),
        ("max_steps = true", "f:1: 'max_steps' is True", "a whole number from 1"),
        ("max_cost_usd = nan", "f:1: 'max_cost_usd' is nan", "a number from 0"),
        ("durable = 1", "f:1: 'durable' is 1", "true or false"),
        ("approval_allowlist = 'ls'", "f:1: 'approval_allowlist' is 'ls'", "a list of texts"),
        ("strict_cache_proof = 'always'", "f:1: 'strict_cache_proof' is 'always'", "'every' or 'auto'"),
        ("key_env = 'sk-123 456'", "f:1: 'key_env' is what it may not be", "never a key"),
        ("compaction_policy = 'x'", "f:1: 'compaction_policy' is 'x'", "threshold, every_turn, never"),
        ("tool_loading = 'x'", "f:1: 'tool_loading' is 'x'", "eager, none, kimi"),
        ("awareness = 'on'", "f:1: 'awareness' is 'on'", "'off', or a list of senses"),
        ("enable_kanban = true", "f:1: 'enable_kanban' is not available yet", "leave enable_kanban out"),
        ("[models.a]\nendpont = 'x'", "f:2: 'endpont' is no setting of a model", "did you mean 'endpoint'?"),
        ("models = 3", "f:1: 'models' is no table", "[models.NAME]"),
        ("[models]\na = 1", "f:2: 'a' is no table", "[models.a]"),
        ("model = ", "'f' is no TOML", "mend it"),
    ],
)
def test_what_means_nothing_is_told_with_its_line_and_what_was_meant(text: str, message: str, hint: str) -> None:
    """An unknown name, a value of a wrong kind and a setting of a later version each name file and line."""
    with pytest.raises(ConfigError) as caught:
        layer_of_file(text.encode(), "f")

    assert message in caught.value.message
    assert hint in caught.value.hint


def test_older_names_are_understood() -> None:
    """Names of the kernel's flat file say the same; of a provider and an address, the address says where."""
    text = b"base_url = 'http://h/v1'\nprovider = 'openai'\nmax_iterations = 3\nkeep_recent_turns = 4"

    assert {
        "endpoint": Setting("http://h/v1", "f:1"),
        "max_steps": Setting(3, "f:3"),
        "compaction_keep_last_turns": Setting(4, "f:4"),
    } == dict(layer_of_file(text, "f").settings)


def test_the_environment_is_read_by_kind() -> None:
    """Switches, numbers and lists are what their setting is; an empty variable says nothing; a wrong one is named."""
    told = {
        "PLAIT_MODEL": " qwen ",
        "PLAIT_DURABLE": "No",
        "PLAIT_DEDUPE_READS": "ON",
        "PLAIT_MAX_COST_USD": "1",
        "PLAIT_TIMEOUT": "2.5",
        "PLAIT_AWARENESS": "time, git,",
        "PLAIT_STRICT_CACHE_PROOF": "every",
        "PLAIT_MAX_STEPS": "",
        "MODEL": "other",
    }

    found = {name: setting.value for name, setting in layer_of_environment(told).settings.items()}

    assert {
        "model": "qwen",
        "durable": False,
        "dedupe_reads": True,
        "max_cost_usd": 1,
        "timeout": 2.5,
        "awareness": ["time", "git"],
        "strict_cache_proof": "every",
    } == found
    assert "off" == layer_of_environment({"PLAIT_AWARENESS": "off"}).settings["awareness"].value
    for name, text in {"MAX_STEPS": "many", "DURABLE": "maybe", "MAX_COST_USD": "inf"}.items():
        with pytest.raises(ConfigError, match=f"PLAIT_{name}: '{name.lower()}' is"):
            layer_of_environment({f"PLAIT_{name}": text})


def test_variables_that_are_nearly_settings_are_told() -> None:
    """A misspelt variable is found, and plait's own and others are left alone."""
    told = {"PLAIT_MODLE": "x", "PLAIT_HOME": "/", "PLAIT_API_KEY": "k", "PLAIT_MY_OWN_THING": "1", "PATH": ""}

    assert [("PLAIT_MODLE", "PLAIT_MODEL")] == list(strange_variables(told))


def test_the_last_layer_has_the_word() -> None:
    """Keys are overridden one by one; the tables of models too."""
    low = Layer(of(model="a", retries=1).settings, {"m": of(context_window=1, token_counter="auto").settings})
    high = Layer(of(model="b").settings, {"m": of(context_window=2).settings})

    found = merged(low, high)

    assert ("b", 1, None) == (found.get("model"), found.get("retries"), found.get("timeout"))
    assert {"context_window": 2, "token_counter": "auto"} == {k: v.value for k, v in found.models["m"].items()}


def test_a_key_never_goes_to_an_endpoint_of_a_higher_layer() -> None:
    """A layer that names an endpoint takes the place of all that lower ones said of endpoints and their keys."""
    found = merged(of(endpoint="mine", key_env="MY_KEY", model="a"), of(endpoint="http://other.example/v1"))
    assert ("http://other.example/v1", None, "a") == tuple(map(found.get, ("endpoint", "key_env", "model")))

    found = merged(of(endpoint="mine", key_env="MY_KEY"), of(inference_db="kimi"))
    assert (None, None, "kimi") == tuple(map(found.get, ("endpoint", "key_env", "inference_db")))

    table = merged(of(endpoint="mine", key_env="MY_KEY"), Layer({}, {"m": of(endpoint="theirs").settings}))
    assert ("theirs", None, "m") == tuple(map(with_model(table, "m").get, ("endpoint", "key_env", "model")))
    assert table == with_model(table, "other") == with_model(table, None)


def test_every_setting_can_come_from_the_environment() -> None:
    """Each has a variable of its own, and none of them is one that means something else."""
    variables = [key.variable for key in KEYS.values()]

    assert len(set(variables)) == len(variables)
    assert {"PLAIT_HOME", "PLAIT_API_KEY"}.isdisjoint(variables)


def test_a_project_is_its_repository_or_where_its_settings_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repository's root counts first; outside of one the nearest settings do, the home's and above never."""
    home = tmp_path / "home"
    deep = home / "code" / "r" / "src"
    deep.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for place in (tmp_path, home):
        (place / "plait.toml").touch()
    (home / ".config" / "plait").mkdir(parents=True)

    assert deep == project_root(deep)
    (home / "code" / "plait.toml").touch()
    assert home / "code" == project_root(deep)
    (home / "code" / "r" / ".git").mkdir()
    assert home / "code" / "r" == project_root(deep)
