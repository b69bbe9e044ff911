"""The known endpoints.

Floor: 2. Owns: data, looked up by `plait.models.known_profiles`; never: code.

From these providers' documentation, the reports of their users and general knowledge, as of November 2026; nothing here
was tried with a key. An option of the spec or the command line wins over every row, and `plait probe` finds out what is
true of an endpoint now.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from plait.models.profiles import ANTHROPIC_KEY_HEADER, ANTHROPIC_VERSION, EndpointProfile, ModelTraits
from plait.wire.profile import WireProfile

_GEMINI_UNSIGNED: Final = MappingProxyType({"google": {"thought_signature": "skip_thought_signature_validator"}})
"""What Gemini takes beside a call that another model made."""

_RESPONSES: Final = MappingProxyType({"wire": "responses", "reasoning_echo": "always", "temperature": False})
"""How OpenAI's later models are asked: with tools in a chat completion they refuse to think, the latest to answer."""
_OPENAI_MODELS: Final = (
    ModelTraits(("gpt-4.1",), 1_047_576),
    ModelTraits(("o3", "o4-mini"), 200_000),
    ModelTraits(("gpt-5",), 272_000),
    ModelTraits(("gpt-5-pro", "gpt-5.2-pro", "gpt-5.3-codex", "gpt-5.4-mini", "gpt-5.4-nano"), 272_000, _RESPONSES),
    ModelTraits(("gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6"), 922_000, _RESPONSES),
)
_SEES: Final = MappingProxyType({"images": True})
_THINKS: Final = MappingProxyType({"thinking": "always"})
_BUDGET: Final = MappingProxyType({"thinking": "budget", "temperature": True})
_CLAUDE_MODELS: Final = (
    ModelTraits(("claude-3", "claude-sonnet-4", "claude-opus-4", "claude-haiku-4"), 200_000, _BUDGET),
    ModelTraits(("claude-sonnet-4-6", "claude-opus-4-6"), 1_000_000, MappingProxyType({"temperature": True})),
    ModelTraits(("claude-opus-4-7", "claude-opus-4-8"), 1_000_000),
    ModelTraits(("claude-sonnet-5", "claude-opus-5", "claude-haiku-5"), 1_000_000),
    ModelTraits(("claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5", "claude-mythos-5"), 1_000_000, _THINKS),
)

