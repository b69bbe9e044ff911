"""The known endpoints.

Floor: 2. Owns: data, looked up by `plait.models.profiles`; never: code.

From general knowledge of these providers, not from a check of each one's documentation: an option of the spec or the
command line wins over every row.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from plait.models.profiles import EndpointProfile
from plait.wire.profile import WireProfile

_GEMINI_UNSIGNED: Final = MappingProxyType({"google": {"thought_signature": "skip_thought_signature_validator"}})
"""What Gemini takes beside a call that another model made."""

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
        default_model="gpt-5-mini",
        takes_effort=True,
        takes_cache_key=True,
        reports_cache=True,
        min_cacheable_tokens=1_024,
    ),
    EndpointProfile(
        name="anthropic",
        hosts=("api.anthropic.com",),
        base_url="https://api.anthropic.com/v1",
        key_env=("ANTHROPIC_API_KEY",),
        auth_header="x-api-key",
        wire=WireProfile(
            wire="anthropic", origin="anthropic", reasoning_echo="always", image_bytes_max=5 * 1024 * 1024
        ),
        headers=MappingProxyType({"anthropic-version": "2023-06-01"}),
        context_window=200_000,
        default_model="claude-sonnet-4-5",
        takes_effort=True,
        reports_cache=True,
        min_cacheable_tokens=1_024,
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
        default_model="openai/gpt-5-mini",
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
        context_window=64_000,
        default_model="deepseek-chat",
        reports_cache=True,
        min_cacheable_tokens=64,
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
        default_model="gemini-2.5-flash",
    ),
    EndpointProfile(
        name="azure",
        hosts=(".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"),
        base_path="/openai/v1",
        key_env=("AZURE_OPENAI_API_KEY",),
        auth_header="api-key",
        wire=WireProfile(origin="azure", structured_output="always", max_tokens_field="max_completion_tokens"),
        context_window=128_000,
        takes_effort=True,
        reports_cache=True,
        min_cacheable_tokens=1_024,
    ),
    EndpointProfile(
        name="mistral",
        hosts=("api.mistral.ai", "codestral.mistral.ai"),
        base_url="https://api.mistral.ai/v1",
        key_env=("MISTRAL_API_KEY",),
        wire=WireProfile(origin="mistral", structured_output="without_tools", call_ids="nine", stream_usage=False),
        context_window=128_000,
        default_model="devstral-medium-latest",
    ),
    EndpointProfile(
        name="xai",
        hosts=("api.x.ai",),
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY",),
        wire=WireProfile(origin="xai", structured_output="without_tools"),
        context_window=128_000,
        default_model="grok-code-fast-1",
        reports_cache=True,
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
        default_model="kimi-k2-0905-preview",
        reports_cache=True,
    ),
    EndpointProfile(
        name="zai",
        hosts=("api.z.ai", "open.bigmodel.cn"),
        base_url="https://api.z.ai/api/paas/v4",
        key_env=("ZAI_API_KEY", "ZHIPUAI_API_KEY"),
        wire=WireProfile(origin="zai", reasoning_echo="always"),
        context_window=128_000,
        default_model="glm-4.6",
    ),
    EndpointProfile(
        name="dashscope",
        hosts=("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"),
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key_env=("DASHSCOPE_API_KEY",),
        wire=WireProfile(origin="dashscope"),
        context_window=128_000,
        default_model="qwen3-coder-plus",
    ),
    EndpointProfile(
        name="minimax",
        hosts=("api.minimax.io", "api.minimaxi.com"),
        base_url="https://api.minimax.io/v1",
        key_env=("MINIMAX_API_KEY",),
        wire=WireProfile(origin="minimax", think="inline", reasoning_echo="always"),
        context_window=128_000,
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
