"""What an endpoint's list of models says of a model's window."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from plait.models.backend import Backend
from plait.models.credentials import credentials_for
from plait.models.endpoint import endpoint_of
from plait.models.listing import listed_window, names_in


@contextmanager
def listing(documents: dict[str, Any]) -> Iterator[Backend]:
    """Serve documents by their path and return the endpoint."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(documents.get(self.path)).encode()
            self.send_response(200 if self.path in documents else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    at = endpoint_of(f"http://127.0.0.1:{server.server_port}/v1")
    backend = Backend(at, credentials_for(at, api_key=""))
    try:
        yield backend
    finally:
        backend.close()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    "entry, window",
    [
        ({"context_length": 131072}, 131072),
        ({"context_window": 8192}, 8192),
        ({"max_context_length": 32768}, 32768),
        ({"max_model_len": 4096}, 4096),
        ({"meta": {"n_ctx": 2048, "n_ctx_train": 8192}}, 2048),
        ({"meta": {"n_ctx_train": 8192}}, None),
        ({"context_length": "many"}, None),
        ({"context_length": True}, None),
        ({"context_length": 0}, None),
        ({}, None),
    ],
    ids=["openrouter", "groq", "mistral", "vllm", "llamacpp", "trained", "words", "bool", "zero", "none"],
)
def test_a_window_is_found_under_every_name(entry: dict[str, Any], window: int | None) -> None:
    """What the servers call it counts; what the model was trained with does not."""
    with listing({"/v1/models": {"data": [{"id": "other", "context_length": 1}, {"id": "m", **entry}]}}) as backend:
        assert window == listed_window(backend, "m")


def test_llamacpp_says_elsewhere_what_it_gives_its_one_model() -> None:
    """Its list names what the model was trained with, its properties what it has; it serves it under any name."""
    models = {"data": [{"id": "x.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 8192}}]}
    properties = {"default_generation_settings": {"n_ctx": 4096}}

    with listing({"/v1/models": models, "/props": properties}) as backend:
        assert 4096 == listed_window(backend, "any name")
    with listing({"/v1/models": models}) as backend:
        assert listed_window(backend, "x.gguf") is None


def test_a_list_that_is_none_says_nothing() -> None:
    """A refusal, another shape, or a model that is not in it: no window, and no error."""
    for documents in ({}, {"/v1/models": ["m"]}, {"/v1/models": {"data": 3}}, {"/v1/models": {"data": [{"id": "o"}]}}):
        with listing(documents) as backend:
            assert listed_window(backend, "m") is None
    assert () == names_in(b"<html>")
