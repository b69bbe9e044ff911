"""A key goes to its endpoint and stands nowhere else: in no output, event, error, traceback or `repr`."""

from __future__ import annotations

import json
import os
import pprint
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from plait.core.errors import PlaitError
from plait.engine.spec import default_specification, load_specification
from plait.kernel.rules import Retry
from plait.models.openai_client import OpenAI
from plait.models.registry import Descriptor, ModelRegistry, Provider
from plait.session.clients import create_client
from plait.session.opening import init_session
from plait.session.turns import run_turn
from plait.testing import Call, Raw, ScriptServer
from plait.testing.faults import Html, Status

KEY = "zz-7f3a9c1e-very-secret-key"
HEADER = "zz-header-5d2b-secret-value"
QUERY = "zz-query-91ce-secret-value"
SECRETS = (KEY, HEADER, QUERY)
ECHO = f'{{"error": {{"message": "refused {KEY} and {HEADER} at ?key={QUERY}"}}}}'
STEPS: dict[str, list[Any]] = {
    "answers": [[Call("read_file", {"path": "a.txt"})], "done"],
    "refuses the key": [Status(401, ECHO)],
    "refuses the request": [Status(400, ECHO)],
    "has no such model": [Status(404, ECHO.replace("refused", "model not found"))],
    "is overloaded": [Status(503, ECHO)],
    "is a web page": [Html()],
    "redirects": [Status(302, headers={"Location": f"https://elsewhere.invalid/v1?key={QUERY}"})],
    "breaks off": [Raw(f'data: {{"error": {{"message": "no {KEY} {HEADER}"}}}}\n\n'.encode())],
}


def connection(url: str) -> dict[str, object]:
    """Return the fields of a spec that send a key, a secret header and a secret in the address."""
    os.environ["MY_KEY"] = KEY
    return {
        **default_specification("m", f"{url}?key={QUERY}"),
        "key_env": "MY_KEY",
        "extra_headers": {"X-Auth-Token": HEADER},
    }


def everything(thing: object, depth: int = 6) -> Iterator[str]:
    """Yield how a thing and all it holds show themselves."""
    yield repr(thing)
    yield str(thing)
    yield pprint.pformat(thing)
    if isinstance(thing, BaseException):
        yield from traceback.format_exception(thing)
    if isinstance(thing, PlaitError):
        yield json.dumps(thing.to_dict())
        yield thing.hint
    if depth and hasattr(thing, "__dict__") and not isinstance(thing, type):
        for name, inner in vars(thing).items():
            if not name.startswith("_"):
                yield from everything(inner, depth - 1)


def holders(text: str) -> set[str]:
    """Return the secrets in a text."""
    return {secret for secret in SECRETS if secret in text}


@pytest.mark.parametrize("name", STEPS)
def test_no_key_leaves_by_a_session(here: Path, home: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever the endpoint does with what it was sent, nothing that plait tells or keeps repeats it."""
    (here / "a.txt").write_text("a")
    heard: list[str] = []

    def hear(event: str, data: Mapping[str, object]) -> None:
        heard.append(f"{event} {dict(data)} {data['fmt']} {data!r} {json.dumps(dict(data), default=str)}")

    with ScriptServer(STEPS[name], allow_unused=True) as server:
        spec = connection(server.url)
        with create_client(spec) as client, init_session(spec, on_event=hear, retry=Retry(attempts_max=1)) as session:
            result = run_turn(client, "m", session, "x")
            texts = [*heard, json.dumps(session), repr(session), *everything(client), *everything(result.error)]
            texts += [repr(result.error.__cause__), repr(result.usage)] if result.error else [repr(result.final_reply)]
        (first, *_) = server.requests

    assert ("completed" if name == "answers" else "error") == result.status
    assert (f"Bearer {KEY}", HEADER) == (first.headers["authorization"], first.headers["x-auth-token"])
    kept = [path.read_text(errors="replace") for path in home.rglob("*") if path.is_file()]
    assert set() == holders("\n".join([*texts, *kept, *capfd.readouterr()]))


@pytest.mark.parametrize("name", [name for name in STEPS if name != "answers"])
def test_no_key_leaves_by_a_client(name: str) -> None:
    """The client in OpenAI's shape keeps it as well."""
    with ScriptServer(STEPS[name], allow_unused=True) as server, create_client(connection(server.url)) as client:
        assert isinstance(client, OpenAI)
        client.retry = Retry(attempts_max=1)
        with pytest.raises(PlaitError) as caught:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])

    assert set() == holders("\n".join(everything(caught.value)))


def test_a_key_in_the_place_of_its_variable_is_not_shown() -> None:
    """A key where a variable's name belongs is refused without being repeated."""
    key = "sk-ant-abcdefghijklmnopqrstuvwxyz"
    with pytest.raises(PlaitError) as caught:
        create_client({**default_specification("m", "http://127.0.0.1:1/v1"), "key_env": key})

    assert [] == [text for text in everything(caught.value) if key in text]


def test_a_key_file_that_cannot_be_read_is_not_quoted(here: Path) -> None:
    """A damaged file that holds keys is named, and what is in it is not."""
    (here / "keys.json").write_text("{" + KEY)
    (here / "endpoints.toml").write_text(
        f'[endpoints.e]\nurl = "http://127.0.0.1:1/v1"\nkey = [{{source="file", path="{here}/keys.json", field="a"}}]\n'
    )
    os.environ["INFERENCE_DB"] = str(here / "endpoints.toml")
    spec = load_specification("m", inference_db="e")
    with create_client(spec) as client, init_session(spec) as session:
        result = run_turn(client, "m", session, "x")

    assert "keys.json" in str(result.error)
    assert set() == holders("\n".join(everything(result.error)))


def test_a_registry_shows_no_key() -> None:
    """Providers and registries show where requests go, and neither key nor headers."""
    provider = Provider("p", "http://127.0.0.1:1/v1", api_key=KEY, headers={"X-Auth-Token": HEADER})
    models = ModelRegistry([provider], {"m": Descriptor("p", "m")})

    assert set() == holders("\n".join([*everything(provider), *everything(models), *everything(models.resolve("m"))]))
