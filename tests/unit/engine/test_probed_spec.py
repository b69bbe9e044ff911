"""The spec that a probe leaves behind, and its file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from plait.core.errors import ConfigError
from plait.engine.agent_spec import specs_of
from plait.engine.probed_spec import check_place, spec_path, specification_of, write_spec
from plait.engine.spec import load_specification, validate_schema
from plait.models.endpoint import endpoint_of
from plait.models.probes.findings import Dossier, Finding
from plait.models.profiles import with_wire
from plait.models.support import with_support
from plait.tools import definitions


def dossier(*findings: Finding, endpoint: str = "http://127.0.0.1:9/v1", window: int | None = None) -> Dossier:
    """Return a dossier with these findings."""
    at = endpoint_of(endpoint)
    return Dossier(endpoint=at.url(""), model="org/m:1", profile=at.profile, findings=findings, context_window=window)


def test_a_spec_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written is what load_specification finds in the folder, and it can be used."""
    monkeypatch.chdir(tmp_path)
    spec = specification_of(dossier(window=4096), comment="probed")
    write_spec(spec, spec_path("org/m:1"))

    found = load_specification("org/m:1")

    validate_schema(found)
    assert dict(spec) == dict(found)
    assert ("agent_spec_org_m_1.json", 4096) == (found.source, found["context_window"])
    assert [known.name for known in definitions.BUILT_IN] == [
        entry["function"]["name"]  # type: ignore[index]
        for entry in specs_of(found)
    ]


def test_what_was_found_decides_the_fields() -> None:
    """No tools means calls in the text, no usage means that its counts are not asked for, a key's variable is kept."""
    poor = specification_of(dossier(Finding("tools", "no", ""), Finding("usage", "no", "")), key_env="MY_KEY")
    rich = specification_of(dossier(Finding("tools", "yes", ""), Finding("usage", "yes", "")))

    assert ("inline_json", False, "MY_KEY") == (
        poor["behaviour"]["call_delivery_mode"],  # type: ignore[index]
        poor["reports_prompt_tokens"],
        poor["key_env"],
    )
    assert "structured_tool_calls" == rich["behaviour"]["call_delivery_mode"]  # type: ignore[index]
    assert [] == [name for name in ("reports_prompt_tokens", "key_env", "auth_header") if name in rich]


def test_a_header_that_was_learnt_is_kept() -> None:
    """The header of the key stands in the spec where it is not the one that the endpoint's profile names."""
    at = endpoint_of("https://llm.example/v1")
    profile = replace(with_wire(at.profile, "anthropic"), auth_header="x-api-key")
    learnt = Dossier(endpoint=at.base, model="m", profile=profile, findings=())

    spec = specification_of(learnt)

    assert "x-api-key" == spec["auth_header"]
    assert "anthropic" == with_support(at.profile, spec["provider_api_support"]).wire.wire


def test_a_query_stays_with_its_endpoint() -> None:
    """An endpoint that needs one, as Azure's dated API does, is asked with it by whoever uses the spec."""
    address = "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21"

    spec = specification_of(dossier(endpoint=address))

    assert "https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21" == spec["endpoint"]


def test_a_file_is_replaced_only_when_that_is_meant(tmp_path: Path) -> None:
    """A file that is there is refused before and after the questions, and replaced on request; nothing else is left."""
    path, spec = tmp_path / "s.json", specification_of(dossier())
    path.write_text("mine")

    for refused in (lambda: check_place(path, overwrite=False), lambda: write_spec(spec, path)):
        with pytest.raises(ConfigError, match="already"):
            refused()
    assert "mine" == path.read_text()
    check_place(path, overwrite=True)
    write_spec(spec, path, overwrite=True)
    assert "org/m:1" == json.loads(path.read_text())["model"]
    assert ["s.json"] == os.listdir(tmp_path)


def test_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """No such folder, or a folder in the file's place, is told before anything is asked."""
    for path in (tmp_path / "none" / "s.json", tmp_path):
        with pytest.raises(ConfigError, match="folder"):
            check_place(path, overwrite=True)


def test_a_disk_that_refuses_is_told(tmp_path: Path, unprivileged: Callable[..., CompletedProcess[str]]) -> None:
    """A folder in which nothing may be written is an error with advice, without a traceback."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    code = f"""
from pathlib import Path
from plait.core.errors import ConfigError
from plait.engine.probed_spec import write_spec
from plait.engine.agent_spec import AgentSpec
try:
    write_spec(AgentSpec({{"model": "m"}}), Path({str(closed / "s.json")!r}))
except ConfigError as error:
    print(error.message, "|", error.hint)
"""

    ran = unprivileged(code)

    assert "cannot be written: Permission denied | name another file with -o" in ran.stdout, ran
