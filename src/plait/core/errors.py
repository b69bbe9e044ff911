"""Every error plait raises, as one tree.

Floor: 0. Owns: error classes, their stable codes and the advice they carry; never: how they are shown.

    PlaitError                          .code .hint .context
      ConfigError                       a bad option, file, key or spec; names the place
        AgentSpecInvalidError           .model
        AgentSpecDisabledError          .comment
        TrustRequired                   the repository's part waits for its user's trust
      ModelError                        .kind .status .retryable .retry_after_s .error_code
        AuthenticationError  QuotaExceeded  RateLimitError  ModelOverloaded  ModelUnavailable
        ModelTimeout  ModelProtocolError  ModelNotFound  CacheProofError
        InvalidOutput                   .text .problems
        ModelRequestError
          ContextWindowExceededError  RequestTooLarge  InvalidHistory  InvalidTools  UnsupportedFeature
      PolicyError                       a limit or rule of the user's said no
        LimitReached  PricingLimitExceededError  ApprovalDenied
      Refusal                           a tool will not do this: code, hint, details; told to the model
      ToolFault                         the machinery of tools broke
        FatalToolDispatchError  MCPError  SandboxError
      JournalError                      .path .offset .seq
        SessionBusy  JournalCorrupt  JournalFull  JournalVersion  JournalPoisoned
      ControlError

Messages say what happened, where, and what to do next: lower case, no trailing dot, identifiers by `!r`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

ErrorClass = Literal[
    "auth",
    "quota",
    "rate_limit",
    "overloaded",
    "unavailable",
    "timeout",
    "context_overflow",
    "request_too_large",
    "invalid_history",
    "invalid_tools",
    "unsupported_feature",
    "model_not_found",
    "bad_request",
    "protocol",
    "cache_proof",
]
"""What went wrong with a model request, in one word; the only thing that retry decisions look at."""

RefusalCode = Literal[
    "NOT_FOUND",
    "CONFLICT",
    "FORBIDDEN",
    "INVALID_INPUT",
    "TOO_LARGE",
    "UNSUPPORTED_CONTENT",
    "UNSUPPORTED_PLATFORM",
    "TIMEOUT",
    "CANCELLED",
    "SPILL_REFERENCE_UNKNOWN",
    "SEARCH_REQUIRED",
    "INTERNAL_SERVER_ERROR",
]

REFUSAL_STATUS: Final[Mapping[RefusalCode, int]] = {
    "NOT_FOUND": 404,
    "CONFLICT": 409,
    "FORBIDDEN": 403,
    "INVALID_INPUT": 400,
    "TOO_LARGE": 413,
    "UNSUPPORTED_CONTENT": 415,
    "UNSUPPORTED_PLATFORM": 501,
    "TIMEOUT": 408,
    "CANCELLED": 499,
    "SPILL_REFERENCE_UNKNOWN": 404,
    "SEARCH_REQUIRED": 409,
    "INTERNAL_SERVER_ERROR": 500,
}


class PlaitError(Exception):
    """Anything that plait itself reports; `str(error)` is the sentence, `hint` the next step."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "", context: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.context: Mapping[str, object] = dict(context or {})

    @property
    def message(self) -> str:
        """The sentence without its advice."""
        return str(self.args[0])

    def to_dict(self) -> dict[str, object]:
        """Return `{class, code, message, advice}`, as `--json` prints it."""
        return {"class": type(self).__name__, "code": self.code, "message": self.message, "advice": self.hint}


class ConfigError(PlaitError):
    """An option, file, key or spec is wrong; nothing was started."""

    code = "config"


class UnknownToolLoading(ConfigError, ValueError):
    """There is no way of that name to load tools that are not shown at once."""

    code = "tool_loading"


class AgentSpecInvalidError(ConfigError):
    """An agent spec cannot be used; `model` is the name it was asked for by."""

    code = "agent_spec_invalid"

    def __init__(self, message: str, *, model: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint, context={"model": model} if model else None)
        self.model = model


class AgentSpecDisabledError(ConfigError):
    """The agent spec says `disabled`; `comment` is its author's reason."""

    code = "agent_spec_disabled"

    def __init__(self, comment: str, *, hint: str = "") -> None:
        super().__init__(
            f"this agent spec is disabled: {comment}" if comment else "this agent spec is disabled", hint=hint
        )
        self.comment = comment


class TrustRequired(ConfigError):
    """A repository's own configuration would run code and is not trusted yet."""

    code = "trust_required"


class ModelError(PlaitError):
    """A model request failed for good; `kind` is its class, `retryable` whether asking again may help."""

    code = "model_error"
    kind: ErrorClass = "bad_request"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        kind: ErrorClass | None = None,
        status: int | None = None,
        error_code: str | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
        context: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message, hint=hint, context=context)
        self.kind = kind or type(self).kind
        self.status = status
        self.error_code = error_code
        self.retryable = retryable
        self.retry_after_s = retry_after_s

    @property
    def status_code(self) -> int | None:
        """The HTTP status, under the name that HTTP clients give it."""
        return self.status


class AuthenticationError(ModelError):
    """No usable key, or the endpoint refused it."""

    code = "model_auth"
    kind = "auth"


class QuotaExceeded(ModelError):
    """The account has no money or no allowance left; waiting does not help."""

    code = "model_quota"
    kind = "quota"


class RateLimitError(ModelError):
    """The endpoint asked us to slow down for longer than the retry policy allows."""

    code = "model_rate_limit"
    kind = "rate_limit"


class ModelOverloaded(ModelError):
    """The provider has no capacity for this model now."""

    code = "model_overloaded"
    kind = "overloaded"


class ModelUnavailable(ModelError):
    """The endpoint cannot be reached, or answers with a server error."""

    code = "model_unavailable"
    kind = "unavailable"


