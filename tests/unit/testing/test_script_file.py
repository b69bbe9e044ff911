"""Scripts in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plait.testing import Call, InvalidScript, Raw, Say, ScriptFile, When, faults, read_script, script_file
from plait.testing.script_file import parse_script


def test_the_documented_example_is_a_script() -> None:
    """The example in the module's own description can be read, and is what it says."""
    yaml = pytest.importorskip("yaml")
    lines = (script_file.__doc__ or "").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("    usage: openai"))
    example = [line for line in lines[start:] if line.startswith("    ")]

    script = parse_script(yaml.safe_load("\n".join(line[4:] for line in example)))

    assert ("openai", ("any",), True, True) == (script.usage, script.models, script.repeat, script.allow_unused)
    assert (
        "Done.",
        Say(
            "I will look at the tests first.",
            reasoning="The failing test names the module.",
            calls=(Call("read_file", {"path": "tests/test_add.py"}),),
            delay_s=0.2,
        ),
        Say(calls=(Call("exec_shell", {"command": "pytest -q"}),)),
        Say(calls=(Call("a", {}), Call("b", '{"broken": '))),
        Raw(b"data: [DONE]\n\n", {"Content-Type": "text/event-stream"}, 200),
        faults.Reset("mid_event", answer=Say("Half of this arrives.")),
        When(Say("A fine title"), contains="title", times=1),
    ) == script.steps


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    """The name decides the format; the script is the same."""
    document = ["Done.", {"say": ["He", "llo"]}, {"raw_base64": "/w=="}]
    (tmp_path / "s.json").write_text(json.dumps(document))
    (tmp_path / "s.yaml").write_text('- Done.\n- say: [He, llo]\n- raw_base64: "/w=="\n')
    expected = ScriptFile(("Done.", Say(("He", "llo")), Raw(b"\xff")))

    assert expected == read_script(tmp_path / "s.json")
    assert expected == read_script(tmp_path / "s.yaml")


@pytest.mark.parametrize(
    "document, said",
    [
        ("text", "a script is an object, not 'text'"),
        ({"step": []}, "the script has no option 'step'; known: steps, usage, models, repeat, allow_unused"),
        ({"usage": "mine"}, "no usage shape is called 'mine'; known: openai"),
        ([1], "step 1: a step is an object, not 1"),
        (
            ["ok", {}],
            "step 2: a step needs one of fault, raw, raw_base64, say, call, calls, when; this one has nothing",
        ),
        ([{"says": "x"}], "this one has says"),
        ([{"say": "x", "text": "y"}], "step 1: an answer has no option 'text'; known: say, call, reasoning"),
        ([{"call": {"arguments": {}}}], "step 1: a call needs a name"),
        ([{"call": {"name": "a", "args": {}}}], "a call has no option 'args'; known: name, arguments, id"),
        ([{"raw_base64": "%"}], "step 1: raw_base64: "),
        ([{"fault": "flood"}], "no fault is called 'flood'; known: status, refuse"),
        ([{"fault": "reset", "when": {}}], "a rule has no option 'fault'"),
        ([{"fault": "reset", "for": 1}], "the fault 'reset' has no option 'for'; known: answer, at"),
        ([{"fault": "reset", "at": "lunch"}], "step 1: no place in a response is called 'lunch'"),
        ([{"fault": "status"}], "step 1: "),
        ([{"when": {"says": "x"}, "then": "y"}], "a condition has no option 'says'; known: contains, last, model"),
        ([{"when": {}, "then": None}], "step 1: a step is an object, not None"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, document: Any, said: str) -> None:
    """A script that says something unknown is refused with the file, the step and what is known."""
    path = tmp_path / "s.json"
    path.write_text(json.dumps(document))

    with pytest.raises(InvalidScript) as caught:
        read_script(path)

    assert said in caught.value.message
    assert str(path) in caught.value.message


@pytest.mark.parametrize("name, text", [("s.json", "{"), ("s.yaml", "a: [")])
def test_a_file_that_does_not_parse_is_named(tmp_path: Path, name: str, text: str) -> None:
    """Broken JSON and broken YAML are the same kind of error."""
    (tmp_path / name).write_text(text)

    with pytest.raises(InvalidScript, match=name):
        read_script(tmp_path / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is an error with its name."""
    with pytest.raises(InvalidScript, match="No such file"):
        read_script(tmp_path / "none.yaml")
