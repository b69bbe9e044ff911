"""`plait probe` asks a real server, and its spec is used to ask it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.cli.demo.local_server import CONTEXT_TOKENS
from plait.core.cancel import Cancel
from plait.core.exchange import View
from plait.core.messages import user
from plait.engine.spec import load_specification, validate_schema
from plait.kernel.effects import Think
from plait.kernel.ports import Options, Setup
from plait.session.clients import create_client
from plait.wire.profile import WireName
from tests.e2e.command import end_of, start

pytestmark = pytest.mark.real_model


@pytest.mark.parametrize("wire", ["chat", "responses", "anthropic"])
def test_a_real_server_is_found_out(real_url: str, wire: WireName, tmp_path: Path) -> None:
    """What llama.cpp can do is found on each wire, and a client of the spec speaks that wire."""
    process = start("probe", real_url, "-m", "small", "--wire", wire, "-o", "s.json", "--json", cwd=tmp_path)
    ran = end_of(process, timeout_s=300)

    told = ran.json
    found = {finding["capability"]: finding["verdict"] for finding in told["findings"]}
    assert (0, wire, CONTEXT_TOKENS) == (ran.code, told["wire"], told["context_window"])
    sure = "answers usage streaming stream_usage tools tool_choice tool_results cache".split()
    assert dict.fromkeys(sure, "yes") == {name: found[name] for name in sure}
    assert "no" == found["reasoning"]
    assert ("yes" if wire == "chat" else "no") == found["grammar"]

    spec = load_specification("small", "", tmp_path / "s.json")
    validate_schema(spec)
    with create_client(spec) as client:
        model = client.as_model("small")
        history = [user("Say hello.")]
        channel = model.open(Setup(options=Options(max_output_tokens=16)))
        reply = channel.think(Think(View(0, history, 1)), None, Cancel())
    assert reply.message.content
    assert wire == model.profile.wire.wire
