"""The bench's own server: cheap, and as honest as the one for tests."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from bench.fake_server import Messages, Prompts
from bench.running import serving
from plait.testing import PrefixCache

TOOLS = [{"type": "function", "function": {"name": "noop", "parameters": {"type": "object", "properties": {}}}}]
MESSAGE = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text()})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve for the tests of this file."""
    with serving() as address:
        yield address


def post(url: str, run: str, **body: Any) -> bytes:
    """Send one request of a run."""
    request = urllib.request.Request(f"{url}/r/{run}/v1/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request) as response:
        answer: bytes = response.read()
    return answer


@given(st.lists(MESSAGE, min_size=1), st.integers(0, 5))
def test_the_end_of_the_messages_is_found(messages: list[dict[str, str]], cut: int) -> None:
    """Whether a body extends an earlier one or not, the bracket that closes its messages is found."""
    finder = Messages()
    for count in (len(messages) - cut, len(messages)):
        text = json.dumps(messages[: max(0, count)], ensure_ascii=False)
        body = f'{{"model":"m","messages":{text},"tools":[1]}}'.encode()
        end = len(f'{{"model":"m","messages":{text}'.encode()) - 1

        assert end == finder.end(body)


@given(st.lists(st.lists(st.sampled_from([b"a" * 512, b"b" * 512, b"c" * 100]), max_size=6), max_size=6))
def test_cached_tokens_are_those_of_the_test_server(history: list[list[bytes]]) -> None:
    """The shortcuts for speed count exactly what the plain count counts."""
    quick, plain = Prompts(), PrefixCache()

    for pieces in history:
        prompt = b"".join(pieces)
        assert plain.count(prompt).cached == quick.count(prompt)


def test_the_model_s_name_is_the_script(url: str) -> None:
    """Steps with calls come first, then the word; a streamed text has its deltas."""
    user = {"role": "user", "content": "go"}
    first = json.loads(post(url, "a", model="parallel-2x1", messages=[user], tools=TOOLS))
    message = first["choices"][0]["message"]
    second = json.loads(post(url, "a", model="parallel-2x1", messages=[user, message], tools=TOOLS))
    text = post(url, "a", model="text-300", stream=True, messages=[user])

    assert ["noop", "noop"] == [call["function"]["name"] for call in message["tool_calls"]]
    assert "done" == second["choices"][0]["message"]["content"]
    assert 300 == text.count(b'"content":"w')
    assert text.endswith(b"data: [DONE]\n\n")


def test_an_extending_conversation_is_cached(url: str) -> None:
    """The counters of a run tell what was cached, and what could have been."""
    messages = [{"role": "user", "content": "x" * 3_000}]
    for _ in range(3):
        post(url, "b", model="done", messages=messages)
        messages.append({"role": "user", "content": "y" * 700})
    with urllib.request.urlopen(f"{url}/r/b/stats") as response:
        stats = json.load(response)

    assert 3 == stats["requests"]
    assert 0 < stats["cached_tokens"] == stats["ideal_tokens"]
