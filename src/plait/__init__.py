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
        MCPError,
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
        SandboxError,
        SessionBusy,
        ToolFault,
        TrustRequired,
        UnknownToolLoading,
        UnsupportedFeature,
    )
    from plait.core.messages import Image, Image as ImageContent, Message, Reasoning, Text, ToolCall, ToolResult
    from plait.core.redact import redact_secrets
    from plait.core.usage import Usage
    from plait.engine.agent import Agent
    from plait.engine.agent_spec import AgentSpec, safe_model_name
    from plait.engine.approval import Approver, AutoApprover, decide
    from plait.engine.budget import Budget
    from plait.engine.budget_guard import BudgetGuard
    from plait.engine.cli_approver import CliApprover
    from plait.engine.context_manager import ContextManager
    from plait.engine.kernel_config import Config
    from plait.engine.kernel_face import ToolRegistry, ToolSpec, build_runtime
    from plait.engine.kernel_files import resolve_config
    from plait.engine.limits import Limits, SessionLimits
    from plait.engine.profile import Profile
    from plait.engine.profile_files import load_profile
    from plait.engine.result import RunResult
    from plait.engine.risk_judge import RiskJudge
    from plait.engine.spec import load_specification, validate_schema
    from plait.engine.telemetry import JsonlTelemetry, NullTelemetry
    from plait.events.named import EventCallback, NamedEvent
    from plait.hands.containers import DockerSandbox, LocalSandbox, make_sandbox
    from plait.hands.fence.policy import ResourceLimits, SandboxPolicy
    from plait.hooks.decision import HookDecision, RawHookResult
    from plait.hooks.entry import HookBlock, HookEntry, HookHandler
    from plait.hooks.folders import discover_hook_dir
    from plait.hooks.sources import dedupe_entries
    from plait.kernel.deferral import ActivationLimits
    from plait.kernel.effects import Allow, Ask, Deny
    from plait.kernel.ports import Options
    from plait.kernel.rules import Guards, Retry, Rules, Shrinking
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
    from plait.session.asides import side_query
    from plait.session.background import drain_completions
    from plait.session.cancelling import CancelToken
    from plait.session.clients import create_client
    from plait.session.defaults import (
        TOOL_LIBRARY,
        dispatch,
        enable_rtk_rewrite,
        get_tool_output_stream,
        register_tools_in_library,
        set_ask_user_handler,
        set_tool_output_stream,
        set_wait_interrupt_hook,
    )
    from plait.session.executing import execute_tool_call
    from plait.session.history.reducing import StepReducer, StepReduction
    from plait.session.history.replaying import Replay, replay_session
    from plait.session.history.resetting import (
        Compacted,
        clear_session,
        compact_session,
    )
    from plait.session.history.rewinding import Rewound, rewind
    from plait.session.hooks.registering import load_hooks, register_hook, session_hooks
    from plait.session.kept.flat import (
        flat,
    )
    from plait.session.kept.session_journal import (
        JournalState,
        KnownToolResult,
        PendingToolCall,
        SessionJournal,
        replay_journal,
    )
    from plait.session.kept.session_log import (
        DurableSink,
    )
    from plait.session.opening import init_session
    from plait.session.options import DEFAULT_MAX_TOKENS
    from plait.session.pricing import PriceCheck, check_price
    from plait.session.prompt import inline_system_prompt
    from plait.session.result import SessionResult
    from plait.session.sender import SENDER_KINDS, sender_header
    from plait.session.session import Session
    from plait.session.subscribing import on, subscribe, unsubscribe
    from plait.session.summaries.terms import (
        DEFAULT_COMPACTION_KEEP_LAST_TURNS,
        DEFAULT_COMPACTION_TARGET_TOKENS,
        DEFAULT_COMPACTION_TRIGGER_TOKENS,
    )
    from plait.session.summaries.uncompacting import uncompact_session
    from plait.session.tasks import run, run_agent, run_task
    from plait.session.tool_choice import activate_tool, remove_tool
    from plait.session.turns import run_turn
    from plait.store.capture import (
        read_capture,
    )
    from plait.tools.background import completion_notice
    from plait.tools.background_specs import enable_nohup, nohup_tool_specs
    from plait.tools.checkpoints import Checkpointer
    from plait.tools.coding import (
        ArtifactStore,
        CodingLimits,
        CodingRequest,
        Command,
        DiskArtifacts,
        MemoryArtifacts,
        coding_tools,
        sweep_workspace,
    )
    from plait.tools.deferred.catalog import CatalogRun, DeferredCatalog, NextStep, StepTools, Surface
    from plait.tools.deferred.search import SearchEvidence, SearchLimits
    from plait.tools.definitions import CANONICAL_TOOLS, SUPERSEDED_TOOLS
    from plait.tools.docstrings import (
        extract_tool_specs_from_module,
        parse_tool_spec_from_docstring,
        tool_spec_to_schema,
    )
    from plait.tools.executor import LocalToolExecutor, ToolExecutor
    from plait.tools.fenced_executor import BubblewrapToolExecutor
    from plait.tools.library import default_tool_spec
    from plait.tools.mcp.face import MCPClient, MCPTools, RunningServer, mcp_tools, register_mcp_servers
    from plait.tools.plugins import load_plugin_tools
    from plait.tools.spec import build_tool_spec
    from plait.wire.inline_calls import extract_inline_calls

