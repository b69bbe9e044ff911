"""`plait demo` from the installed command and from a wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.e2e.command import environment, plait

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_demo_mends_the_sample_and_says_how(tmp_path: Path) -> None:
    """The tests are green, the diff and the numbers are shown, and nobody takes the script for a model."""
    ran = plait("demo", cwd=tmp_path, env=environment(OPENAI_API_KEY="k", HTTP_PROXY="http://127.0.0.1:1"))

    assert (0, "") == (ran.code, ran.err)
    assert "The model in this demo is scripted" in ran.out
    assert "+            merged[-1] = (merged[-1][0], max(merged[-1][1], end))" in ran.out
    assert "the tests pass" in ran.out
    summary = ran.out.splitlines()[-1]
    assert summary.startswith("6 steps, ")
    assert "% from the cache" in summary
    assert [] == list(tmp_path.iterdir())


def test_the_demo_leaves_its_folder_when_asked_to(tmp_path: Path) -> None:
    """--json prints one object, --keep names the folder, and its tests really pass."""
    ran = plait("demo", "--json", "--keep", env=environment(TMPDIR=str(tmp_path)))

    told = ran.json
    folder = Path(told["structured"]["folder"])
    assert (0, "completed", True) == (ran.code, told["status"], told["structured"]["tests_pass"])
    assert told["usage"]["cached"] > 0
    assert tmp_path == folder.parent
    tests = subprocess.run([sys.executable, "-m", "unittest"], cwd=folder, capture_output=True, check=False)
    assert 0 == tests.returncode


def test_the_local_model_names_the_parts_it_lacks() -> None:
    """Without the package or the weights, exit code 2 and the command that brings them."""
    ran = plait("demo", "--model", "local", "--json")

    assert (2, "ConfigError") == (ran.code, ran.json["error"]["class"])
    assert "pip install" in ran.err or "--fetch" in ran.err


def test_a_wheel_brings_the_demo_with_it(tmp_path: Path) -> None:
    """Built, unpacked elsewhere and run from there, the demo finds its sample and its template."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from plait.cli.main import main; main()"
    argv = [sys.executable, "-P", "-c", code, str(tmp_path / "site"), "demo", "--json"]

    ran = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)

    assert (0, True) == (ran.returncode, '"tests_pass": true' in ran.stdout), ran
    assert (tmp_path / "site/plait/cli/demo/chat_template.jinja").is_file()


@pytest.mark.real_model
def test_the_local_model_calls_a_tool_and_answers(home: Path) -> None:
    """A real model of 135 million parameters makes one valid call and says something, all of it streamed."""
    ran = plait("demo", "--model", "local", "--fetch", "--json")

    told = ran.json
    assert (0, "completed", 2) == (ran.code, told["status"], told["steps"])
    assert "list_files" == told["structured"]["call"]["name"]
    assert told["structured"]["result"]
    assert told["reply"]
