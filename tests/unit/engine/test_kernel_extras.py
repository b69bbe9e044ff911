"""What `build_runtime` gives only where it is asked for: rollback, plugins."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from plait.engine.approval import AutoApprover
from plait.engine.kernel_config import Config
from plait.engine.kernel_face import build_runtime
from plait.testing import Call, ScriptedModel

PLUGIN = """
from plait import Tool

def act() -> str:
    return "done"

TOOLS = [
    Tool("own", "does it", act),
    Tool("bash", "another bash", act),
    Tool("odd", "has no schema", act, parameters={"type": 7}),
]
"""


def test_e6_a_model_rolls_its_changes_back(tmp_path: Path) -> None:
    """With checkpoints `rollback` stands behind the built-in tools, is not asked about, and says what it did."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    steps = [
        [
            Call("write_file", {"path": "a", "content": "x"}, "c1"),
            Call("write_file", {"path": "new/c", "content": "x"}, "c2"),
            Call("edit_file", {"path": "b", "old": "b", "new": "x"}, "c3"),
        ],
        Call("rollback", {}, "c4"),
        Call("rollback", {}, "c5"),
        "done",
    ]
    asked: list[str] = []

    class Asked(AutoApprover):
        def approve(self, call: object, tool: object) -> bool:
            asked.append(getattr(call, "name", ""))
            return True

    with ScriptedModel(steps) as model:
        config = Config(working_dir=str(tmp_path), checkpoints=True, enable_todo=True)
        agent, _, _ = build_runtime(config, model=model, approver=Asked("auto_allow"))
        assert "done" == agent.run("go").text

    assert ["bash", "rollback", "todo"] == [tool.name for tool in model.requests[0].setup.tools][-3:]
    assert {"write_file", "edit_file"} == set(asked)
    first, second = (request.messages[-1].tool_results[0] for request in model.requests[2:4])
    assert first.content.startswith("Rolled back 3 file(s)\n")
    assert (False, False) == (first.is_error, second.is_error)
    assert second.content.startswith("Nothing to roll back")
    assert {"a": "a", "b": "b"} == {path.name: path.read_text() for path in tmp_path.iterdir()}


def test_plugins_come_after_the_built_in_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own are loaded; a name that is taken, a bad schema and the repository's are skipped with a warning."""
    own, work = tmp_path / "home/plugins", tmp_path / "work"
    for folder in (own, work / "plugins"):
        folder.mkdir(parents=True)
        (folder / "p.py").write_text(PLUGIN)
        (folder / "p.py").chmod(0o644)
    monkeypatch.setenv("PLAIT_HOME", str(own.parent))
    with ScriptedModel([Call("own", {}, "c1"), "done"]) as model:
        config = Config(working_dir=str(work), enable_plugins=True, plugins_dir="plugins")
        with pytest.warns(UserWarning, match="plugin") as told:
            agent, _, _ = build_runtime(config, model=model)
        assert "done" == agent.run("go").text
    said = [str(warning.message) for warning in told]
    assert 3 == len(said), said
    for part in ("'bash' of a plugin in", "'odd'", "the repository is not trusted"):
        assert any(part in words for words in said), part
    assert ["bash", "own"] == [tool.name for tool in model.requests[0].setup.tools][-2:]
    assert "done" == model.requests[1].messages[-1].tool_results[0].content

    with ScriptedModel(["done"]) as model, warnings.catch_warnings():
        warnings.simplefilter("error")
        build_runtime(Config(working_dir=str(work)), model=model)[0].run("go")
    assert "own" not in [tool.name for tool in model.requests[0].setup.tools]
