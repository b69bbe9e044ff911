"""What senses say, and the sections of a prompt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plait.context.durations import duration
from plait.context.machine import Where, git_identity, system_lines, user_lines
from plait.context.sections import Section, joined, sections_in, with_rest
from plait.context.senses import NAMES, Senses, session_time, standing_sections, token_usage, tool_time


@pytest.mark.parametrize(
    "seconds, said",
    [
        (None, "n/a"),
        (0.012, "12ms"),
        (0, "0ms"),
        (0.9996, "1.0s"),
        (1.24, "1.2s"),
        (9.96, "10s"),
        (42, "42s"),
        (59.7, "1m00s"),
        (185, "3m05s"),
        (7_500, "2h05m"),
        (-3, "0ms"),
    ],
)
def test_durations(seconds: float | None, said: str) -> None:
    """Short ones are exact, long ones readable."""
    assert said == duration(seconds)


def test_lines_about_time_and_tokens() -> None:
    """The forms that the contract gives."""
    assert (
        "<session_time>session elapsed: 3m05s · last tool: 12ms · wall since your previous message: n/a</session_time>"
        == session_time(185, 0.012, None)
    )
    assert (
        '<tool_time start="1970-01-01T00:00:01.000+00:00" end="1970-01-01T00:00:02.200+00:00" duration="1.2s" />'
        == tool_time(1_000, 2_200)
    )
    assert "<system_warning>Token usage: 90/100; 10 remaining</system_warning>" == token_usage(90, 100)


def test_a_caller_goes_before_the_spec_and_bare_before_both() -> None:
    """Everything is on unless somebody says otherwise; a budget is the window where nobody names one."""
    spec = {"git_awareness_enabled": False, "context_window": 9_000, "token_awareness_update_every": 3}
    senses = Senses.of({"git_awareness_enabled": None, "time_awareness_enabled": False}, spec, bare=False)
    assert {"user": True, "system": True, "git": False, "time": False, "token": True, "change": True} == senses.status
    assert (9_000, 6_144, 3) == (senses.budget_tokens, senses.reminder_tokens, senses.update_every)
    assert 100_000 == Senses.of({}, {}, bare=False).budget_tokens
    assert 50 == Senses.of({"token_awareness_budget_tokens": 50}, spec, bare=False).budget_tokens
    assert not any(Senses.of({"git_awareness_enabled": True}, {}, bare=True).status.values())
    assert senses == Senses.told(senses.to_dict())
    assert Senses() == Senses.told({"user": 1, "budget_tokens": "many", "unknown": True})


def test_each_sense_explains_itself_alone() -> None:
    """The standing words of a sense are there when it is on, and only then."""
    every = [section.name for section in standing_sections(Senses(**dict.fromkeys(NAMES, True)))]
    assert ["token awareness", "time awareness", "change awareness"] == every
    assert () == standing_sections(Senses())


def test_a_prompt_is_cut_where_it_was_joined() -> None:
    """Recorded lengths find the sections again, what was added behind them is one more, an edited prompt is one."""
    sections = (
        Section("base", "stable", "Be good."),
        Section("none", "stable", ""),
        Section("own", "session", "é\n\nb"),
    )
    prompt = joined(sections)
    told = [section.to_dict() for section in with_rest(sections, prompt)]
    assert [("base", "Be good."), ("own", "é\n\nb")] == [(each.name, each.text) for each in sections_in(prompt, told)]
    more = sections_in(f"{prompt}\n\nAnd hooks.", told)
    assert ("added", "And hooks.") == (more[-1].name, more[-1].text)
    assert ["system"] == [each.name for each in sections_in("Something else.", told)]
    assert () == sections_in("", told)
    assert ["system"] == [each.name for each in sections_in("x", "no list")]


def test_the_machine_is_read_and_not_asked(home: Path) -> None:
    """Nothing is started; what is not known is left out."""
    lines = system_lines(Where("/w", "m", "s", "plait 1", transcript="/j"), 1_000_000_000_000)
    names = ["Working directory", "OS", "CPU cores", "RAM", "Current date/time", "Model", "Session", "Harness"]
    assert names == [line.split(":")[0] for line in lines]
    assert "Session: s (transcript: /j)" in lines
    assert user_lines(os.environ)[0].startswith("User: unix user: ")
    assert "" == git_identity(os.environ)
    (home / ".gitconfig").write_text(
        '[alias]\n\tx = !echo "a=b"\n[User]\n\temail = "a@example.invalid"\n\tname = Ada L\n'
    )
    assert "Ada L <a@example.invalid>" == git_identity(os.environ)
    assert "unix user" in user_lines(os.environ)[0]
