"""The scripted server as a program."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

COMMAND = [sys.executable, "-W", "error", "-m", "plait.testing.server", "--script"]


def serve(script: Path, *options: str) -> subprocess.Popen[str]:
    """Start the program."""
    return subprocess.Popen(
        [*COMMAND, str(script), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ask(url: str) -> str:
    """Send one chat request; return the words of the answer."""
    body = json.dumps({"model": "m", "messages": []}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body)) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


def script(folder: Path, *steps: object) -> Path:
    """Write a script file."""
    path = folder / "script.json"
    path.write_text(json.dumps(steps))
    return path


def test_it_prints_its_url_and_serves(tmp_path: Path) -> None:
    """One line with the URL comes first; a script that was played to its end is exit code 0."""
    with serve(script(tmp_path, "hello")) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        answer = ask(url)
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=10)

    assert "hello" == answer
    assert (0, "", "") == (server.returncode, out, err)


def test_a_script_with_steps_left_is_exit_code_1(tmp_path: Path) -> None:
    """It says on stderr what was not asked for; `--allow-unused` makes that no matter."""
    with serve(script(tmp_path, "hello")) as server:
        assert server.stdout is not None
        server.stdout.readline()
        server.send_signal(signal.SIGINT)
        _, err = server.communicate(timeout=10)

    assert 1 == server.returncode
    assert "1 of the script's steps were never asked for" in err
    assert "Traceback" not in err


def test_a_bad_script_is_exit_code_2(tmp_path: Path) -> None:
    """A script file that cannot be used is one sentence and a hint, no traceback."""
    with serve(script(tmp_path, {"fault": "flood"})) as server:
        out, err = server.communicate(timeout=10)

    assert (2, "") == (server.returncode, out)
    assert "no fault is called 'flood'" in err
    assert "Traceback" not in err
