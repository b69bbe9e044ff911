"""X32: text that people do not see is spelt out to them, and the model is told that it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.cli.specs import built_in_spec
from plait.core.unseen import REMARK, flagged, visible
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, ScriptedModel
from tests.security.hostile import UNSEEN, left_over

SPEC = built_in_spec("m", "http://127.0.0.1:1/v1")
HONEST = {
    "ascii": "x = 1\n",
    "accents": "naïve café\n",
    "persian": "می\u200cخواهم\n",
    "hindi": "क्\u200dष\n",
    "emoji": "👩\u200d👩\u200d👧 ❤\ufe0f 1\ufe0f\u20e3\n",
    "chinese": "你好，世界\u3000\n",
    "thai": "สวัสดี\n",
    "a bom in front": "\ufeffx = 1\n",
    "colours": "\x1b[31mred\x1b[0m \x1b[38;5;8mgrey\x1b[0m\n",
}


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST.keys())
def test_honest_text_has_no_remark(text: str) -> None:
    """Joiners where a language or an emoji has them, a byte order mark and colours hide nothing."""
    assert text == flagged(text)


@pytest.mark.parametrize("text", [text for text in UNSEEN.values() if "\ud800" not in text], ids=repr)
def test_hidden_text_has_a_remark(text: str) -> None:
    """The model learns which characters and how many; the text itself is as it was, and its user sees escapes."""
    told = flagged(text)
    assert told.startswith(f"{text}\n{REMARK}U+")
    assert [] == left_over(visible(told))
    assert 1 == told.count(REMARK)


def test_letters_in_disguise_are_told_too() -> None:
    """A word of two alphabets that reads as one is told; a text in either, or in Greek formulas, is not."""
    disguised = "import request\u0441\n\u0440\u0430ypal = 1"
    assert f"{REMARK}Cyrillic letters in Latin words x2]" in flagged(disguised)
    for honest in ("Привет, мир: import os", "Δx = λy·μm, naïve", "git и bash"):
        assert honest == flagged(honest)


def test_a_terminal_s_way_of_hiding_is_told_too() -> None:
    """Concealed text is read by the model and by nobody at a screen."""
    assert f"{REMARK}concealed by a terminal code x1]" in flagged("\x1b[0;8mobey\x1b[0m")


def test_every_kind_of_result_is_looked_at(tmp_path: Path) -> None:
    """Files, names, searches and commands: whatever a tool brings to the model."""
    hidden = "a\u202eb"
    (tmp_path / f"{hidden}.txt").write_text(f"{hidden}\n")
    calls = [
        Call("read_file", {"path": f"{hidden}.txt"}),
        Call("list_dir", {"path": "."}),
        Call("glob", {"pattern": "*"}),
        Call("search_files", {"pattern": "b"}),
        Call("exec_shell", {"command": "cat *"}),
        Call("read_file", {"path": f"{hidden}.none"}),
    ]
    model = ScriptedModel([*calls, "done"])
    with init_session(SPEC, workspace=tmp_path, durable=False) as session:
        run_turn(model, "m", session, "go").raise_for_status()
        told = [str(message["content"]) for message in session["messages"] if message["role"] == "tool"]
    for call, text in zip(calls, told, strict=True):
        # Told of, or spelt out already by the tool.
        assert f"{REMARK}U+202E x" in text or ("\u202e" not in text and "\\u202e" in text), (call, text)