_HOMES: "Mapping[str, str]" = {
    name: home
    for home, names in (
        ("plait._version", "__version__"),
        ("plait.cli.console", "console"),
        ("plait.cli.pricing", "check_and_display_pricing"),
        ("plait.core.cancel", "Cancel"),
        (
            "plait.core.errors",
            "AgentSpecDisabledError AgentSpecInvalidError ApprovalDenied AuthenticationError CacheProofError "
            "ConfigError ContextWindowExceededError ControlError FatalToolDispatchError InvalidHistory "
            "InvalidOutput InvalidTools JournalCorrupt JournalError JournalFull JournalPoisoned JournalVersion "
            "LimitReached MCPError ModelError ModelNotFound ModelOverloaded ModelProtocolError ModelRequestError "
            "ModelTimeout ModelUnavailable PlaitError PolicyError PricingLimitExceededError QuotaExceeded "
            "RateLimitError Refusal RequestTooLarge SandboxError SessionBusy ToolFault TrustRequired "
            "UnknownToolLoading UnsupportedFeature",
        ),
        ("plait.core.errors:PlaitError", "AgentProbeError"),
        ("plait.core.messages", "Image Message Reasoning Text ToolCall ToolResult"),
        ("plait.core.messages:Image", "ImageContent"),
        ("plait.core.redact", "redact_secrets"),
        ("plait.core.usage", "Usage"),
        ("plait.engine.agent", "Agent"),
        ("plait.engine.kernel_files", "resolve_config"),
        ("plait.engine.profile", "Profile"),
        ("plait.engine.profile_files", "load_profile"),
        ("plait.engine.approval", "Approver AutoApprover decide"),
        ("plait.engine.budget", "Budget"),
        ("plait.engine.budget_guard", "BudgetGuard"),
        ("plait.engine.context_manager", "ContextManager"),
        ("plait.engine.kernel_config", "Config"),
        ("plait.engine.cli_approver", "CliApprover"),
        ("plait.engine.risk_judge", "RiskJudge"),
        ("plait.engine.kernel_face", "ToolRegistry ToolSpec build_runtime"),
        ("plait.engine.limits", "Limits SessionLimits"),
        ("plait.engine.result", "RunResult"),
        ("plait.engine.agent_spec", "AgentSpec safe_model_name"),
        ("plait.engine.spec", "load_specification validate_schema"),
        ("plait.engine.telemetry", "JsonlTelemetry NullTelemetry"),
        ("plait.events.named", "EventCallback NamedEvent"),
        ("plait.hands.containers", "DockerSandbox LocalSandbox make_sandbox"),
        ("plait.hands.fence.policy", "ResourceLimits SandboxPolicy"),
        ("plait.hooks.decision", "HookDecision RawHookResult"),
        ("plait.hooks.entry", "HookBlock HookEntry HookHandler"),
        ("plait.hooks.folders", "discover_hook_dir"),
        ("plait.hooks.sources", "dedupe_entries"),
        ("plait.kernel.deferral", "ActivationLimits"),
        ("plait.kernel.effects", "Allow Ask Deny"),
        ("plait.kernel.ports", "Options"),
        ("plait.kernel.rules", "Guards Retry Rules Shrinking"),
        ("plait.kernel.tools", "Recovery Tool ToolContext ToolTable"),
        ("plait.models.chat_model", "ChatModel chat_model"),
        ("plait.models.credentials", "FromEnv"),
        ("plait.models.endpoint", "DEFAULT_ENDPOINT"),
        ("plait.models.key_sources", "FromCommand FromFile FromKeyring"),
        ("plait.models.openai_client", "OpenAI"),
        ("plait.models.prices", "Price PriceTable bundled_prices read_prices"),
        ("plait.models.registry", "Descriptor ModelRegistry Needs Provider"),
        ("plait.models.subprocess_client", "SubprocessOpenAI"),
        ("plait.models.transport", "Network Timeouts"),
        ("plait.session.asides", "side_query"),
        ("plait.session.background", "drain_completions"),
        ("plait.session.cancelling", "CancelToken"),
        ("plait.session.clients", "create_client"),
        (
            "plait.session.defaults",
            "TOOL_LIBRARY dispatch enable_rtk_rewrite get_tool_output_stream register_tools_in_library "
            "set_ask_user_handler set_tool_output_stream set_wait_interrupt_hook",
        ),
        ("plait.session.executing", "execute_tool_call"),
        ("plait.session.kept.flat", "flat"),
        ("plait.session.opening", "init_session"),
        ("plait.session.options", "DEFAULT_MAX_TOKENS"),
        ("plait.session.pricing", "PriceCheck check_price"),
        ("plait.session.prompt", "inline_system_prompt"),
        ("plait.session.history.reducing", "StepReducer StepReduction"),
        ("plait.session.hooks.registering", "load_hooks register_hook session_hooks"),
        ("plait.session.history.replaying", "Replay replay_session"),
        (
            "plait.session.summaries.terms",
            "DEFAULT_COMPACTION_KEEP_LAST_TURNS DEFAULT_COMPACTION_TARGET_TOKENS DEFAULT_COMPACTION_TRIGGER_TOKENS",
        ),
        ("plait.session.history.resetting", "Compacted clear_session compact_session"),
        ("plait.session.result", "SessionResult"),
        ("plait.session.history.rewinding", "Rewound rewind"),
        ("plait.session.sender", "SENDER_KINDS sender_header"),
        ("plait.session.session", "Session"),
        (
            "plait.session.kept.session_journal",
            "JournalState KnownToolResult PendingToolCall SessionJournal replay_journal",
        ),
        ("plait.session.kept.session_log", "DurableSink"),
        ("plait.session.subscribing", "on subscribe unsubscribe"),
        ("plait.session.tasks", "run run_agent run_task"),
        ("plait.session.tool_choice", "activate_tool remove_tool"),
        ("plait.session.turns", "run_turn"),
        ("plait.session.summaries.uncompacting", "uncompact_session"),
        ("plait.store.capture", "read_capture"),
        ("plait.tools.background", "completion_notice"),
        ("plait.tools.background_specs", "enable_nohup nohup_tool_specs"),
        ("plait.tools.checkpoints", "Checkpointer"),
        (
            "plait.tools.coding",
            "ArtifactStore CodingLimits CodingRequest Command DiskArtifacts MemoryArtifacts coding_tools "
            "sweep_workspace",
        ),
        ("plait.tools.deferred.catalog", "CatalogRun DeferredCatalog NextStep StepTools Surface"),
        ("plait.tools.deferred.search", "SearchEvidence SearchLimits"),
        ("plait.tools.definitions", "CANONICAL_TOOLS SUPERSEDED_TOOLS"),
        ("plait.tools.docstrings", "extract_tool_specs_from_module parse_tool_spec_from_docstring tool_spec_to_schema"),
        ("plait.tools.executor", "LocalToolExecutor ToolExecutor"),
        ("plait.tools.fenced_executor", "BubblewrapToolExecutor"),
        ("plait.tools.library", "default_tool_spec"),
        ("plait.tools.mcp.face", "MCPClient MCPTools RunningServer mcp_tools register_mcp_servers"),
        ("plait.tools.plugins", "load_plugin_tools"),
        ("plait.tools.spec", "build_tool_spec"),
        ("plait.wire.inline_calls", "extract_inline_calls"),
    )
    for name in names.split()
}
"""Public name → the module it lives in (`module:name` where it is called something else there)."""

