"""One conversation, held by plait and by each vendor's own client in its own idiom, on any server.

Three requests: a question with a picture, the results of two calls, and a second question. What a client got back it
sends back as its documentation says: the objects that it was given, put into the next request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from plait.core.cancel import Cancel
from plait.core.exchange import ToolSchema, View
from plait.core.messages import Image, Message, ToolResult, user
from plait.kernel.effects import Think
from plait.kernel.ports import Options, Setup
from plait.models.chat_model import chat_model
from plait.models.profiles import EndpointProfile
from plait.testing import Call, Say
from plait.wire.profile import WireName

SYSTEM = "Be brief."
QUESTION = "What is in the picture?"
SECOND = "And what is missing?"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"place": {"type": "string", "description": "where to look"}, "deep": {"type": "boolean"}},
    "required": ["place"],
    "additionalProperties": False,
}
DESCRIPTION = "Looks at a place."
RESULTS = {"left": "a tree", "right": "nothing"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}


def script(*, thinks: bool) -> list[Say]:
    """Return the answers to the three requests."""
    calls = [
        Call("look", {"place": "left"}, id="call_a1"),
        Call("look", {"place": "right", "deep": True}, id="call_b2"),
    ]
    first = Say("I will look.", reasoning="two places" if thinks else "", calls=calls)
    return [first, Say("A tree."), Say("The right side.")]


@dataclass(frozen=True)
class Wish:
    """How the conversation is to be held."""

    stream: bool = False
    thinks: bool = False
    tool_choice: str | None = None
    parallel: bool | None = None
    temperature: float | None = None
    schema: bool = False
    adaptive: bool = False
    """Whether an Anthropic model is told an effort, or a budget of thoughts."""


OUTPUT_TOKENS = 4_096


def by_plait(url: str, wire: WireName, wish: Wish, profile: EndpointProfile, key: str) -> None:
    """Hold the conversation with plait's own model."""
    model = chat_model("m", url, profile=profile, wire=wire, api_key=key)
    options = Options(
        max_output_tokens=OUTPUT_TOKENS,
        temperature=wish.temperature,
        reasoning="low" if wish.thinks else None,
        tool_choice=wish.tool_choice,
        parallel_tool_calls=wish.parallel,
        **({"response_schema": SCHEMA} if wish.schema else {}),
    )
    channel = model.open(Setup(SYSTEM, (ToolSchema("look", DESCRIPTION, PARAMETERS),), options))
    history = [user(QUESTION, [Image(PIXEL)])]

    def ask() -> Message:
        reply = channel.think(Think(View(0, history, len(history))), None, Cancel())
        history.append(reply.message)
        return reply.message

    asked = ask()
    results = (ToolResult(call.id, RESULTS[str(call.arguments["place"])]) for call in asked.tool_calls)
    history.append(Message("tool", tuple(results)))
    ask()
    history.append(user(SECOND))
    ask()
    model.close()


def by_openai_chat(url: str, wish: Wish, key: str) -> None:
    """Hold it with `client.chat.completions`."""
    from openai import OpenAI

    more: dict[str, Any] = {"tool_choice": _chat_choice(wish.tool_choice)} if wish.tool_choice else {}
    more |= {} if wish.parallel is None else {"parallel_tool_calls": wish.parallel}
    more |= {} if wish.temperature is None else {"temperature": wish.temperature}
    more |= {"reasoning_effort": "low"} if wish.thinks else {}
    if wish.schema:
        more["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
        }
    function = {"name": "look", "description": DESCRIPTION, "parameters": PARAMETERS}
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    messages: list[Any] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}, picture]},
    ]
    common: dict[str, Any] = {
        "model": "m",
        "messages": messages,
        "tools": [{"type": "function", "function": function}],
        "max_completion_tokens": OUTPUT_TOKENS,
        **more,
    }
    with OpenAI(base_url=url, api_key=key, max_retries=0) as client:

        def ask() -> Any:
            if wish.stream:
                with client.chat.completions.stream(**common, stream_options={"include_usage": True}) as events:
                    message = events.get_final_completion().choices[0].message
            else:
                message = client.chat.completions.create(**common).choices[0].message
            messages.append(message)
            return message

        for call in ask().tool_calls:
            place = json.loads(call.function.arguments)["place"]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULTS[place]})
        ask()
        messages.append({"role": "user", "content": SECOND})
        ask()


