"""plait: a coding agent you can read, trust and kill.

Every public name is imported from its home the first time it is asked for; `import plait` itself loads nothing.
A name stands here three times: for type checkers, in `_HOMES` for the interpreter, in `__all__` for readers.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without importing typing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plait._version import __version__
    from plait.core.cancel import (
        Cancel,
    )
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
        UnsupportedFeature,
    )
    from plait.core.messages import (
        Image,
        Image as ImageContent,
        Message,
        Reasoning,
        Text,
        ToolCall,
        ToolResult,
    )
    from plait.core.redact import (
        redact_secrets,
    )
    from plait.core.usage import (
        Usage,
    )
    from plait.engine.agent import (
        Agent,
        Profile,
    )
    from plait.engine.approval import (
        Approver,
        AutoApprover,
    )
    from plait.engine.context_manager import (
        ContextManager,
    )
    from plait.engine.limits import (
        Limits,
    )
    from plait.engine.result import (
        RunResult,
    )
    from plait.kernel.effects import (
        Allow,
        Ask,
        Deny,
    )
    from plait.kernel.ports import (
        Options,
    )
    from plait.kernel.rules import (
        Retry,
        Rules,
    )
    from plait.kernel.tools import (
        Tool,
        ToolContext,
        ToolTable,
    )
    from plait.models.chat_model import (
        ChatModel,
        chat_model,
    )

_HOMES: "Mapping[str, str]" = {
    "Agent": "plait.engine.agent",
    "AgentProbeError": "plait.core.errors:PlaitError",
    "AgentSpecDisabledError": "plait.core.errors",
    "AgentSpecInvalidError": "plait.core.errors",
    "Allow": "plait.kernel.effects",
    "ApprovalDenied": "plait.core.errors",
    "Approver": "plait.engine.approval",
    "Ask": "plait.kernel.effects",
    "AuthenticationError": "plait.core.errors",
    "AutoApprover": "plait.engine.approval",
    "CacheProofError": "plait.core.errors",
    "Cancel": "plait.core.cancel",
    "ChatModel": "plait.models.chat_model",
    "ConfigError": "plait.core.errors",
    "ContextManager": "plait.engine.context_manager",
    "ContextWindowExceededError": "plait.core.errors",
    "ControlError": "plait.core.errors",
    "Deny": "plait.kernel.effects",
    "FatalToolDispatchError": "plait.core.errors",
    "Image": "plait.core.messages",
    "ImageContent": "plait.core.messages:Image",
    "InvalidHistory": "plait.core.errors",
    "InvalidTools": "plait.core.errors",
    "JournalCorrupt": "plait.core.errors",
    "JournalError": "plait.core.errors",
    "JournalFull": "plait.core.errors",
    "JournalPoisoned": "plait.core.errors",
    "JournalVersion": "plait.core.errors",
    "LimitReached": "plait.core.errors",
    "Limits": "plait.engine.limits",
    "Message": "plait.core.messages",
    "ModelError": "plait.core.errors",
    "ModelNotFound": "plait.core.errors",
    "ModelOverloaded": "plait.core.errors",
    "ModelProtocolError": "plait.core.errors",
    "ModelRequestError": "plait.core.errors",
    "ModelTimeout": "plait.core.errors",
    "ModelUnavailable": "plait.core.errors",
    "Options": "plait.kernel.ports",
    "PlaitError": "plait.core.errors",
    "PolicyError": "plait.core.errors",
    "PricingLimitExceededError": "plait.core.errors",
    "Profile": "plait.engine.agent",
    "QuotaExceeded": "plait.core.errors",
    "RateLimitError": "plait.core.errors",
    "Reasoning": "plait.core.messages",
    "Refusal": "plait.core.errors",
    "RequestTooLarge": "plait.core.errors",
    "Retry": "plait.kernel.rules",
    "Rules": "plait.kernel.rules",
    "RunResult": "plait.engine.result",
    "SessionBusy": "plait.core.errors",
    "Text": "plait.core.messages",
    "Tool": "plait.kernel.tools",
    "ToolCall": "plait.core.messages",
    "ToolContext": "plait.kernel.tools",
    "ToolFault": "plait.core.errors",
    "ToolResult": "plait.core.messages",
    "ToolTable": "plait.kernel.tools",
    "TrustRequired": "plait.core.errors",
    "UnsupportedFeature": "plait.core.errors",
    "Usage": "plait.core.usage",
    "__version__": "plait._version",
    "chat_model": "plait.models.chat_model",
    "redact_secrets": "plait.core.redact",
}
"""Public name → the module it lives in (`module:name` where it is called something else there)."""

__all__ = [
    "Agent",
    "AgentProbeError",
    "AgentSpecDisabledError",
    "AgentSpecInvalidError",
    "Allow",
    "ApprovalDenied",
    "Approver",
    "Ask",
    "AuthenticationError",
    "AutoApprover",
    "CacheProofError",
    "Cancel",
    "ChatModel",
    "ConfigError",
    "ContextManager",
    "ContextWindowExceededError",
    "ControlError",
    "Deny",
    "FatalToolDispatchError",
    "Image",
    "ImageContent",
    "InvalidHistory",
    "InvalidTools",
    "JournalCorrupt",
    "JournalError",
    "JournalFull",
    "JournalPoisoned",
    "JournalVersion",
    "LimitReached",
    "Limits",
    "Message",
    "ModelError",
    "ModelNotFound",
    "ModelOverloaded",
    "ModelProtocolError",
    "ModelRequestError",
    "ModelTimeout",
    "ModelUnavailable",
    "Options",
    "PlaitError",
    "PolicyError",
    "PricingLimitExceededError",
    "Profile",
    "QuotaExceeded",
    "RateLimitError",
    "Reasoning",
    "Refusal",
    "RequestTooLarge",
    "Retry",
    "Rules",
    "RunResult",
    "SessionBusy",
    "Text",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolFault",
    "ToolResult",
    "ToolTable",
    "TrustRequired",
    "UnsupportedFeature",
    "Usage",
    "__version__",
    "chat_model",
    "redact_secrets",
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
