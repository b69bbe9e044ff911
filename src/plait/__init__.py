"""plait: a coding agent you can read, trust and kill.

Every public name is imported from its home the first time it is asked for; `import plait` itself loads nothing.
A name stands here three times: for type checkers, in `_HOMES` for the interpreter, in `__all__` for readers.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without importing typing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plait._version import __version__
    from plait.cli.console import console
    from plait.cli.pricing import check_and_display_pricing
    from plait.core.cancel import Cancel
    from plait.core.errors import (
        AgentSpecDisabledError,
        AgentSpecInvalidError,
        ApprovalDenied,
        AuthenticationError,
        CacheProofError,
        ConfigError,
        ContextWindowExceededError,
        ControlError,
        FatalToolDispatchError,
        InvalidHistory,
        InvalidOutput,
        InvalidTools,
        JournalCorrupt,
        JournalError,
        JournalFull,
        JournalPoisoned,
        JournalVersion,
        LimitReached,
        ModelError,
        ModelNotFound,
        ModelOverloaded,
        ModelProtocolError,
        ModelRequestError,
        ModelTimeout,
        ModelUnavailable,
        PlaitError,
        PlaitError as AgentProbeError,
        PolicyError,
        PricingLimitExceededError,
        QuotaExceeded,
        RateLimitError,
        Refusal,
        RequestTooLarge,
        SessionBusy,
        ToolFault,
        TrustRequired,
        UnknownToolLoading,
        UnsupportedFeature,
    )
    from plait.core.messages import Image, Image as ImageContent, Message, Reasoning, Text, ToolCall, ToolResult
    from plait.core.redact import redact_secrets
    from plait.core.usage import Usage
    from plait.engine.agent import Agent, Profile
    from plait.engine.approval import Approver, AutoApprover, decide
    from plait.engine.context_manager import ContextManager
    from plait.engine.kernel_config import Config
    from plait.engine.kernel_face import CliApprover, ToolRegistry, ToolSpec, build_runtime
    from plait.engine.limits import Limits
    from plait.engine.result import RunResult
    from plait.engine.spec import AgentSpec, load_specification, safe_model_name, validate_schema
    from plait.engine.telemetry import JsonlTelemetry, NullTelemetry
    from plait.events.named import EventCallback, NamedEvent
    from plait.kernel.deferral import ActivationLimits
    from plait.kernel.effects import Allow, Ask, Deny
    from plait.kernel.ports import Options
    from plait.kernel.rules import Retry, Rules
    from plait.kernel.tools import Recovery, Tool, ToolContext, ToolTable
    from plait.models.chat_model import ChatModel, chat_model
    from plait.models.credentials import FromEnv
    from plait.models.endpoint import DEFAULT_ENDPOINT
    from plait.models.key_sources import FromCommand, FromFile, FromKeyring
    from plait.models.openai_client import OpenAI
    from plait.models.prices import Price, PriceTable, bundled_prices, read_prices
    from plait.models.registry import Descriptor, ModelRegistry, Needs, Provider
    from plait.models.subprocess_client import SubprocessOpenAI
    from plait.models.transport import Network, Timeouts
    from plait.session.background import drain_completions
    from plait.session.cancelling import CancelToken
    from plait.session.clients import create_client
    from plait.session.defaults import (
        TOOL_LIBRARY,
        dispatch,
        get_tool_output_stream,
        register_tools_in_library,
        set_ask_user_handler,
        set_tool_output_stream,
        set_wait_interrupt_hook,
    )
    from plait.session.flat import (
        flat,
    )
    from plait.session.opening import init_session
    from plait.session.options import DEFAULT_MAX_TOKENS
    from plait.session.pricing import PriceCheck, check_price
    from plait.session.reducing import StepReducer, StepReduction
    from plait.session.replaying import Replay, replay_session
    from plait.session.resetting import (
        DEFAULT_COMPACTION_KEEP_LAST_TURNS,
        Compacted,
        clear_session,
        compact_session,
    )
    from plait.session.result import SessionResult
    from plait.session.rewinding import Rewound, rewind
    from plait.session.sender import SENDER_KINDS, sender_header
    from plait.session.session import Session
    from plait.session.session_journal import (
        JournalState,
        KnownToolResult,
        PendingToolCall,
        SessionJournal,
        replay_journal,
    )
    from plait.session.session_log import (
        DurableSink,
    )
    from plait.session.subscribing import on, subscribe, unsubscribe
    from plait.session.tasks import run, run_agent, run_task
    from plait.session.turns import run_turn
    from plait.store.capture import (
        read_capture,
    )
    from plait.tools.background import completion_notice
    from plait.tools.background_specs import enable_nohup, nohup_tool_specs
    from plait.tools.coding import CodingLimits, CodingRequest, Command, coding_tools
    from plait.tools.deferred.catalog import CatalogRun, DeferredCatalog, NextStep, StepTools, Surface
    from plait.tools.deferred.search import SearchEvidence, SearchLimits
    from plait.tools.definitions import CANONICAL_TOOLS, SUPERSEDED_TOOLS
    from plait.tools.docstrings import (
        extract_tool_specs_from_module,
        parse_tool_spec_from_docstring,
        tool_spec_to_schema,
    )
    from plait.tools.library import default_tool_spec
    from plait.tools.spec import build_tool_spec

_HOMES: "Mapping[str, str]" = {
    "ActivationLimits": "plait.kernel.deferral",
    "Agent": "plait.engine.agent",
    "AgentProbeError": "plait.core.errors:PlaitError",
    "AgentSpec": "plait.engine.spec",
    "AgentSpecDisabledError": "plait.core.errors",
    "AgentSpecInvalidError": "plait.core.errors",
    "Allow": "plait.kernel.effects",
    "ApprovalDenied": "plait.core.errors",
    "Approver": "plait.engine.approval",
    "Ask": "plait.kernel.effects",
    "AuthenticationError": "plait.core.errors",
    "AutoApprover": "plait.engine.approval",
    "CANONICAL_TOOLS": "plait.tools.definitions",
    "CacheProofError": "plait.core.errors",
    "Cancel": "plait.core.cancel",
    "CancelToken": "plait.session.cancelling",
    "CatalogRun": "plait.tools.deferred.catalog",
    "ChatModel": "plait.models.chat_model",
    "CliApprover": "plait.engine.kernel_face",
    "CodingLimits": "plait.tools.coding",
    "CodingRequest": "plait.tools.coding",
    "Command": "plait.tools.coding",
    "Compacted": "plait.session.resetting",
    "Config": "plait.engine.kernel_config",
    "ConfigError": "plait.core.errors",
    "ContextManager": "plait.engine.context_manager",
    "ContextWindowExceededError": "plait.core.errors",
    "ControlError": "plait.core.errors",
    "DEFAULT_COMPACTION_KEEP_LAST_TURNS": "plait.session.resetting",
    "DEFAULT_ENDPOINT": "plait.models.endpoint",
    "DEFAULT_MAX_TOKENS": "plait.session.options",
    "DeferredCatalog": "plait.tools.deferred.catalog",
    "Deny": "plait.kernel.effects",
    "Descriptor": "plait.models.registry",
    "DurableSink": "plait.session.session_log",
    "EventCallback": "plait.events.named",
    "FatalToolDispatchError": "plait.core.errors",
    "FromCommand": "plait.models.key_sources",
    "FromEnv": "plait.models.credentials",
    "FromFile": "plait.models.key_sources",
    "FromKeyring": "plait.models.key_sources",
    "Image": "plait.core.messages",
    "ImageContent": "plait.core.messages:Image",
    "InvalidHistory": "plait.core.errors",
    "InvalidOutput": "plait.core.errors",
    "InvalidTools": "plait.core.errors",
    "JournalCorrupt": "plait.core.errors",
    "JournalError": "plait.core.errors",
    "JournalFull": "plait.core.errors",
    "JournalPoisoned": "plait.core.errors",
    "JournalState": "plait.session.session_journal",
    "JournalVersion": "plait.core.errors",
    "JsonlTelemetry": "plait.engine.telemetry",
    "KnownToolResult": "plait.session.session_journal",
    "LimitReached": "plait.core.errors",
    "Limits": "plait.engine.limits",
    "Message": "plait.core.messages",
    "ModelError": "plait.core.errors",
    "ModelNotFound": "plait.core.errors",
    "ModelOverloaded": "plait.core.errors",
    "ModelProtocolError": "plait.core.errors",
    "ModelRegistry": "plait.models.registry",
    "ModelRequestError": "plait.core.errors",
    "ModelTimeout": "plait.core.errors",
    "ModelUnavailable": "plait.core.errors",
    "NamedEvent": "plait.events.named",
    "Needs": "plait.models.registry",
    "Network": "plait.models.transport",
    "NextStep": "plait.tools.deferred.catalog",
    "NullTelemetry": "plait.engine.telemetry",
    "OpenAI": "plait.models.openai_client",
    "Options": "plait.kernel.ports",
    "PendingToolCall": "plait.session.session_journal",
    "PlaitError": "plait.core.errors",
    "PolicyError": "plait.core.errors",
    "Price": "plait.models.prices",
    "PriceCheck": "plait.session.pricing",
    "PriceTable": "plait.models.prices",
    "PricingLimitExceededError": "plait.core.errors",
    "Profile": "plait.engine.agent",
    "Provider": "plait.models.registry",
    "QuotaExceeded": "plait.core.errors",
    "RateLimitError": "plait.core.errors",
    "Reasoning": "plait.core.messages",
    "Recovery": "plait.kernel.tools",
    "Refusal": "plait.core.errors",
    "Replay": "plait.session.replaying",
    "RequestTooLarge": "plait.core.errors",
    "Retry": "plait.kernel.rules",
    "Rewound": "plait.session.rewinding",
    "Rules": "plait.kernel.rules",
    "RunResult": "plait.engine.result",
    "SENDER_KINDS": "plait.session.sender",
    "SUPERSEDED_TOOLS": "plait.tools.definitions",
    "SearchEvidence": "plait.tools.deferred.search",
    "SearchLimits": "plait.tools.deferred.search",
    "Session": "plait.session.session",
    "SessionBusy": "plait.core.errors",
    "SessionJournal": "plait.session.session_journal",
    "SessionResult": "plait.session.result",
    "StepReducer": "plait.session.reducing",
    "StepReduction": "plait.session.reducing",
    "StepTools": "plait.tools.deferred.catalog",
    "SubprocessOpenAI": "plait.models.subprocess_client",
    "Surface": "plait.tools.deferred.catalog",
    "TOOL_LIBRARY": "plait.session.defaults",
    "Text": "plait.core.messages",
    "Timeouts": "plait.models.transport",
    "Tool": "plait.kernel.tools",
    "ToolCall": "plait.core.messages",
    "ToolContext": "plait.kernel.tools",
    "ToolFault": "plait.core.errors",
    "ToolRegistry": "plait.engine.kernel_face",
    "ToolResult": "plait.core.messages",
    "ToolSpec": "plait.engine.kernel_face",
    "ToolTable": "plait.kernel.tools",
    "TrustRequired": "plait.core.errors",
    "UnknownToolLoading": "plait.core.errors",
    "UnsupportedFeature": "plait.core.errors",
    "Usage": "plait.core.usage",
    "__version__": "plait._version",
    "build_runtime": "plait.engine.kernel_face",
    "build_tool_spec": "plait.tools.spec",
    "bundled_prices": "plait.models.prices",
    "chat_model": "plait.models.chat_model",
    "check_and_display_pricing": "plait.cli.pricing",
    "check_price": "plait.session.pricing",
    "clear_session": "plait.session.resetting",
    "coding_tools": "plait.tools.coding",
    "compact_session": "plait.session.resetting",
    "completion_notice": "plait.tools.background",
    "console": "plait.cli.console",
    "create_client": "plait.session.clients",
    "decide": "plait.engine.approval",
    "default_tool_spec": "plait.tools.library",
    "dispatch": "plait.session.defaults",
    "drain_completions": "plait.session.background",
    "enable_nohup": "plait.tools.background_specs",
    "extract_tool_specs_from_module": "plait.tools.docstrings",
    "flat": "plait.session.flat",
    "get_tool_output_stream": "plait.session.defaults",
    "init_session": "plait.session.opening",
    "load_specification": "plait.engine.spec",
    "nohup_tool_specs": "plait.tools.background_specs",
    "on": "plait.session.subscribing",
    "parse_tool_spec_from_docstring": "plait.tools.docstrings",
    "read_capture": "plait.store.capture",
    "read_prices": "plait.models.prices",
    "redact_secrets": "plait.core.redact",
    "register_tools_in_library": "plait.session.defaults",
    "replay_journal": "plait.session.session_journal",
    "replay_session": "plait.session.replaying",
    "rewind": "plait.session.rewinding",
    "run": "plait.session.tasks",
    "run_agent": "plait.session.tasks",
    "run_task": "plait.session.tasks",
    "run_turn": "plait.session.turns",
    "safe_model_name": "plait.engine.spec",
    "sender_header": "plait.session.sender",
    "set_ask_user_handler": "plait.session.defaults",
    "set_tool_output_stream": "plait.session.defaults",
    "set_wait_interrupt_hook": "plait.session.defaults",
    "subscribe": "plait.session.subscribing",
    "tool_spec_to_schema": "plait.tools.docstrings",
    "unsubscribe": "plait.session.subscribing",
    "validate_schema": "plait.engine.spec",
}
"""Public name → the module it lives in (`module:name` where it is called something else there)."""

__all__ = [
    "ActivationLimits",
    "Agent",
    "AgentProbeError",
    "AgentSpec",
    "AgentSpecDisabledError",
    "AgentSpecInvalidError",
    "Allow",
    "ApprovalDenied",
    "Approver",
    "Ask",
    "AuthenticationError",
    "AutoApprover",
    "CANONICAL_TOOLS",
    "CacheProofError",
    "Cancel",
    "CancelToken",
    "CatalogRun",
    "ChatModel",
    "CliApprover",
    "CodingLimits",
    "CodingRequest",
    "Command",
    "Compacted",
    "Config",
    "ConfigError",
    "ContextManager",
    "ContextWindowExceededError",
    "ControlError",
    "DEFAULT_COMPACTION_KEEP_LAST_TURNS",
    "DEFAULT_ENDPOINT",
    "DEFAULT_MAX_TOKENS",
    "DeferredCatalog",
    "Deny",
    "Descriptor",
    "DurableSink",
    "EventCallback",
    "FatalToolDispatchError",
    "FromCommand",
    "FromEnv",
    "FromFile",
    "FromKeyring",
    "Image",
    "ImageContent",
    "InvalidHistory",
    "InvalidOutput",
    "InvalidTools",
    "JournalCorrupt",
    "JournalError",
    "JournalFull",
    "JournalPoisoned",
    "JournalState",
    "JournalVersion",
    "JsonlTelemetry",
    "KnownToolResult",
    "LimitReached",
    "Limits",
    "Message",
    "ModelError",
    "ModelNotFound",
    "ModelOverloaded",
    "ModelProtocolError",
    "ModelRegistry",
    "ModelRequestError",
    "ModelTimeout",
    "ModelUnavailable",
    "NamedEvent",
    "Needs",
    "Network",
    "NextStep",
    "NullTelemetry",
    "OpenAI",
    "Options",
    "PendingToolCall",
    "PlaitError",
    "PolicyError",
    "Price",
    "PriceCheck",
    "PriceTable",
    "PricingLimitExceededError",
    "Profile",
    "Provider",
    "QuotaExceeded",
    "RateLimitError",
    "Reasoning",
    "Recovery",
    "Refusal",
    "Replay",
    "RequestTooLarge",
    "Retry",
    "Rewound",
    "Rules",
    "RunResult",
    "SENDER_KINDS",
    "SUPERSEDED_TOOLS",
    "SearchEvidence",
    "SearchLimits",
    "Session",
    "SessionBusy",
    "SessionJournal",
    "SessionResult",
    "StepReducer",
    "StepReduction",
    "StepTools",
    "SubprocessOpenAI",
    "Surface",
    "TOOL_LIBRARY",
    "Text",
    "Timeouts",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolFault",
    "ToolRegistry",
    "ToolResult",
    "ToolSpec",
    "ToolTable",
    "TrustRequired",
    "UnknownToolLoading",
    "UnsupportedFeature",
    "Usage",
    "__version__",
    "build_runtime",
    "build_tool_spec",
    "bundled_prices",
    "chat_model",
    "check_and_display_pricing",
    "check_price",
    "clear_session",
    "coding_tools",
    "compact_session",
    "completion_notice",
    "console",
    "create_client",
    "decide",
    "default_tool_spec",
    "dispatch",
    "drain_completions",
    "enable_nohup",
    "extract_tool_specs_from_module",
    "flat",
    "get_tool_output_stream",
    "init_session",
    "load_specification",
    "nohup_tool_specs",
    "on",
    "parse_tool_spec_from_docstring",
    "read_capture",
    "read_prices",
    "redact_secrets",
    "register_tools_in_library",
    "replay_journal",
    "replay_session",
    "rewind",
    "run",
    "run_agent",
    "run_task",
    "run_turn",
    "safe_model_name",
    "sender_header",
    "set_ask_user_handler",
    "set_tool_output_stream",
    "set_wait_interrupt_hook",
    "subscribe",
    "tool_spec_to_schema",
    "unsubscribe",
    "validate_schema",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name and keep it, so that this runs once a name."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        module, _, attribute = home.partition(":")
        value = getattr(importlib.import_module(module), attribute or name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """List the public names, those not imported yet included."""
        return sorted({*globals(), *__all__})
