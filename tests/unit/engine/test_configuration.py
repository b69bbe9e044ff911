"""The configuration of a folder: the user's file, a trusted repository's, the environment, and what is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plait.config.repository_parts import parts_of
from plait.core.errors import ConfigError
from plait.engine.configuration import configuration
from plait.engine.kernel_config import Config
from plait.engine.kernel_face import build_runtime
from plait.engine.kernel_files import resolve_config
from plait.engine.trusting import trust_store
from plait.testing import ScriptedModel


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    path = tmp_path / "home" / ".config" / "plait" / "plait.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def repository(tmp_path: Path, own: Path) -> Path:
    """A repository with settings of its own, which nobody trusts yet."""
    root = tmp_path / "home" / "code" / "r"
    (root / ".git").mkdir(parents=True)
    (root / "src").mkdir()
    (root / "plait.toml").write_text('model = "theirs"\nmax_steps = 7\nlog_dir = "logs"\n')
    return root


def test_the_order_of_places(own: Path, repository: Path, tmp_path: Path) -> None:
    """F1: given beats environment beats project beats user beats default; a named file stands alone."""
    own.write_text('model = "mine"\nmax_output_tokens = 1\nmax_steps = 1\nmax_iterations = 1\n')
    trust_store().trust(parts_of(repository))
    environ = {"PLAIT_MAX_STEPS": "9", "XDG_CONFIG_HOME": str(own.parent.parent), "HOME": str(tmp_path / "home")}

    def resolved(**more: object) -> Config:
        return resolve_config(cwd=repository / "src", env=environ, **more)[0]

    assert ("theirs", 9, 1, 8_192) == tuple(
        getattr(resolved(), name) for name in ("model", "max_iterations", "max_output_tokens", "output_reserve")
    )
    assert ("given", 3) == (resolved(model="given", max_iterations=3).model, resolved(max_iterations=3).max_iterations)
    (tmp_path / "other.toml").write_text("max_tool_result_tokens = 5\n")
    alone, projects = resolve_config(tmp_path / "other.toml", cwd=repository, env=environ)
    assert ("", 9, 5, None) == (alone.model, alone.max_iterations, alone.max_tool_result_tokens, projects)
    assert alone.model == Config.load(tmp_path / "other.toml", env={}).model
    assert 4 == Config.load(tmp_path / "other.toml", env=environ, max_iterations=4).max_iterations
    with pytest.raises(ConfigError, match="cannot read"):
        Config.load(tmp_path / "none.toml")


def test_paths_are_meant_from_the_projects_root(own: Path, repository: Path) -> None:
    """F2: in a folder inside a project its paths are under its root; whole ones and the home's stay."""
    own.write_text('mcp_log_dir = "~/logs"\nplugins_dir = "/srv/plugins"\n')
    trust_store().trust(parts_of(repository))

    found, projects = resolve_config(cwd=repository / "src")

    assert repository / "plait.toml" == projects
    assert (str(repository), str(repository / "logs")) == (found.working_dir, found.log_dir)
    assert (str(own.parents[2] / "logs"), "/srv/plugins") == (found.mcp_log_dir, found.plugins_dir)


def test_the_users_own_folder_makes_no_project_of_the_home(own: Path, repository: Path) -> None:
    """F3: a repository below a home with plait's own folders is its own root."""
    own.write_text("")
    (own.parents[2] / "plait.toml").touch()

    assert repository == configuration(repository / "src", {}).root


def test_a_repository_waits_for_trust(own: Path, repository: Path) -> None:
    """F7: nothing of an untrusted file counts, and that is said once; what changed since it was trusted waits again."""
    own.write_text('model = "mine"\n')

    found = configuration(repository, {**_environ(own)})
    assert ("mine", None) == (found.get("model"), found.get("max_steps"))
    assert f"not trusted (plait trust): {repository / 'plait.toml'}" in found.notice
    assert "theirs" == configuration(repository, _environ(own), trust=True).get("model")
    assert "" == configuration(repository, _environ(own), trust=False).notice

    trust_store().trust(parts_of(repository))
    assert ("theirs", "") == ((found := configuration(repository, _environ(own))).get("model"), found.notice)

    (repository / "plait.toml").write_text('endpoint = "http://elsewhere.example/v1"\n')
    found = configuration(repository, _environ(own))
    assert ("mine", None) == (found.get("model"), found.get("endpoint"))
    assert "not trusted" in found.notice
    (repository / "plait.toml").write_text('[permissions]\ndeny = ["Bash"]\n')
    assert "" == configuration(repository, _environ(own)).notice


def test_a_fault_of_a_trusted_file_is_told_with_its_place(own: Path, repository: Path) -> None:
    """A misspelt setting stops before anything begins, with file, line and the nearest name."""
    (repository / "plait.toml").write_text("\n\nmax_stepps = 3\n")
    trust_store().trust(parts_of(repository))

    with pytest.raises(ConfigError) as caught:
        configuration(repository, _environ(own))

    assert f"{repository / 'plait.toml'}:3: 'max_stepps' is no setting" == caught.value.message
    assert "did you mean 'max_steps'?" == caught.value.hint


def _environ(own: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(own.parent.parent), "HOME": str(own.parents[2])}


def test_a_configured_counter_counts_for_the_kernels_agent(own: Path, tmp_path: Path) -> None:
    """A request that does not fit by it is not made; a counter that is none is no agent."""
    pytest.importorskip("rs_bpe")
    own.write_text('token_counter = "o200k"\n')
    config = resolve_config(cwd=tmp_path, env=_environ(own), redact_tool_output=False)[0]
    with ScriptedModel([], context_window=20_000) as model:
        result = build_runtime(config, model=model)[0].run(" word" * 20_001)
    assert "so it was not sent" in str(result.error)
    with pytest.raises(ConfigError, match="'p50k' is unknown"):
        build_runtime(replace(config, token_counter="p50k"), model=model)
