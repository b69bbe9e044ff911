"""Tool specifications in docstrings."""

from __future__ import annotations

import types

from hypothesis import given, strategies as st

from plait.tools.docstrings import (
    extract_tool_specs_from_module,
    parse_tool_spec_from_docstring,
    tool_spec_block,
    tool_spec_to_schema,
)

WORDS = st.lists(st.from_regex(r"[a-z:,.'()-]*[a-z]", fullmatch=True), min_size=1, max_size=10).map(" ".join)
NAMES = st.from_regex(r"[a-z][a-z_]{0,12}", fullmatch=True)


def described(path: str) -> str:
    """Look at a file.

    Tool spec:
        name: look
        description: Look at a file: its first lines,
            and nothing else.
        parameters:
            file_path:
                type: string
                description: The file (see also: list_dir).
                required: true
                maps_to: path
            how:
                type: string
                enum: ["fast", "well"]

    Notes:
        Not part of the block.
    """
    return path


def test_a_block_is_read_with_its_folded_lines_and_further_keywords() -> None:
    """A block gives name, description, parameters, required names and the map to the function's own names."""
    expected = {
        "name": "look",
        "description": "Look at a file: its first lines, and nothing else.",
        "parameters": {
            "file_path": {"type": "string", "description": "The file (see also: list_dir)."},
            "how": {"type": "string", "enum": ["fast", "well"]},
        },
        "required": ["file_path"],
        "param_map": {"file_path": "path", "how": "how"},
    }
    assert expected == parse_tool_spec_from_docstring(described.__doc__)


def test_a_docstring_without_a_block_has_no_specification() -> None:
    """No heading, no name, or no docstring at all is None."""
    for doc in (None, "", "Tool spec: none", "Tool spec:\n    description: nameless"):
        assert parse_tool_spec_from_docstring(doc) is None, doc


def test_a_specification_becomes_a_schema_entry() -> None:
    """The entry is what a chat-completions endpoint takes, without the argument map."""
    spec = parse_tool_spec_from_docstring(described.__doc__)
    assert spec is not None
    entry = tool_spec_to_schema(spec)
    function = entry["function"]
    assert isinstance(function, dict)
    assert ("function", "look", ["file_path"]) == (entry["type"], function["name"], function["parameters"]["required"])
    assert ["file_path", "how"] == list(function["parameters"]["properties"])


def test_a_module_gives_the_specifications_of_its_functions_only() -> None:
    """Functions without a block, and things that are no functions, are passed over."""
    module = types.ModuleType("tools_of_mine")
    module.look = described  # type: ignore[attr-defined]
    module.plain = len  # type: ignore[attr-defined]
    module.text = described.__doc__  # type: ignore[attr-defined]
    assert ["look"] == list(extract_tool_specs_from_module(module))


@given(NAMES, WORDS, st.dictionaries(NAMES, st.tuples(WORDS, st.booleans(), NAMES), max_size=4))
def test_what_is_written_is_read_back(
    name: str, description: str, parameters: dict[str, tuple[str, bool, str]]
) -> None:
    """A block that was written from a schema reads as the same specification."""
    schema = {
        "type": "object",
        "properties": {key: {"type": "integer", "description": text} for key, (text, _, _) in parameters.items()},
        "required": [key for key, (_, is_required, _) in parameters.items() if is_required],
    }
    param_map = {key: target for key, (_, _, target) in parameters.items()}
    block = tool_spec_block(name, description, schema, param_map)
    expected = {
        "name": name,
        "description": description,
        "parameters": schema["properties"],
        "required": schema["required"],
        "param_map": param_map,
    }
    assert expected == parse_tool_spec_from_docstring(f"Do it.\n\n{block}\n")
