"""What a scripted server counts, and what it refuses for its size."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from plait.testing import Meter, ScriptServer
from plait.wire.errors.classify import classify

PATHS = {"/chat/completions": "messages", "/responses": "input", "/messages": "messages"}


def ask(url: str, path: str, text: str, **more: Any) -> tuple[int, dict[str, Any]]:
    """Make one request, and return the status and the body."""
    body = {"model": "m", PATHS[path]: [{"role": "user", "content": text}], **more}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize("path", PATHS)
def test_what_is_larger_than_the_window_is_refused(path: str) -> None:
    """A prompt and the answer it asks for have to fit together; a refusal reads as an overflow and takes no step."""
    prompt = 251 + (1 if path == "/responses" else 0)
    with ScriptServer(["one", "two"], meter=Meter(window=300, bytes_a_token=4)) as server:
        text = "x" * 960
        assert 200 == ask(server.url, path, text, max_tokens=300 - prompt)[0]
        refused = [ask(server.url, path, text, max_tokens=70), ask(server.url, path, "x" * 1_300)]
        assert 200 == ask(server.url, path, text)[0]
        billed, numbers = server.meter.billed, server.meter.refused

    assert [400, 400] == [status for status, _ in refused]
    for _, body in refused:
        assert "context_overflow" == classify(400, {}, json.dumps(body).encode()).kind
    assert ([1, 4], (2, 3)) == ([bill.number for bill in billed], numbers)


def test_what_is_billed_is_what_is_told() -> None:
    """The log has the numbers of the usage; only whole blocks are cached, none where they are too few."""
    meter = Meter(bytes_a_token=2, block_tokens=64, cached_min=512)
    with ScriptServer(["ok"] * 4, meter=meter) as server:
        told = [ask(server.url, "/chat/completions", "x" * size)[1]["usage"] for size in (900, 900, 2_000, 2_000)]

    counts = [bill.count for bill in meter.billed]
    assert [(each.prompt, each.cached, each.output) for each in counts] == [
        (each["prompt_tokens"], each["prompt_tokens_details"]["cached_tokens"], each["completion_tokens"])
        for each in told
    ]
    assert [0, 0, 0, counts[3].prompt // 64 * 64] == [each.cached for each in counts]
    assert [1, 1, 1, 1] == [each.output for each in counts]
