"""Plugins bring tools, and whatever is wrong with one costs its own tools and nothing else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from plait.core.errors import ConfigError
from plait.tools.plugins import load_plugin_tools, load_plugins, user_folder

TOOL = "from plait import Tool\n\ndef act() -> str:\n    return 'done'\n\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the user's own folder of plugins, empty."""
    made = tmp_path / "home/plugins"
    made.mkdir(parents=True)
    return made


def put(folder: Path, name: str, text: str, mode: int = 0o644) -> Path:
    """Write a plugin."""
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def named(*names: str) -> str:
    """Return the source of tools of these names."""
    return "[" + ", ".join(f"Tool({name!r}, 'does it', act)" for name in names) + "]"


def test_h4_functions_and_lists_are_loaded_and_the_broken_is_reported(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`tools()`, `tools(working_dir)` and `TOOLS` count, in order of the files; nothing else does or breaks."""
    put(folder, "a.py", f"{TOOL}def tools():\n    return {named('a1')}\nTOOLS = {named('a2')[:-1]}, 'no tool', None]\n")
    put(folder, "b.py", f"{TOOL}def tools(working_dir):\n    return [Tool('b', working_dir, act)]\n")
    put(folder, "c.py", f"{TOOL}def tools(*, working_dir):\n    return (Tool('c', working_dir, act),)\n")
    put(
        folder,
        "d.py",
        f"from __future__ import annotations\nimport dataclasses\n{TOOL}@dataclasses.dataclass\nclass Kept:\n"
        f"    at: int = 1\nprint('said at import')\nTOOLS = {named('d')}\n",
    )
    put(folder, "_x.py", "raise RuntimeError('not even read')\n")
    put(folder, "note.txt", "no plugin")
    broken = {
        "e.py": "import sys\nsys.exit(3)\n",
        "f.py": "def tools(:\n",
        "g.py": "raise RuntimeError('sorry')\n",
        "h.py": "TOOLS = 7\n",
        "i.py": "class Odd(BaseException): pass\nraise Odd()\n",
        "j.py": "import nowhere_to_be_found\n",
        "k.py": "def tools(one, two):\n    return []\n",
        "l.py": "\0",
        "m.py": "class Mute(Exception):\n    def __str__(self):\n        raise RuntimeError\nraise Mute()\n",
    }
    for name, text in broken.items():
        put(folder, name, text)
    told: list[tuple[str, str]] = []

    tools = load_plugin_tools(folder, working_dir="/w", on_error=lambda p, e: told.append((p.name, type(e).__name__)))

    assert ["a1", "a2", "b", "c", "d"] == [tool.name for tool in tools]
    assert ("/w", "/w", "done") == (tools[2].description, tools[3].description, tools[0].fn())
    assert sorted(broken) == [name for name, _ in told]
    assert ["SystemExit", "SyntaxError", "RuntimeError", "TypeError", "Odd"] == [error for _, error in told][:5]
    said = capfd.readouterr()
    assert ("", "said at import\n") == (said.out, said.err)
    assert not (folder / "__pycache__").exists()
    assert load_plugin_tools(folder / "gone") == []
    assert len(load_plugin_tools(folder)) == 5


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions")
def test_what_others_could_have_written_is_refused(folder: Path, tmp_path: Path) -> None:
    """A file or folder that others may write to, a link, another user's file and a pipe are not run, and said so."""
    for name, mode in (("group.py", 0o664), ("world.py", 0o646)):
        put(folder, name, "raise AssertionError\n", mode)
    put(tmp_path, "elsewhere.py", "raise AssertionError\n")
    (folder / "link.py").symlink_to(tmp_path / "elsewhere.py")
    os.mkfifo(folder / "pipe.py", 0o600)
    if os.getuid() == 0:
        os.chown(put(folder, "theirs.py", "raise AssertionError\n"), 12_345, 0)
    put(folder, "mine.py", f"{TOOL}TOOLS = {named('mine')}\n")
    told: dict[str, BaseException] = {}

    def tell(path: Path, error: BaseException) -> None:
        told[path.name] = error

    assert ["mine"] == [tool.name for tool in load_plugin_tools(folder, on_error=tell)]
    assert all(isinstance(error, ConfigError) for error in told.values())
    assert {"group.py", "link.py", "pipe.py", "world.py"} <= told.keys()
    assert f"chmod go-w {folder}/world.py" in str(getattr(told["world.py"], "hint", ""))
    folder.chmod(0o777)
    assert [] == load_plugin_tools(folder, on_error=tell)
    assert "folder of plugins" in str(told["plugins"])


def test_the_users_own_are_loaded_and_the_repositorys_wait_for_trust(folder: Path, tmp_path: Path) -> None:
    """Only what lies outside of the working directory is loaded; a name that is taken is skipped; both are said."""
    work = tmp_path / "work"
    for inside in (work / ".plait/plugins", work / "plugins"):
        inside.mkdir(parents=True)
        put(inside, "evil.py", "raise AssertionError\n")
    (tmp_path / "more").mkdir()
    put(tmp_path / "more", "m.py", f"{TOOL}TOOLS = {named('mine', 'more')}\n")
    put(folder, "a.py", f"{TOOL}TOOLS = {named('bash', 'mine')}\n")
    put(folder, "b.py", "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\nraise Mute()\n")
    (tmp_path / "way").symlink_to(work / "plugins")

    environ = {"PLAIT_HOME": str(folder.parent)}
    found = load_plugins(environ, work, taken=["bash"], more=["plugins", tmp_path / "more", tmp_path / "way"])

    assert ["mine", "more"] == [tool.name for tool in found.tools]
    words = (
        *("b.py' could not be loaded: Mute", "'bash' of a plugin in", ".plait/plugins' are not loaded"),
        *("work/plugins' are not loaded", "'mine' of a plugin in", "way' are not loaded: the repository"),
    )
    assert [True] * 6 == [part in notice for part, notice in zip(words, found.notices, strict=True)]


def test_where_the_users_own_folder_is() -> None:
    """In plait's home where there is one, else beside the configuration."""
    homes = ({"PLAIT_HOME": "/p"}, {"XDG_CONFIG_HOME": "/c", "HOME": "/h"}, {"HOME": "/h"})
    assert ["/p/plugins", "/c/plait/plugins", "/h/.config/plait/plugins"] == [str(user_folder(home)) for home in homes]
