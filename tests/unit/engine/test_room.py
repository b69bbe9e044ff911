"""What requests have to fit into, as an agent and an endpoint have it."""

from __future__ import annotations

import pytest

from plait.core.errors import ContextWindowExceededError
from plait.engine.agent import Agent
from plait.engine.room import room_of
from plait.kernel.ports import Options, Setup
from plait.models.chat_model import ChatModel, chat_model
from plait.testing import ScriptedModel


def test_a_task_that_cannot_fit_is_not_sent() -> None:
    """The run ends with the typed error, its numbers and its advice, and no request was made."""
    with ScriptedModel([], context_window=1_000) as model:
        result = Agent(model, system="s" * 400).run("w" * 100_000)

    error = result.error
    assert isinstance(error, ContextWindowExceededError)
    assert ("error", 0, 1_000) == (result.status, len(model.requests), error.limit_tokens)
    assert "so it was not sent: system prompt 100," in error.message
    assert "larger window" in error.hint


def windows(model: ChatModel) -> tuple[int | None, int | None]:
    return model.context_window, model.window_max


def test_only_the_window_of_this_very_model_refuses() -> None:
    """What an endpoint's models have at least is no reason to refuse; what is known of the model, or given, is."""
    openai = "https://api.openai.com/v1"

    assert (128_000, None) == windows(chat_model("new-model", openai))
    assert (272_000, 272_000) == windows(chat_model("gpt-5-mini", openai))
    assert (9_000, 9_000) == windows(chat_model("new-model", openai, context_window=9_000))
    assert (128_000, None) == windows(chat_model("gpt-5", openai).with_model("new-model"))
    assert (9_000, 9_000) == windows(chat_model("gpt-5", openai, context_window=9_000).with_model("new-model"))


@pytest.mark.parametrize(
    "window, asked, reserve", [(16_000, None, 4_000), (200_000, None, 8_192), (16_000, 500, 500), (None, None, None)]
)
def test_an_answer_keeps_its_room(window: int | None, asked: int | None, reserve: int | None) -> None:
    """The reserve is what the answer may have, else a usual length, but no more than a quarter of the window."""
    with ScriptedModel([], context_window=window) as model:
        room = room_of(model, Setup("s", options=Options(max_output_tokens=asked)))

    assert reserve == (None if room is None else room.reserve)
    assert window == (None if room is None else room.window)