# fmt: off
__all__ = [
    "ActivationLimits", "Agent", "AgentProbeError", "AgentSpec", "AgentSpecDisabledError", "AgentSpecInvalidError",
    "Allow", "ApprovalDenied", "Approver", "ArtifactStore", "Ask", "AuthenticationError", "AutoApprover",
    "BubblewrapToolExecutor", "Budget", "BudgetGuard", "CANONICAL_TOOLS", "CacheProofError", "Cancel", "CancelToken",
    "CatalogRun", "ChatModel", "Checkpointer", "CliApprover", "CodingLimits", "CodingRequest", "Command", "Compacted",
    "Config", "ConfigError", "ContextManager", "ContextWindowExceededError", "ControlError",
    "DEFAULT_COMPACTION_KEEP_LAST_TURNS", "DEFAULT_COMPACTION_TARGET_TOKENS", "DEFAULT_COMPACTION_TRIGGER_TOKENS",
    "DEFAULT_ENDPOINT", "DEFAULT_MAX_TOKENS", "DeferredCatalog", "Deny", "Descriptor", "DiskArtifacts", "DockerSandbox",
    "DurableSink", "EventCallback", "FatalToolDispatchError", "FromCommand", "FromEnv", "FromFile", "FromKeyring",
    "Guards", "HookBlock", "HookDecision", "HookEntry", "HookHandler", "Image", "ImageContent", "InvalidHistory",
    "InvalidOutput", "InvalidTools", "JournalCorrupt", "JournalError", "JournalFull", "JournalPoisoned", "JournalState",
    "JournalVersion", "JsonlTelemetry", "KnownToolResult", "LimitReached", "Limits", "LocalSandbox",
    "LocalToolExecutor", "MCPClient", "MCPError", "MCPTools", "MemoryArtifacts", "Message", "ModelError",
    "ModelNotFound", "ModelOverloaded", "ModelProtocolError", "ModelRegistry", "ModelRequestError", "ModelTimeout",
    "ModelUnavailable", "NamedEvent", "Needs", "Network", "NextStep", "NullTelemetry", "OpenAI", "Options",
    "PendingToolCall", "PlaitError", "PolicyError", "Price", "PriceCheck", "PriceTable", "PricingLimitExceededError",
    "Profile", "Provider", "QuotaExceeded", "RateLimitError", "RawHookResult", "Reasoning", "Recovery", "Refusal",
    "Replay", "RequestTooLarge", "ResourceLimits", "Retry", "Rewound", "RiskJudge", "Rules", "RunResult",
    "RunningServer", "SENDER_KINDS", "SUPERSEDED_TOOLS", "SandboxError", "SandboxPolicy", "SearchEvidence",
    "SearchLimits", "Session", "SessionBusy", "SessionJournal", "SessionLimits", "SessionResult", "Shrinking",
    "StepReducer", "StepReduction", "StepTools", "SubprocessOpenAI", "Surface", "TOOL_LIBRARY", "Text", "Timeouts",
    "Tool", "ToolCall", "ToolContext", "ToolExecutor", "ToolFault", "ToolRegistry", "ToolResult", "ToolSpec",
    "ToolTable", "TrustRequired", "UnknownToolLoading", "UnsupportedFeature", "Usage", "__version__", "activate_tool",
    "build_runtime", "build_tool_spec", "bundled_prices", "chat_model", "check_and_display_pricing", "check_price",
    "clear_session", "coding_tools", "compact_session", "completion_notice", "console", "create_client", "decide",
    "dedupe_entries", "default_tool_spec", "discover_hook_dir", "dispatch", "drain_completions", "enable_nohup",
    "enable_rtk_rewrite", "execute_tool_call", "extract_inline_calls", "extract_tool_specs_from_module", "flat",
    "get_tool_output_stream", "init_session", "inline_system_prompt", "load_hooks", "load_plugin_tools", "load_profile",
    "load_specification", "make_sandbox", "mcp_tools", "nohup_tool_specs", "on", "parse_tool_spec_from_docstring",
    "read_capture", "read_prices", "redact_secrets", "register_hook", "register_mcp_servers",
    "register_tools_in_library", "remove_tool", "replay_journal", "replay_session", "resolve_config", "rewind", "run",
    "run_agent", "run_task", "run_turn", "safe_model_name", "sender_header", "session_hooks", "set_ask_user_handler",
    "set_tool_output_stream", "set_wait_interrupt_hook", "side_query", "subscribe", "sweep_workspace",
    "tool_spec_to_schema", "uncompact_session", "unsubscribe", "validate_schema",
]
# fmt: on


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
