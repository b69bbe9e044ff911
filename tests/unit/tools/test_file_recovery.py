"""A file change whose end nobody saw: recorded before it, told after a look at the file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from plait.core.cancel import Cancel
from plait.core.messages import ToolCall, ToolResult
from plait.kernel.tools import Tool, ToolContext
from plait.session.defaults import LIBRARY
from plait.tools.aliases import alias_tools, default_tools
from plait.tools.coding import coding_tools
from plait.tools.library import default_tool_spec
from plait.tools.toolbox import Toolbox

from .conftest import MakeToolbox

OLD, NEW = "one\ntwo\n", "one\n2\n"


def sha(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


class Lived:
    """A call of a tool as a host would make it: what is recorded, what it does, what is found out later."""

    def __init__(self, tool: Tool, arguments: Mapping[str, object]) -> None:
        self.tool = tool
        self.keywords = tool.keywords(ToolCall.of("c1", tool.name, dict(arguments)).arguments)
        assert tool.recovery is not None
        self.intent = tool.recovery.intend(self.keywords, self.context())

    def context(self, intent: Mapping[str, object] | None = None) -> ToolContext:
        """Return what the tool may know of the call."""
        return ToolContext("c1", "s/r/c1", Cancel(), "s", intent)

    def run(self) -> None:
        """Run the call with the intent that was recorded."""
        assert self.tool.context_parameter is not None
        self.tool.fn(**self.keywords, **{self.tool.context_parameter: self.context(self.intent)})

    def settle(self) -> ToolResult:
        """Find out what became of it."""
        assert self.tool.recovery is not None
        result = self.tool.recovery.settle(self.keywords, self.context(self.intent))
        assert isinstance(result, ToolResult)
        return result


def tools_of(box: Toolbox) -> dict[str, Tool]:
    """Return the file tools of every face, by face and name."""
    own = box.tools()
    schemas, table = default_tool_spec()
    from_spec = LIBRARY.tools_of(schemas, table, box)
    strict = coding_tools(box.root, authorize=lambda request: True)
    faces = {
        "session": [*own, *alias_tools(box, own)],
        "spec": [*from_spec, *alias_tools(box, from_spec)],
        "kernel": default_tools(box),
        "strict": strict,
    }
    return {f"{face} {tool.name}": tool for face, tools in faces.items() for tool in tools}


WRITE = {"path": "f.txt", "content": NEW}
REPLACE = {"path": "f.txt", "old_str": "two", "new_str": "2"}
EDIT = {"path": "f.txt", "old": "two", "new": "2"}
CASES = [
    ("session write_file", WRITE),
    ("session str_replace", REPLACE),
    ("session edit_file", EDIT),
    ("spec write_file", WRITE),
    ("spec str_replace", REPLACE),
    ("spec edit_file", EDIT),
    ("kernel write_file", WRITE),
    ("kernel edit_file", EDIT),
    ("strict write_file", {**WRITE, "overwrite": True}),
    ("strict edit_file", {"path": "f.txt", "old_text": "two", "new_text": "2"}),
]
each = pytest.mark.parametrize("name, arguments", CASES, ids=[name.replace(" ", "-") for name, _ in CASES])


@each
def test_the_intent_names_the_file_and_what_it_holds_before_and_after(
    box: Toolbox, root: Path, name: str, arguments: Mapping[str, object]
) -> None:
    """Under every name a change says beforehand which file it makes what of, relative to the workspace."""
    (root / "f.txt").write_text(OLD)
    lived = Lived(tools_of(box)[name], arguments)

    assert lived.intent is not None
    assert ("f.txt", sha(OLD), sha(NEW)) == tuple(lived.intent[key] for key in ("path", "before", "after"))
    assert (OLD, ["f.txt"]) == ((root / "f.txt").read_text(), [path.name for path in root.iterdir()])


@each
def test_what_became_of_a_change_is_found_out(
    box: Toolbox, root: Path, name: str, arguments: Mapping[str, object]
) -> None:
    """Applied, not applied, or changed since by somebody else: the file itself says which."""
    (root / "f.txt").write_text(OLD)
    lived = Lived(tools_of(box)[name], arguments)

    before = lived.settle()
    lived.run()
    after = lived.settle()
    (root / "f.txt").write_text("theirs")
    since = lived.settle()

    assert [("cancelled", "Not applied."), ("ok", "Applied."), ("unknown", "Changed since.")] == [
        (result.status, result.content.partition(". ")[0] + ".") for result in (before, after, since)
    ]
    assert ["Repeat the call", "Do not repeat it", "Read the file"] == [
        next(words for words in ("Repeat the call", "Do not repeat it", "Read the file") if words in result.content)
        for result in (before, after, since)
    ]
    assert sha(NEW) == (after.data or {})["sha256"]


def test_a_new_file_in_a_new_directory(box: Toolbox, root: Path) -> None:
    """A file that was not there before has no digest before, and when it is still not there it was not made."""
    lived = Lived(tools_of(box)["session write_file"], {"path": "a/b/f.txt", "content": NEW})

    assert lived.intent is not None
    assert (None, sha(NEW)) == (lived.intent["before"], lived.intent["after"])
    assert "it does not exist" in lived.settle().content
    lived.run()
    assert "ok" == lived.settle().status
    (root / "a/b/f.txt").unlink()
    (root / "a/b/f.txt").mkdir()
    assert "unknown" == lived.settle().status


def test_the_file_that_is_written_first_has_the_recorded_name_and_is_removed(box: Toolbox, root: Path) -> None:
    """What a crash leaves beside the target is known by name, and goes when the call is looked after."""
    (root / "f.txt").write_text(OLD)
    lived = Lived(tools_of(box)["session write_file"], WRITE)
    assert lived.intent is not None
    (root / str(lived.intent["temporary"])).write_text("half")

    assert "cancelled" == lived.settle().status
    assert ["f.txt"] == [path.name for path in root.iterdir()]


@pytest.mark.parametrize("name", ["f.txt", ".plait-/../f.txt", "../outside", ".plait-0123456789abcdef.tmp/x"])
def test_no_other_name_is_removed(box: Toolbox, root: Path, name: str) -> None:
    """Whatever a damaged intent says, only names of temporary files are removed."""
    (root / "f.txt").write_text(OLD)
    (root.parent / "outside").write_text("kept")
    lived = Lived(tools_of(box)["session write_file"], WRITE)
    assert lived.intent is not None
    lived.intent = {**lived.intent, "temporary": name}

    assert "cancelled" == lived.settle().status
    assert (OLD, "kept") == ((root / "f.txt").read_text(), (root.parent / "outside").read_text())


def test_another_workspace_cannot_tell(box: Toolbox, root: Path, tmp_path: Path) -> None:
    """A session that goes on elsewhere does not take the files there for those that were changed."""
    (root / "f.txt").write_text(OLD)
    lived = Lived(tools_of(box)["session write_file"], WRITE)
    (tmp_path / "other").mkdir()
    other = Toolbox(tmp_path / "other")
    lived.tool = tools_of(other)["session write_file"]

    assert "unknown" == lived.settle().status
    assert "another workspace" in lived.settle().content
    other.close()


REFUSED: list[tuple[str, Callable[[Path], object], Mapping[str, object]]] = [
    ("session str_replace", lambda root: None, REPLACE),
    ("session edit_file", lambda root: (root / "f.txt").write_text("two two"), EDIT),
    ("session write_file", lambda root: (root / "f.txt").mkdir(), WRITE),
]


@pytest.mark.parametrize("name, prepare, arguments", REFUSED, ids=[name.replace(" ", "-") for name, *_ in REFUSED])
def test_what_the_call_would_refuse_has_no_intent(
    box: Toolbox, root: Path, name: str, prepare: Callable[[Path], object], arguments: Mapping[str, object]
) -> None:
    """A change that cannot be made is not planned either: the reason is the call's to give."""
    from plait.core.errors import Refusal

    prepare(root)
    with pytest.raises(Refusal):
        Lived(tools_of(box)[name], arguments)


def test_what_the_user_allowed_beyond_the_workspace_is_looked_after_there(make: MakeToolbox, tmp_path: Path) -> None:
    """A change outside that was allowed is found out about, also by a process that was never told of the yes."""
    outside = tmp_path / "beside.txt"
    arguments = {"path": str(outside), "content": NEW}
    box = make(policy="cli")
    box.allow_outside("c1", box.look(ToolCall.of("c1", "write_file", arguments)))
    lived = Lived(tools_of(box)["session write_file"], arguments)
    lived.run()

    lived.tool = tools_of(make(policy="cli"))["session write_file"]
    assert ("ok", NEW) == (lived.settle().status, outside.read_text())
