"""A program as a model, run for real."""

from __future__ import annotations

import json
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait.core.cancel import Cancel
from plait.core.errors import ModelProtocolError, ModelTimeout, ModelUnavailable
from plait.core.exchange import Reply
from plait.kernel.effects import Interrupted
from plait.kernel.ports import Options, Setup
from plait.models.client_model import ClientModel
from plait.models.subprocess_client import SubprocessOpenAI, is_run_address
from tests.unit.models.talking import TALKS

Program = Callable[[str], Path]
HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
ANSWER = {"choices": [{"message": {"role": "assistant", "content": "done"}}], "usage": {"prompt_tokens": 3}}


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Make an executable Python program of a few lines; `request` is what it was given."""

    def make(lines: str) -> Path:
        path = tmp_path / "model"
        path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\nrequest = json.load(sys.stdin)\n{lines}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


def test_one_object_goes_in_and_one_completion_comes_out(program: Program, tmp_path: Path) -> None:
    """The request is one JSON object without the program's own name in it; the answer has the usual attributes."""
    seen = tmp_path / "seen.json"
    path = program(f"json.dump(request, open({str(seen)!r}, 'w')); print({json.dumps(json.dumps(ANSWER))})")
    client = SubprocessOpenAI(f"run://{path}")
    answer = client.chat.completions.create(model=f"run://{path}", messages=HI, max_tokens=5, extra_body={"user": "u"})
    assert "done" == answer.choices[0].message.content
    assert {"messages": HI, "temperature": 0, "max_tokens": 5, "user": "u"} == json.loads(seen.read_text())
    assert "" == client.base_url.host


def test_a_name_and_an_environment_reach_the_program(program: Program) -> None:
    """Another model's name is passed on, and the environment that was given is added to ours."""
    path = program(
        "answer = f\"{request['model']} {os.environ['COLOUR']} {'PATH' in os.environ}\"\n"
        "print(json.dumps({'choices': [{'message': {'content': answer}}]}))"
    )
    client = SubprocessOpenAI([str(path)], env={"COLOUR": "blue"})
    answer = client.chat.completions.create(model="tiny", messages=HI)
    assert "tiny blue True" == answer.choices[0].message.content


def test_where_an_answer_came_from_is_kept(program: Program) -> None:
    """A program may say which model answered for it; its document and what it said aside are told."""
    document = {**ANSWER, "best_effort": {"tier": 2, "model": "m"}}
    path = program(f"print('thinking', file=sys.stderr); print({json.dumps(json.dumps(document))})")
    told: list[dict[str, Any]] = []
    client = SubprocessOpenAI(str(path))
    client.chat.completions.create(messages=HI, on_raw_response=told.append, on_request_attempt=told.append)
    assert {"tier": 2, "model": "m"} == client.backend
    assert ["payload"] == list(told[0])
    assert ("subprocess", "thinking\n") == (told[1]["kind"], told[1]["stderr"])


@pytest.mark.parametrize(
    "lines, error, words",
    [
        ("print('no licence', file=sys.stderr); sys.exit(3)", ModelUnavailable, "exit code 3: no licence"),
        ("print('hello')", ModelProtocolError, "printed no completion"),
        ("print('{}')", ModelProtocolError, "no answer"),
    ],
)
def test_a_program_that_fails_says_how(program: Program, lines: str, error: type[Exception], words: str) -> None:
    """An exit code, or output that is no completion, is a typed error with the program's own words."""
    with pytest.raises(error, match=words):
        SubprocessOpenAI(str(program(lines))).chat.completions.create(messages=HI)


def test_a_program_that_is_not_there_is_named() -> None:
    """A wrong path is the user's mistake, and reads like one."""
    with pytest.raises(ModelUnavailable, match="cannot be run") as missing:
        SubprocessOpenAI("run:///no/such/model").chat.completions.create(messages=HI)
    assert "check its path" in missing.value.hint


def test_a_program_that_takes_too_long_dies_with_its_children(program: Program) -> None:
    """A child that holds the pipe does not hold the call."""
    path = program("os.fork() and sys.exit(0)\ntime.sleep(60)")
    began = time.monotonic()
    with pytest.raises(ModelTimeout):
        SubprocessOpenAI(str(path), timeout=0.3).chat.completions.create(messages=HI)
    assert time.monotonic() - began < 10


def test_a_cancel_ends_the_program(program: Program) -> None:
    """A cancel from another thread kills the program and is raised as what it is."""
    cancel = Cancel()
    timer = threading.Timer(0.2, cancel.cancel, ["enough"])
    timer.start()
    with pytest.raises(Interrupted):
        SubprocessOpenAI(str(program("time.sleep(60)"))).chat.completions.create(messages=HI, cancel=cancel)
    timer.join()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_program_is_a_model(program: Program, colour: str) -> None:
    """A conversation with a program goes as with any other client."""
    path = program(
        "print(json.dumps({'choices': [{'message': {'content': str(len(request['messages'])) + str(request['n'])}}]}))"
    )
    model = ClientModel(f"run://{path}", SubprocessOpenAI(f"run://{path}"))
    outcomes = TALKS[colour](model, 2, Setup("Be brief.", options=Options(extra={"n": 1})))
    assert ["21", "41"] == [outcome.message.content for outcome in outcomes if isinstance(outcome, Reply)]


def test_program_addresses_are_known_by_their_scheme() -> None:
    """`run://` and nothing else."""
    assert is_run_address("run://grammar")
    assert not is_run_address("http://run")