PROFILES: Final[tuple[EndpointProfile, ...]] = (
    EndpointProfile(
        name="openai",
        hosts=("api.openai.com",),
        base_url="https://api.openai.com/v1",
        key_env=("OPENAI_API_KEY",),
        wire=WireProfile(
            origin="openai", structured_output="always", max_tokens_field="max_completion_tokens", custom_tools=True
        ),
        context_window=128_000,
        default_model="gpt-6.1-terra",
        takes_effort=True,
        takes_cache_key=True,
        reports_cache=True,
        min_cacheable_tokens=1_024,
        models=_OPENAI_MODELS,
    ),
    EndpointProfile(
        name="anthropic",
        hosts=("api.anthropic.com",),
        base_url="https://api.anthropic.com/v1",
        key_env=("ANTHROPIC_API_KEY",),
        auth_header=ANTHROPIC_KEY_HEADER,
        wire=WireProfile(
            wire="anthropic",
            origin="anthropic",
            reasoning_echo="always",
            image_bytes_max=5 * 1024 * 1024,
            thinking="adaptive",
            temperature=False,
        ),
        headers=MappingProxyType({"anthropic-version": ANTHROPIC_VERSION}),
        context_window=200_000,
        default_model="claude-sonnet-5-5",
        takes_effort=True,
        reports_cache=True,
        min_cacheable_tokens=1_024,
        models=_CLAUDE_MODELS,
    ),
    EndpointProfile(
        name="openrouter",
        hosts=("openrouter.ai",),
        base_url="https://openrouter.ai/api/v1",
        key_env=("OPENROUTER_API_KEY",),
        wire=WireProfile(origin="openrouter", reasoning_echo="always", reasoning_field="reasoning"),
        headers=MappingProxyType({"X-Title": "plait"}),
        body=MappingProxyType({"usage": {"include": True}}),
        context_window=128_000,
        default_model="~openai/gpt-terra-latest",
        reports_cache=True,
        pins_provider=True,
        lists_prices=True,
    ),
    EndpointProfile(
        name="deepseek",
        hosts=("api.deepseek.com",),
        base_url="https://api.deepseek.com/v1",
        key_env=("DEEPSEEK_API_KEY",),
        wire=WireProfile(origin="deepseek", reasoning_echo="always", images=False),
        context_window=1_000_000,
        default_model="deepseek-flash",
        takes_effort=True,
        reports_cache=True,
        min_cacheable_tokens=64,
        models=(ModelTraits(("deepseek-flash",), wire=_SEES),),
    ),
    EndpointProfile(
        name="gemini",
        hosts=("generativelanguage.googleapis.com",),
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        wire=WireProfile(
            origin="gemini",
            structured_output="without_tools",
            call_extra=_GEMINI_UNSIGNED,
            schema_keywords_refused=frozenset(
                {"$schema", "const", "exclusiveMinimum", "exclusiveMaximum", "propertyNames"}
            ),
        ),
        context_window=1_000_000,
        takes_effort=True,
        default_model="gemini-3.8-flash",
    ),
    EndpointProfile(
        name="azure",
        hosts=(".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"),
        base_path="/openai/v1",
        is_azure_priced=True,
        key_env=("AZURE_OPENAI_API_KEY",),
        auth_header="api-key",
        wire=WireProfile(origin="azure", structured_output="always", max_tokens_field="max_completion_tokens"),
        context_window=128_000,
        takes_effort=True,
        reports_cache=True,
        min_cacheable_tokens=1_024,
        models=_OPENAI_MODELS,
    ),
    EndpointProfile(
        name="mistral",
        hosts=("api.mistral.ai", "codestral.mistral.ai"),
        base_url="https://api.mistral.ai/v1",
        key_env=("MISTRAL_API_KEY",),
        wire=WireProfile(origin="mistral", structured_output="without_tools", call_ids="nine", stream_usage=False),
        context_window=128_000,
        default_model="devstral-medium-latest",
        models=(ModelTraits(("devstral", "mistral-medium", "mistral-large", "magistral"), 256_000),),
    ),
    EndpointProfile(
        name="xai",
        hosts=("api.x.ai",),
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY",),
        wire=WireProfile(origin="xai", structured_output="without_tools"),
        context_window=128_000,
        default_model="grok-4.7",
        reports_cache=True,
        models=(
            ModelTraits(("grok-4.5", "grok-4.6", "grok-4.7"), 500_000),
            ModelTraits(("grok-4.2", "grok-4.3"), 1_000_000),
        ),
    ),
    EndpointProfile(
        name="groq",
        hosts=("api.groq.com",),
        base_url="https://api.groq.com/openai/v1",
        key_env=("GROQ_API_KEY",),
        wire=WireProfile(origin="groq"),
        context_window=128_000,
    ),
    EndpointProfile(
        name="moonshot",
        hosts=("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
        base_url="https://api.moonshot.ai/v1",
        key_env=("MOONSHOT_API_KEY", "KIMI_API_KEY"),
        wire=WireProfile(origin="moonshot", reasoning_echo="always"),
        context_window=128_000,
        default_model="kimi-k2.7-code",
        reports_cache=True,
        models=(ModelTraits(("kimi-k2",), 262_144), ModelTraits(("kimi-k3",), 1_048_576)),
    ),
    EndpointProfile(
        name="zai",
        hosts=("api.z.ai", "open.bigmodel.cn"),
        base_url="https://api.z.ai/api/paas/v4",
        key_env=("ZAI_API_KEY", "ZHIPUAI_API_KEY"),
        wire=WireProfile(origin="zai", reasoning_echo="always"),
        context_window=128_000,
        default_model="glm-5.3",
        models=(ModelTraits(("glm-4.6", "glm-4.7", "glm-5"), 200_000), ModelTraits(("glm-5.2", "glm-5.3"), 1_000_000)),
    ),
    EndpointProfile(
        name="dashscope",
        hosts=("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"),
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key_env=("DASHSCOPE_API_KEY",),
        wire=WireProfile(origin="dashscope"),
        context_window=128_000,
        default_model="qwen3-coder-plus",
        models=(ModelTraits(("qwen3-coder-plus", "qwen3-coder-flash", "qwen3.7", "qwen3.8"), 990_000),),
    ),
    EndpointProfile(
        name="minimax",
        hosts=("api.minimax.io", "api.minimaxi.com"),
        base_url="https://api.minimax.io/v1",
        key_env=("MINIMAX_API_KEY",),
        wire=WireProfile(origin="minimax", think="inline", reasoning_echo="always"),
        context_window=200_000,
        default_model="MiniMax-M3",
        models=(ModelTraits(("MiniMax-M2.1", "MiniMax-M2.5", "MiniMax-M3"), 1_000_000),),
    ),
    EndpointProfile(
        name="together",
        hosts=("api.together.xyz", "api.together.ai"),
        base_url="https://api.together.xyz/v1",
        key_env=("TOGETHER_API_KEY",),
        wire=WireProfile(origin="together", structured_output="without_tools", think="inline"),
    ),
    EndpointProfile(
        name="fireworks",
        hosts=("api.fireworks.ai",),
        base_url="https://api.fireworks.ai/inference/v1",
        key_env=("FIREWORKS_API_KEY",),
        wire=WireProfile(origin="fireworks", structured_output="without_tools", think="inline"),
    ),
    EndpointProfile(
        name="cerebras",
        hosts=("api.cerebras.ai",),
        base_url="https://api.cerebras.ai/v1",
        key_env=("CEREBRAS_API_KEY",),
        wire=WireProfile(origin="cerebras", max_tokens_field="max_completion_tokens"),
    ),
    EndpointProfile(
        name="deepinfra",
        hosts=("api.deepinfra.com",),
        base_url="https://api.deepinfra.com/v1/openai",
        key_env=("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN"),
        wire=WireProfile(origin="deepinfra", think="inline"),
    ),
    EndpointProfile(
        name="nvidia",
        hosts=("integrate.api.nvidia.com",),
        base_url="https://integrate.api.nvidia.com/v1",
        key_env=("NVIDIA_API_KEY",),
        wire=WireProfile(origin="nvidia", think="inline"),
    ),
    EndpointProfile(
        name="huggingface",
        hosts=("router.huggingface.co", ".endpoints.huggingface.cloud"),
        base_url="https://router.huggingface.co/v1",
        key_env=("HF_TOKEN",),
        wire=WireProfile(origin="huggingface", think="inline"),
    ),
)

LOCAL: Final = EndpointProfile(
    name="local",
    base_url="http://localhost:11434/v1",
    key_env=("LOCAL_API_KEY",),
    needs_key=False,
    wire=WireProfile(origin="local", structured_output="without_tools", think="inline", images=False),
)
"""llama.cpp, ollama, vLLM, LM Studio and their like on this machine or the network it is in."""

UNKNOWN: Final = EndpointProfile(name="", wire=WireProfile(think="inline"))
"""A host nobody told us about: it is sent nothing that is not in every server's book."""
