"""Messages and the views on them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given

from plait.core.messages import (
    Control,
    Image,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from plait.core.strict_json import JsonInvalid
from tests.helpers.strategies import calls, images, messages, results


@given(messages)
def test_the_readable_form_comes_back(message: Message) -> None:
    """What people read of a message is the same after it was read back."""
    seen = message.to_dict()

    assert seen == Message.from_dict(seen).to_dict()


@given(calls)
def test_a_call_comes_back_readable(call: ToolCall) -> None:
    """Arguments that cannot be read stay their text; they never turn into other arguments."""
    seen = call.to_dict()

    assert seen == ToolCall.from_dict(seen).to_dict()


@given(results)
def test_a_result_comes_back_readable(result: ToolResult) -> None:
    """Id, text, error mark and data of a result survive."""
    seen = result.to_dict()

    assert seen == ToolResult.from_dict(seen).to_dict()


@given(images)
def test_an_image_comes_back_whole(image: Image) -> None:
    """A picture's readable form loses nothing."""
    assert image == Image.from_dict(image.to_dict())


@given(results)
def test_status_and_error_mark_agree(result: ToolResult) -> None:
    """Only a result that is ok in both ways is ok."""
    assert result.is_error == (result.status != "ok")


def test_a_message_is_seen_by_kind() -> None:
    """Words, thoughts, calls, results and pictures are views on the parts, in their order."""
    call, result, image = ToolCall("c", "t"), ToolResult("c", "r"), Image("QQ==")
    message = Message(
        "assistant",
        (Text("a"), Reasoning("why "), Opaque("chat", {}), call, Text("b"), Reasoning("not"), result, image),
    )

    assert "ab" == message.content
    assert "why not" == message.reasoning
    assert (call,) == message.tool_calls
    assert (result,) == message.tool_results
    assert (image,) == message.images


def test_older_transcripts_can_be_read() -> None:
    """Only the role is required; what an older version did not write takes its default."""
    assert Message("user") == Message.from_dict({"role": "user"})
    assert Message("user", (Text("hi"),)) == Message.from_dict({"role": "user", "content": "hi", "images": None})
    assert ToolCall("c", "t") == ToolCall.from_dict({"id": "c", "name": "t"})
    assert ToolCall("c", "t") == ToolCall.from_dict({"id": "c", "name": "t", "arguments": None})
    assert ToolResult("c") == ToolResult.from_dict({"call_id": "c"})


@pytest.mark.parametrize(
    "kind, data", [(Message, {}), (ToolCall, {"id": "c"}), (ToolCall, {"name": "t"}), (ToolResult, {}), (Image, {})]
)
def test_what_is_required_is_missed(kind: type[Message], data: dict[str, object]) -> None:
    """A transcript without a role, an id, a name or the picture's data is refused by the name of the field."""
    with pytest.raises(KeyError):
        kind.from_dict(data)


def test_a_role_nobody_knows_is_refused() -> None:
    """A message of an unknown role is no message."""
    with pytest.raises(ValueError, match="'wizard'"):
        Message.from_dict({"role": "wizard"})


def test_arguments_are_read_once_and_strictly() -> None:
    """Arguments are a JSON object with exact numbers; anything else says so."""
    assert {"n": 2**70} == ToolCall("c", "t", f'{{"n": {2**70}}}').arguments
    assert {"input": "free {text"} == ToolCall("c", "t", "free {text", custom=True).arguments
    assert not ToolCall("c", "t", "[1]").is_valid
    assert ToolCall("c", "t").is_valid
    with pytest.raises(JsonInvalid):
        _ = ToolCall("c", "t", '{"a": ').arguments


def test_a_call_is_made_from_values() -> None:
    """Python values become the compact JSON text that a model would have sent."""
    assert ToolCall("c", "t", '{"a":"ü","n":[1]}') == ToolCall.of("c", "t", {"a": "ü", "n": [1]})


def test_pictures_from_files_and_addresses(tmp_path: Path) -> None:
    """A file is read into base64 with its content's type; an address stays one, unless it holds a picture."""
    jpeg = tmp_path / "a.png"
    jpeg.write_bytes(b"\xff\xd8\xff")

    assert Image(base64.b64encode(b"\xff\xd8\xff").decode(), "image/jpeg") == Image.from_path(jpeg)
    assert "data:image/jpeg;base64,/9j/" == Image.from_path(str(jpeg)).as_data_uri()
    assert Image.from_path(jpeg) == Image.from_bytes(jpeg.read_bytes())
    assert Image.from_path(jpeg) == Image.from_url("data:image/jpeg;base64,/9j/")
    assert "http://localhost/x.png" == Image.from_url("http://localhost/x.png").as_data_uri()
    assert (3, 0) == (Image.from_path(jpeg).size_bytes, Image.from_url("http://localhost/x.png").size_bytes)


def test_constructors_say_who_speaks() -> None:
    """`user` and `assistant` make the common messages; a mark says that plait wrote one."""
    marked = user("go on", mark="guard")

    assert Message("user", (Text("go on"), Control("guard"))) == marked
    assert (True, False) == (marked.marked("guard"), marked.marked("hook"))
    assert Message("assistant") == assistant()
    assert Message("assistant", (Text("hi"), ToolCall("c", "t")), "here") == assistant(
        "hi", [ToolCall("c", "t")], origin="here"
    )


def test_messages_are_values() -> None:
    """A message cannot be changed, so that its bytes can be kept."""
    with pytest.raises(AttributeError):
        user("a").role = "assistant"  # type: ignore[misc]
