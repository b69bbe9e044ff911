"""plait: a coding agent you can read, trust and kill.

Every public name is imported from its home the first time it is asked for; `import plait` itself loads nothing.
A name stands here three times: for type checkers, in `_HOMES` for the interpreter, in `__all__` for readers.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without importing typing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plait._version import __version__
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

_HOMES: "Mapping[str, str]" = {
    "AgentProbeError": "plait.core.errors:PlaitError",
    "AgentSpecDisabledError": "plait.core.errors",
    "AgentSpecInvalidError": "plait.core.errors",
    "ApprovalDenied": "plait.core.errors",
    "AuthenticationError": "plait.core.errors",
    "CacheProofError": "plait.core.errors",
    "ConfigError": "plait.core.errors",
    "ContextWindowExceededError": "plait.core.errors",
    "ControlError": "plait.core.errors",
    "FatalToolDispatchError": "plait.core.errors",
    "InvalidHistory": "plait.core.errors",
    "InvalidTools": "plait.core.errors",
    "JournalCorrupt": "plait.core.errors",
    "JournalError": "plait.core.errors",
    "JournalFull": "plait.core.errors",
    "JournalPoisoned": "plait.core.errors",
    "JournalVersion": "plait.core.errors",
    "LimitReached": "plait.core.errors",
    "ModelError": "plait.core.errors",
    "ModelNotFound": "plait.core.errors",
    "ModelOverloaded": "plait.core.errors",
    "ModelProtocolError": "plait.core.errors",
    "ModelRequestError": "plait.core.errors",
    "ModelTimeout": "plait.core.errors",
    "ModelUnavailable": "plait.core.errors",
    "PlaitError": "plait.core.errors",
    "PolicyError": "plait.core.errors",
    "PricingLimitExceededError": "plait.core.errors",
    "QuotaExceeded": "plait.core.errors",
    "RateLimitError": "plait.core.errors",
    "Refusal": "plait.core.errors",
    "RequestTooLarge": "plait.core.errors",
    "SessionBusy": "plait.core.errors",
    "ToolFault": "plait.core.errors",
    "TrustRequired": "plait.core.errors",
    "UnsupportedFeature": "plait.core.errors",
    "__version__": "plait._version",
}
"""Public name → the module it lives in (`module:name` where it is called something else there)."""

__all__ = [
    "AgentProbeError",
    "AgentSpecDisabledError",
    "AgentSpecInvalidError",
    "ApprovalDenied",
    "AuthenticationError",
    "CacheProofError",
    "ConfigError",
    "ContextWindowExceededError",
    "ControlError",
    "FatalToolDispatchError",
    "InvalidHistory",
    "InvalidTools",
    "JournalCorrupt",
    "JournalError",
    "JournalFull",
    "JournalPoisoned",
    "JournalVersion",
    "LimitReached",
    "ModelError",
    "ModelNotFound",
    "ModelOverloaded",
    "ModelProtocolError",
    "ModelRequestError",
    "ModelTimeout",
    "ModelUnavailable",
    "PlaitError",
    "PolicyError",
    "PricingLimitExceededError",
    "QuotaExceeded",
    "RateLimitError",
    "Refusal",
    "RequestTooLarge",
    "SessionBusy",
    "ToolFault",
    "TrustRequired",
    "UnsupportedFeature",
    "__version__",
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
