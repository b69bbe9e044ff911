"""What a model is shown of a server's tools: names that fit and stay, words and schemas within bounds."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.tools.mcp.config import ServerConfig, merged, servers_of, tables_in
from plait.tools.mcp.shown import DESCRIPTION_CHARS_MAX, SCHEMA_CHARS_MAX, Shown, listing_of, qualified


def tool(name: str, description: str = "", schema: Any = None, read_only: Any = None) -> Any:
    hints = None if read_only is None else SimpleNamespace(read_only_hint=read_only)
    return SimpleNamespace(
        name=name, title=None, description=description, input_schema=schema or {"type": "object"}, annotations=hints
    )


def shown(*found: Any) -> tuple[Shown, ...]:
    return listing_of("s", found).tools


@given(st.text(max_size=90), st.text(max_size=90), st.text(max_size=90), st.text(max_size=90))
def test_a_name_fits_every_endpoint_and_is_nobody_elses(server: str, tool: str, other: str, more: str) -> None:
    """Whatever servers and tools are called; two that differ in either have two names."""
    name = qualified(server, tool)
    assert re.fullmatch(r"mcp__[A-Za-z0-9_-]{1,59}", name)
    assert len(name) <= 64
    assert name == qualified(server, tool)
    if (server, tool) != (other, more):
        assert name != qualified(other, more)


def test_plain_names_stay_as_they_are() -> None:
    """What fits is not changed; two underscores in a name cannot make one server's tool another's."""
    assert "mcp__files__read-file_2" == qualified("files", "read-file_2")
    assert qualified("a__b", "c") != qualified("a", "b__c")


def test_a_list_without_end_is_cut_and_that_is_told() -> None:
    """So many tools are looked at, and no more than one sentence says that there are others."""
    listing = listing_of("s", [tool(f"t{number}") for number in range(600)])
    assert (512, 1) == (len(listing.tools), len(listing.refused))
    assert "goes on after 512" in listing.refused[0]
    assert () == listing_of("s", [tool(f"t{number}") for number in range(512)]).refused


def test_words_and_schemas_are_bounded() -> None:
    """Long texts are cut, what cannot be seen is left out, a schema that is too large or too deep costs its tool."""
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(100):
        deep = {"type": "object", "properties": {"x": deep}}
    huge = {"type": "object", "properties": {f"p{number}": {"description": "d" * 900} for number in range(60)}}
    hidden = "Add.\u200b\u202e\U000e0041\x1b[31m" + "d" * 10_000
    listing = listing_of("s", [tool("deep", schema=deep), tool("huge", schema=huge), tool("long", hidden)])
    (long,) = listing.tools
    assert len(long.description) == DESCRIPTION_CHARS_MAX
    assert long.description.startswith("Add.[31mddd")
    assert ["'deep'", "'huge'"] == [reason.split()[0] for reason in listing.refused]
    assert f"{SCHEMA_CHARS_MAX:,}" in listing.refused[1]


def test_a_schema_loses_what_would_be_looked_up_and_keeps_what_allows() -> None:
    """Foreign references and long enumerations go; local references, short enumerations, properties called so stay."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "enum": {"enum": ["a", "b"]},
            "country": {"enum": [str(number) for number in range(500)], "type": "string"},
            "far": {"$ref": "https://evil.example/schema.json"},
            "near": {"$ref": "#/$defs/n"},
            "$ref": {"type": "string", "title": "t" * 5_000},
        },
        "$defs": {"n": {"type": "integer", "default": 3}},
        "required": ["enum"],
    }
    (found,) = shown(tool("x", schema=schema))
    properties: Any = found.parameters["properties"]
    assert {"enum": ["a", "b"]} == properties["enum"]
    assert {"type": "string"} == properties["country"]
    assert {} == properties["far"]
    assert {"$ref": "#/$defs/n"} == properties["near"]
    assert 1_000 == len(properties["$ref"]["title"])
    assert {"n": {"type": "integer", "default": 3}} == found.parameters["$defs"]
    assert "$schema" not in found.parameters


def test_only_a_plain_yes_says_that_a_tool_reads() -> None:
    """Anything else is gated."""
    found = shown(*(tool(str(number), read_only=hint) for number, hint in enumerate((True, False, "true", 1, None))))
    assert [True, False, False, False, False] == [each.is_read_only for each in found]


def test_a_digest_is_of_all_that_is_shown() -> None:
    """Description, schema and the claim that it reads; the order of a list is no change."""
    same = listing_of("s", [tool("a"), tool("b")])
    assert same.digest == listing_of("s", [tool("b"), tool("a")]).digest
    for other in (tool("a", "x"), tool("a", schema={"type": "object", "title": "x"}), tool("a", read_only=True)):
        assert same.digest != listing_of("s", [other, tool("b")]).digest


def test_tables_of_a_toml_file(tmp_path: Path) -> None:
    """The kernel contract's shape, with variables; a later layer's declaration of a name counts."""
    file = tmp_path / "plait.toml"
    assert () == tables_in(file, {})
    file.write_text(
        '[[mcp_servers]]\nname = "db"\ncommand = "db-mcp"\nargs = ["--ro", "${DB:-x}"]\n'
        'env = { PORT = 5432 }\ncwd = "/srv"\ntimeout = 12.5\n'
    )
    (db,) = tables_in(file, {"DB": "main"})
    expected = ServerConfig(
        name="db", command="db-mcp", args=("--ro", "main"), env={"PORT": "5432"}, cwd="/srv", timeout_s=12.5
    )
    assert expected == db
    file.write_text('[mcp_servers.db]\ncommand = "db-mcp"\n')
    assert (ServerConfig(name="db", command="db-mcp"),) == tables_in(file, {})
    (other,) = servers_of({"db": {"url": "https://db.example/mcp", "type": "http"}}, {})
    assert (other,) == merged((db,), (other,))


@pytest.mark.parametrize("text", ["mcp_servers = 3", "[[mcp_servers]", '[[mcp_servers]]\nname = "x"'])
def test_a_toml_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    """With its path."""
    from plait.core.errors import ConfigError

    file = tmp_path / "plait.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"plait\.toml"):
        tables_in(file, {})
