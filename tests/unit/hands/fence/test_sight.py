"""Which directories a program needs that a fence does not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.hands.fence.ground import Ground
from plait.hands.fence.policy import SandboxPolicy
from plait.hands.fence.sight import unseen

SHELL = "#!/usr/bin/sh\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Programs as people install them, beside a workspace; the system is `/usr` alone."""
    for path, text in {
        "work/run.sh": "#!../venv/bin/python\n",
        "work/tool": SHELL,
        "apps/lone": SHELL,
        "apps/bin/own": SHELL,
        "js/node_modules/server/cli.js": "#!/usr/bin/env -S own --flag\n",
        "pythons/3/bin/python3": "\x7fELF",
        "venv/bin/server": "#!PLACE/venv/bin/python\n",
    }.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace("PLACE", str(tmp_path)))
    (tmp_path / "js/node_modules/.bin").mkdir()
    (tmp_path / "js/node_modules/.bin/server").symlink_to("../server/cli.js")
    (tmp_path / "venv/bin/python").symlink_to(tmp_path / "pythons/3/bin/python3")
    return tmp_path


@pytest.mark.parametrize(
    "program, needed",
    [
        ("/usr/bin/env", ()),
        ("tool", ()),
        ("./tool", ()),
        ("nowhere", ()),
        ("../apps/lone", ("apps",)),
        ("own", ("apps",)),
        ("../js/node_modules/.bin/server", ("js/node_modules", "apps")),
        ("../venv/bin/server", ("venv", "pythons/3")),
        ("run.sh", ()),
        ("./run.sh", ("venv", "pythons/3")),
    ],
)
def test_what_a_program_needs(folder: Path, program: str, needed: tuple[str, ...]) -> None:
    """Its links, its interpreter and what stands beside them; nothing for what can be seen, or is not there."""
    policy, ground = SandboxPolicy(folder / "work"), Ground()
    path = f"{folder / 'apps/bin'}:relative:/usr/bin"
    assert tuple(str(folder / name) for name in needed) == unseen(policy, ground, program, path=path)
    shown = SandboxPolicy(folder / "work", read_only_paths=(folder,))
    assert () == unseen(shown, ground, program, path=path)


def test_a_home_is_never_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program in a home's own `bin` that directory alone would do."""
    monkeypatch.setenv("HOME", str(folder / "apps"))
    assert (str(folder / "apps/bin"),) == unseen(SandboxPolicy(folder / "work"), Ground(), str(folder / "apps/bin/own"))
