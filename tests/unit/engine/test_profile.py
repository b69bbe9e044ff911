"""Profiles: where they are found, what they may hold, and that their filter holds when a call is made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plait.config.repository_parts import parts_of
from plait.core.errors import ConfigError
from plait.core.messages import ToolCall
from plait.engine.agent import Agent
from plait.engine.kernel_config import Config
from plait.engine.kernel_face import build_runtime
from plait.engine.profile import Profile
from plait.engine.profile_files import load_profile, profile_of
from plait.engine.trusting import trust_store
from plait.kernel.tools import Tool, ToolTable
from plait.testing import Call, ScriptedModel

BUNDLED = ("coder", "planner", "researcher", "reviewer", "safe")
CHANGING = {"write_file", "str_replace", "edit_file", "apply_patch", "exec_shell", "bash", "nohup"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a folder of its own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    (tmp_path / "work" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


@pytest.mark.parametrize("name", BUNDLED)
def test_each_bundled_profile_says_how_to_work(name: str) -> None:
    """Each has words and a rubric; those that only look have no tool that changes anything."""
    found = load_profile(name)

    assert found is not None
    assert name == found.name
    assert len((found.system_prompt or "").split()) > 30
    assert found.rubric
    if name != "coder":
        assert CHANGING.isdisjoint(found.tool_filter or ())
    assert (found.tool_filter is None, found.tool_filter == []) == (name == "coder", name == "planner")


def test_the_nearest_file_of_a_name_counts(home: Path, tmp_path: Path) -> None:
    """Named folders, the trusted project, the user, the bundled ones, in this order; an untrusted project's waits."""
    places = [tmp_path / "more", tmp_path / "work" / ".plait" / "profiles", home / ".config" / "plait" / "profiles"]
    for place in places:
        place.mkdir(parents=True)
        (place / "safe.toml").write_text(f'rubric = "{place.parts[-2]}"\n')

    def rubric(*folders: Path) -> str | None:
        found = load_profile("safe", search_dirs=folders)
        return None if found is None else found.rubric

    assert (tmp_path.name, "plait") == (rubric(places[0]), rubric())
    trust_store().trust(parts_of(tmp_path / "work"))
    assert ".plait" == rubric()


def test_a_name_that_is_none_is_told(tmp_path: Path) -> None:
    """F4: the loader has None for an unknown name and for a path; whoever needs one is told the nearest."""
    assert [None] * 4 == [load_profile(name) for name in ("reviwer", "../safe", "", "/etc/passwd")]
    for name, hint in {"reviwer": "did you mean 'reviewer'?", "zzz": "there are coder, planner"}.items():
        with pytest.raises(ConfigError, match="no profile is called") as caught:
            profile_of(name, tmp_path)
        assert hint in caught.value.hint
    mine = tmp_path / "work" / ".plait" / "profiles"
    mine.mkdir(parents=True)
    (mine / "mine.toml").touch()
    with pytest.raises(ConfigError, match=r"mine\.toml' is not trusted"):
        profile_of("mine", tmp_path / "work")


@pytest.mark.parametrize(
    "text, message, hint",
    [
        ("\ntool_filters = []", "p.toml:2: 'tool_filters' is no part of a profile", "did you mean 'tool_filter'?"),
        ("tool_filter = 'read_file'", "p.toml:1: 'tool_filter' is 'read_file'", "a list of names"),
        ("reasoning = 'hard'", "p.toml:1: 'reasoning' is 'hard'", "low, medium or high"),
        ("system_prompt = 3", "p.toml:1: 'system_prompt' is 3", "text"),
        ("rubric = ", "is no TOML", "mend it"),
    ],
)
def test_a_file_that_means_nothing_is_told_with_its_line(tmp_path: Path, text: str, message: str, hint: str) -> None:
    """A misspelt or mistyped member is an error, and never a profile that permits everything."""
    (tmp_path / "p.toml").write_text(text)

    with pytest.raises(ConfigError) as caught:
        load_profile("p", search_dirs=[tmp_path])

    assert message in caught.value.message
    assert hint in caught.value.hint


def test_what_is_recorded_comes_back() -> None:
    """What a profile permits survives its record; what is no profile is none."""
    for profile in (Profile("a", "words", [], reasoning="high"), Profile("b", None, ["x"]), Profile("c")):
        told = Profile.told(profile.to_dict())
        assert told is not None
        assert profile.to_dict() == told.to_dict()
    assert None is Profile.told(None) is Profile.told("safe")


def test_a_filter_holds_when_a_call_is_made() -> None:
    """A14: a tool that is filtered out is not shown, and a call to it is refused, under each of its names."""
    ran: list[str] = []
    tools = [
        Tool(name, "Do it.", lambda name=name: ran.append(name), {"type": "object"}) for name in ("look", "change")
    ]
    model = ScriptedModel([[Call("change"), Call("look")], "done", [Call("look")], "done"])
    agent = Agent(model, tools)

    result = agent.run("go", profile=Profile("p", "Look only.", ["look"]))
    assert ["look"] == [tool.name for tool in model.requests[0].setup.tools]
    assert "Look only." in (model.requests[0].setup.system or "")
    assert ["The tool 'change' is not permitted here.", ""] == [
        each.content for each in result.messages[2].tool_results
    ]
    nothing = agent.run("go", profile="planner")

    assert "not permitted" in nothing.messages[2].tool_results[0].content
    assert ((), ["look"]) == (model.requests[2].setup.tools, ran)
    with pytest.raises(ConfigError, match="no profile is called"):
        agent.run("go", profile="plannner")


def test_a_filter_means_a_tool_by_all_its_names() -> None:
    """Whoever permits a tool by another name permits it, and whoever permits one permits its other names, no more."""
    tools = [
        Tool("glob", "Find.", print, {"type": "object"}),
        Tool("exec_shell", "Run.", print, {"type": "object"}),
        Tool("find_files", "Find.", print, {"type": "object"}, alias_of="glob"),
        Tool("bash", "Run.", print, {"type": "object"}, alias_of="exec_shell"),
    ]

    def refused(*allowed: str) -> list[str]:
        table = ToolTable(tools, allowed=allowed)
        names = [tool.name for tool in tools]
        return [name for name in names if table.check(ToolCall("c", name, "{}")) is not None]

    assert ["exec_shell", "bash"] == refused("find_files") == refused("glob")
    assert ["glob", "find_files"] == refused("bash")
    assert [tool.name for tool in tools] == refused()
    assert ["glob"] == [schema.name for schema in ToolTable(tools, allowed=["find_files"]).schemas]
    assert ["glob"] == [schema.name for schema in ToolTable((), allowed=["find_files"]).of(tools).schemas]


def test_f4_a_configured_profile_is_that_of_each_run(tmp_path: Path) -> None:
    """F4: the provider gets no tools and the profile's words; a run may name another; an unknown one is no agent."""
    config = Config(working_dir=str(tmp_path), profile="planner")
    with ScriptedModel(["a plan", "looked"]) as model:
        agent, _, _ = build_runtime(config, model=model)
        agent.run("go")
        agent.run("go", profile="safe")

    assert () == model.requests[0].setup.tools
    assert "You plan and do not carry out" in (model.requests[0].setup.system or "")
    assert {"read_file", "search_text"} <= {tool.name for tool in model.requests[1].setup.tools}
    assert CHANGING.isdisjoint(tool.name for tool in model.requests[1].setup.tools)
    with pytest.raises(ConfigError, match="no profile is called 'plan'"):
        build_runtime(replace(config, profile="plan"), model=model)
