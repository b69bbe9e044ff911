"""X70: whatever a model, a tool, a server, a file or a name holds, a terminal is sent visible text and nothing else."""

from __future__ import annotations

import dataclasses
import io
import sys
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from plait.cli import streams
from plait.cli.entry import run_command_line
from plait.cli.escapes import one_line, visible
from plait.cli.outlet import Outlet
from plait.cli.question import question
from plait.cli.views import Live, PlainLines
from plait.cli.words import complaint
from plait.core.cancel import Cancel
from plait.core.messages import ToolCall
from plait.events import named
from plait.events.render import render
from plait.kernel.tools import Tool
from plait.tools.asking import line_from_terminal
from tests.security.hostile import HOSTILE, left_over

EVENTS = [each for each in vars(named).values() if isinstance(each, type) and issubclass(each, named.NamedEvent)]
texts = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())


def filled(kind: type[Any], text: str) -> Any:
    """Make an event all of whose words are a text."""
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        hint = hints[field.name]
        is_union = get_origin(hint) in (Union, UnionType)
        options = get_args(hint) if is_union else (hint,)
        if any(getattr(get_origin(each) or each, "__name__", "") in ("Mapping", "dict") for each in options):
            values[field.name] = {"path": text, text: text, "added": text, "removed": text}
        elif str in options or object in options or Any in options or any(get_origin(e) is Literal for e in options):
            values[field.name] = text
        elif bool in options:
            values[field.name] = True
        elif int in options or float in options:
            values[field.name] = 1
    return kind(**values)


@texts
def test_events_as_lines(text: str) -> None:
    """Every event, with the text in each of its fields, in colour and without."""
    for kind in EVENTS:
        if dataclasses.is_dataclass(kind):
            event = filled(kind, text)
            for state in (event, *variants(event)):
                assert [] == left_over(render(state, color=False)), kind
                assert [] == left_over(render(state, color=True), has_colours=True), kind


def variants(event: Any) -> list[Any]:
    """Return the same event with its switches the other way."""
    names = [field.name for field in dataclasses.fields(event) if getattr(event, field.name) is True]
    return [dataclasses.replace(event, **dict.fromkeys(names, False))] if names else []


def test_events_on_a_run_s_screen(tmp_path: Path) -> None:
    """The lines of a run, plain and in colour, hold nothing else, whichever event has them."""
    for make, has_colours in ((PlainLines, False), (Live, True)):
        path = tmp_path / make.__name__
        with open(path, "w", encoding="utf-8") as file:
            out = Outlet(file, Cancel())
            view = make(out)
            for text in HOSTILE.values():
                for kind in EVENTS:
                    if dataclasses.is_dataclass(kind):
                        event = filled(kind, text)
                        for state in (event, *variants(event)):
                            view.show(state)
            out.close()
        assert [] == left_over(path.read_bytes().decode("utf-8"), has_colours=has_colours)
        assert path.stat().st_size > 10_000


@texts
def test_words_on_the_command_line(text: str) -> None:
    """Errors, one-liners, questions for approval with names, argv, paths, wishes and descriptions."""
    call = ToolCall.of("c", "exec_shell", {"command": f"echo {text}", text: text})
    tool = Tool("mcp__x__y", text, lambda: "", category="mcp")
    own = ToolCall("c", f"mcp__{text}", '{"a": "' + text + '"}')
    patch = ToolCall("c", "apply_patch", f"*** Begin Patch\n*** Add File: {text}\n+{text}\n*** End Patch", custom=True)
    shown = [
        visible(text),
        one_line(text, 100),
        complaint(text, text),
        question(call, text, tool=tool),
        question(own, text, tool=tool),
        question(patch),
        question(ToolCall.of("c", "write_file", {"path": text, "content": text})),
    ]
    assert [[]] * len(shown) == [left_over(each) for each in shown]


@texts
def test_a_question_of_the_model_for_its_user(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `ask_user` puts on the terminal is the model's own text."""
    out = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    line_from_terminal(text, [text, text], out)
    assert [] == left_over(out.getvalue())


def test_what_any_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """The last boundary: print itself shows text, whatever a command forgot about its words."""
    streams.prepare()
    for text in HOSTILE.values():
        print(text)
        print(text, file=sys.stderr)
    told = capsys.readouterr()
    assert ([], []) == (left_over(told.out), left_over(told.err))


@pytest.mark.parametrize(
    "words",
    [
        ["{}"],
        ["run", "-m", "m", "--endpoint", "{}", "x"],
        ["run", "--allow", "{}", "x"],
        ["run", "-m", "m", "--endpoint", "http://127.0.0.1:1", "--spec", "{}", "x"],
        ["sessions", "show", "{}"],
        ["sessions", "show", "/nowhere/{}"],
        ["resume", "{}"],
        ["hooks", "list", "--hooks", "{}"],
        ["trust", "{}"],
        ["replay", "{}"],
        ["wire", "show", "{}"],
    ],
    ids=" ".join,
)
def test_complaints_about_a_command_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was typed, perhaps by a script with somebody else's words in it, comes back harmless."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    text = "".join(value for value in HOSTILE.values() if "\0" not in value).encode("utf-8", "replace").decode()
    code = run_command_line([word.replace("{}", text) for word in words])
    told = capsys.readouterr()
    assert code != 0
    assert ([], []) == (left_over(told.out), left_over(told.err))
    assert told.err


def test_names_of_files_and_branches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a repository calls its files is shown as text where its parts are listed."""
    names = [text for text in HOSTILE.values() if "\0" not in text and "/" not in text and "\ud800" not in text]
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "home"))
    folder = tmp_path / "repo" / ".plait" / "hooks"
    folder.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    for number, name in enumerate(names):
        (folder / f"{name[:40]}{number}.json").write_text('{"hooks": {}}')
    monkeypatch.chdir(tmp_path / "repo")
    for words in (["hooks", "list"], ["trust"]):
        run_command_line(words)
    told = capsys.readouterr()
    assert ([], []) == (left_over(told.out), left_over(told.err))
    assert "\\x1b" in told.out + told.err


def test_the_table_of_hostile_texts_is_hostile() -> None:
    """Each of them would act or hide, if it came through."""
    assert [] == [name for name, text in HOSTILE.items() if not left_over(text)]