def by_openai_responses(url: str, wish: Wish, key: str) -> None:
    """Hold it with `client.responses`, nothing stored at the provider."""
    from openai import OpenAI

    more: dict[str, Any] = {"tool_choice": _responses_choice(wish.tool_choice)} if wish.tool_choice else {}
    more |= {} if wish.parallel is None else {"parallel_tool_calls": wish.parallel}
    more |= {} if wish.temperature is None else {"temperature": wish.temperature}
    if wish.thinks:
        more |= {"reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"]}
    if wish.schema:
        more["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}
    picture = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"}
    items: list[Any] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}, picture]}
    ]
    tool = {"type": "function", "name": "look", "description": DESCRIPTION, "parameters": PARAMETERS, "strict": False}
    common: dict[str, Any] = {
        "model": "m",
        "input": items,
        "instructions": SYSTEM,
        "tools": [tool],
        "max_output_tokens": OUTPUT_TOKENS,
        "store": False,
        **more,
    }
    with OpenAI(base_url=url, api_key=key, max_retries=0) as client:

        def ask() -> list[Any]:
            if wish.stream:
                response: Any = None
                for event in client.responses.create(**common, stream=True):
                    response = event.response if event.type == "response.completed" else response
            else:
                response = client.responses.create(**common)
            items.extend(response.output)
            return [item for item in response.output if item.type == "function_call"]

        for call in ask():
            output = RESULTS[json.loads(call.arguments)["place"]]
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
        ask()
        items.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": SECOND}]})
        ask()


def by_anthropic(url: str, wish: Wish, key: str) -> None:
    """Hold it with `client.messages`, cached as the documentation advises for conversations."""
    from anthropic import Anthropic

    marked = {"cache_control": {"type": "ephemeral"}}
    more: dict[str, Any] = (
        {"tool_choice": _anthropic_choice(wish)} if wish.tool_choice or wish.parallel is False else {}
    )
    # The client has no such parameter any more; the version of the API that plait names still has.
    more |= {} if wish.temperature is None else {"extra_body": {"temperature": wish.temperature}}
    config: dict[str, Any] = {"effort": "low"} if wish.thinks and wish.adaptive else {}
    if wish.thinks:
        more["thinking"] = {"type": "adaptive"} if wish.adaptive else {"type": "enabled", "budget_tokens": 1_024}
    if wish.schema:
        config["format"] = {"type": "json_schema", "schema": SCHEMA}
    if config:
        more["output_config"] = config
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": QUESTION}, picture]}]
    common: dict[str, Any] = {
        "model": "m",
        "messages": messages,
        "system": [{"type": "text", "text": SYSTEM, **marked}],
        "tools": [{"name": "look", "description": DESCRIPTION, "input_schema": PARAMETERS, **marked}],
        "max_tokens": OUTPUT_TOKENS,
        **more,
    }
    with Anthropic(base_url=url.removesuffix("/v1"), api_key=key, max_retries=0) as client:

        def ask() -> Any:
            if wish.stream:
                with client.messages.stream(**common) as events:
                    message = events.get_final_message()
            else:
                message = client.messages.create(**common)
            messages.append({"role": "assistant", "content": message.content})
            return message

        calls = [block for block in ask().content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": RESULTS[call.input["place"]]} for call in calls
        ]
        messages.append({"role": "user", "content": results})
        ask()
        messages.append({"role": "user", "content": [{"type": "text", "text": SECOND}]})
        ask()


SDKS: Mapping[WireName, Callable[[str, Wish, str], None]] = {
    "chat": by_openai_chat,
    "responses": by_openai_responses,
    "anthropic": by_anthropic,
}
PACKAGES: Mapping[WireName, str] = {"chat": "openai", "responses": "openai", "anthropic": "anthropic"}


def _chat_choice(choice: str) -> Any:
    return choice if choice in ("auto", "none", "required") else {"type": "function", "function": {"name": choice}}


def _responses_choice(choice: str) -> Any:
    return choice if choice in ("auto", "none", "required") else {"type": "function", "name": choice}


def _anthropic_choice(wish: Wish) -> Any:
    words = {"auto": {"type": "auto"}, "required": {"type": "any"}, None: {"type": "auto"}}
    chosen: dict[str, Any] = words.get(wish.tool_choice, {"type": "tool", "name": wish.tool_choice})
    return {**chosen, "disable_parallel_tool_use": True} if wish.parallel is False else chosen
