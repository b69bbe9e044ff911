"""`plait doctor sandbox`: the table, its JSON, and the exit code that says whether there is a fence."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from plait.cli.doctor_command import doctor
from plait.hands.fence import probe
from plait.hands.fence.probe import Promise, Proof


def asked(*options: str) -> tuple[int, str]:
    """Run the command, and return its exit code and what it printed."""
    ran = CliRunner().invoke(doctor, ["sandbox", *options], standalone_mode=False)
    if ran.exception is not None:
        raise ran.exception
    return ran.return_value, ran.output


def test_each_promise_is_a_line() -> None:
    """With bubblewrap everything is proved, and the exit code is 0."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")

    code, shown = asked()

    assert (0, 26) == (code, shown.count("[ OK ]"))
    assert "bubblewrap+seccomp+landlock, as " in shown
    document = json.loads(asked("--json")[1])
    assert (True, 26, None) == (document["ok"], len(document["promises"]), document["fallback"])


def test_without_bubblewrap_the_lesser_fence_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not promise is neither proved nor broken."""
    monkeypatch.setenv("PATH", "/nowhere")

    code, shown = asked()

    assert (0, True) == (code, "[FAIL] no sandbox can be made here: 'bwrap' is not installed" in shown)
    assert "landlock+seccomp" in shown
    assert "[ -- ]" in shown


@pytest.mark.parametrize("broken", [True, False])
def test_no_fence_and_a_broken_one_fail(broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is reported as a fence."""
    rows = (Promise("files", "nothing is changed", "not proved", "\x1b[31mmade /etc/x"),)
    proof = Proof("bubblewrap", rows) if broken else Proof("", (), "neither is there")
    monkeypatch.setattr(probe, "_prove", lambda *_: proof)

    code, shown = asked()

    assert 1 == code
    assert ("[FAIL] files" if broken else "neither is there") in shown
    assert "\x1b" not in shown
    assert False is json.loads(asked("--json")[1])["ok"]