class ModelTimeout(ModelError):
    """The endpoint did not answer in time; the message says in which phase."""

    code = "model_timeout"
    kind = "timeout"


class ModelProtocolError(ModelError):
    """The answer is not what the wire promises: cut, garbled, empty or an HTML page."""

    code = "model_protocol"
    kind = "protocol"


class ModelNotFound(ModelError):
    """The endpoint does not know this model."""

    code = "model_not_found"
    kind = "model_not_found"


class InvalidOutput(ModelError):
    """The model's answer does not fit the output type, even after it was told why; `text` is what it said."""

    code = "invalid_output"
    kind = "protocol"

    def __init__(self, problems: str, *, text: str, hint: str = "") -> None:
        super().__init__(
            f"the answer does not fit the output type: {problems}",
            hint=hint or "the answer is in the result's text: ask again, loosen the type, or choose another model",
        )
        self.problems = problems
        self.text = text


class CacheProofError(ModelError):
    """Strict cache proof was asked for and the endpoint proved nothing."""

    code = "cache_proof"
    kind = "cache_proof"


class ModelRequestError(ModelError):
    """The endpoint refused the request itself; sending it again would fail again."""

    code = "model_request"
    kind: ErrorClass = "bad_request"


class ContextWindowExceededError(ModelRequestError):
    """The request does not fit the model's window and could not be made to fit."""

    code = "context_overflow"
    kind = "context_overflow"

    def __init__(
        self,
        message: str,
        *,
        requested_tokens: int | None = None,
        limit_tokens: int | None = None,
        hint: str = "",
        status: int | None = 400,
        error_code: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, status=status, error_code=error_code)
        self.requested_tokens = requested_tokens
        self.limit_tokens = limit_tokens


class RequestTooLarge(ModelRequestError):
    """The request body is larger than the endpoint takes."""

    code = "request_too_large"
    kind = "request_too_large"


class InvalidHistory(ModelRequestError):
    """The endpoint says that the messages do not form a valid conversation."""

    code = "invalid_history"
    kind = "invalid_history"


class InvalidTools(ModelRequestError):
    """The endpoint refuses a tool's name or schema."""

    code = "invalid_tools"
    kind = "invalid_tools"


class UnsupportedFeature(ModelRequestError):
    """The model cannot do what was asked: tools, images, streaming, a parameter."""

    code = "unsupported_feature"
    kind = "unsupported_feature"


class PolicyError(PlaitError):
    """A rule or limit of the user's own said no, and no model was there to be told."""

    code = "policy"


class LimitReached(PolicyError):
    """A step, token, cost or time limit stopped the turn; `limit` names it."""

    code = "limit"

    def __init__(self, message: str, *, limit: str, hint: str = "") -> None:
        super().__init__(message, hint=hint, context={"limit": limit})
        self.limit = limit


class PricingLimitExceededError(PolicyError):
    """The model's price is above the limit of the spec."""

    code = "pricing_limit"

    def __init__(self, model: str, *, direction: str, current_price: object, limit: object) -> None:
        super().__init__(
            f"the {direction} price of {model!r} is {current_price} per million tokens, above the limit of {limit}",
            hint="raise the limit in the spec, or choose another model",
        )
        self.model = model
        self.direction = direction
        self.current_price = current_price
        self.limit = limit


class ApprovalDenied(PolicyError):
    """An action needed a yes and did not get it."""

    code = "approval_denied"


class Refusal(PlaitError):
    """A tool will not do this, and says why in words the model can act on.

    `refusal` is one of `RefusalCode`, `status` the number that goes with it, `details` plain JSON.
    """

    code = "refusal"

    def __init__(
        self, refusal: RefusalCode, message: str, *, hint: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message, hint=hint, context=details)
        self.refusal: RefusalCode = refusal
        self.status = REFUSAL_STATUS[refusal]

    @property
    def details(self) -> Mapping[str, object]:
        """What the refusal is about: counts, paths inside the workspace, hashes."""
        return self.context


class ToolFault(PlaitError):
    """The machinery of tools broke; not a tool's own failure."""

    code = "tool_fault"


class FatalToolDispatchError(ToolFault, RuntimeError):
    """A tool was dispatched that the dispatch table does not hold."""

    code = "tool_dispatch"


class MCPError(ToolFault):
    """An MCP server cannot be started, or answered with an error; inside a turn it is the result of the call."""

    code = "mcp"


class SandboxError(ToolFault):
    """A container for commands cannot be started; inside a turn it is the result of the call."""

    code = "sandbox"


class JournalError(PlaitError):
    """The log of a session cannot be read or written; what it held is untouched."""

    code = "journal"

    def __init__(
        self, message: str, *, path: str = "", offset: int | None = None, seq: int | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.offset = offset
        self.seq = seq


class SessionBusy(JournalError):
    """Another process, or another turn, holds this session; `owner_pid` when it is known."""

    code = "session_busy"

    def __init__(self, message: str, *, path: str = "", owner_pid: int | None = None, hint: str = "") -> None:
        super().__init__(message, path=path, hint=hint)
        self.owner_pid = owner_pid


class JournalCorrupt(JournalError):
    """A record is damaged before the tail; `offset` says where."""

    code = "journal_corrupt"


class JournalFull(JournalError):
    """There is no space left for the journal; nothing committed was lost."""

    code = "journal_full"


class JournalVersion(JournalError):
    """The journal was written by a newer plait."""

    code = "journal_version"


class JournalPoisoned(JournalError):
    """An earlier sync failed, so this writer can promise nothing more; open the session again."""

    code = "journal_poisoned"


class ControlError(PlaitError):
    """A control message was malformed, too large, or came from somebody else."""

    code = "control"
