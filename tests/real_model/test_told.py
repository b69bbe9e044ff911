"""Instructions files, senses and profiles on a real model: it is told, and its template takes all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plait.cli.demo.weights import FILE_NAME
from plait.cli.specs import built_in_spec
from plait.core.errors import LimitReached
from plait.engine.limits import Limits
from plait.engine.profile import Profile
from plait.kernel.tools import Tool
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.turns import run_turn

pytestmark = pytest.mark.real_model

FOLDER = {
    "type": "object",
    "properties": {"folder": {"type": "string", "enum": ["left", "right"]}},
    "required": ["folder"],
    "additionalProperties": False,
}
NAMES = ("user", "system", "git", "time", "token", "change")


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a word for its visitors, and every sense on unless a test says otherwise."""
    monkeypatch.delenv("PLAIT_AWARENESS", raising=False)
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "AGENTS.md").write_text("This project is called Heliotrope. Its author is Ada Quill.\n")
    monkeypatch.chdir(folder)
    return folder


def spec_at(url: str, **params: Any) -> dict[str, Any]:
    return {**built_in_spec(FILE_NAME, url), "request_params": {"temperature": 0, **params}, "context_window": 4_096}


def test_what_an_instructions_file_says_is_in_the_answer(real_url: str) -> None:
    """The name that only AGENTS.md knows comes back, and a second turn goes on from the first."""
    spec = spec_at(real_url)
    off = {f"{name}_awareness_enabled": False for name in NAMES}
    with (
        create_client(spec) as client,
        init_session(spec, profile=Profile("talk", None, []), max_output_tokens=40, durable=False, **off) as session,
    ):
        first = run_turn(client, FILE_NAME, session, "What is this project called?").raise_for_status()
        second = run_turn(client, FILE_NAME, session, "Say it again.").raise_for_status()

    assert "Heliotrope" in (first.final_reply or "")
    assert second.final_reply
    assert (second.turn_usage.input or 0) > (first.turn_usage.input or 0)


def test_every_sense_is_taken_by_the_models_template(real_url: str) -> None:
    """Two turns with calls, stamps, counts and a changed file: the server refuses no order of roles and no message."""
    seen: list[str] = []

    def look(folder: str) -> str:
        """Look into a folder."""
        seen.append(folder)
        return "a cup"

    spec = spec_at(real_url, tool_choice="required")
    with (
        create_client(spec) as client,
        init_session(
            spec,
            tools=[Tool("look", "Look into a folder.", look, FOLDER)],
            profile=Profile("looks", "Be brief.", ["look"]),
            limits=Limits(max_steps=1),
            max_output_tokens=80,
            strict_cache_proof=False,
            session_id="told",
        ) as session,
    ):
        for task in ("What is in the left folder?", "And in the right one?"):
            result = run_turn(client, FILE_NAME, session, task)
            # The one step is its call; a model of this size may as well be cut off in it.
            assert isinstance(result.error, LimitReached) or result.status == "completed", result.error
            Path("AGENTS.md").write_text("changed")
        told = [str(item["content"]) for item in session["messages"]]

    assert seen
    assert "Git: on branch main" in told[1]
    assert "<session_time>" in told[1]
    assert any("<tool_time " in text and "<system_warning>" in text for text in told)
