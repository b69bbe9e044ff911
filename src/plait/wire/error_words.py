"""What providers' codes, types and sentences mean.

Floor: 1. Owns: the tables; never: the order in which they are asked (that is `classify`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from plait.core.errors import ErrorClass

_BY_CLASS: Final[Mapping[ErrorClass, str]] = {
    "auth": """invalid_api_key incorrect_api_key authentication_error invalid_authentication_error unauthenticated
        permission_error permission_denied permissiondenied unauthorized access_denied accessdeniedexception
        invalid_api_key_error api_key_invalid expired_api_key unsupported_country_region_territory
        unrecognizedclientexception 1004 2049""",
    "quota": """insufficient_quota quota_exceeded billing_error billing_hard_limit_reached billing_not_active
        insufficient_balance insufficient_credits insufficient_credit payment_required credit_balance_too_low
        exceeded_current_quota_error access_terminated_error arrearage 1008 1113""",
    "rate_limit": """rate_limit_exceeded rate_limit_error rate_limit_reached_error rate_limit_reached rate_limited
        too_many_requests toomanyrequests resource_exhausted throttling throttlingexception throttled
        usage_limit_reached requests tokens 1002 1302 1303 1305 1308 1309 1310""",
    "overloaded": """overloaded_error overloaded engine_overloaded engine_overloaded_error server_overloaded
        model_overloaded slow_down capacity_exceeded insufficient_system_resource no_capacity
        modelnotreadyexception""",
    "unavailable": """server_error internal_error internal_server_error internalservererror internal api_error
        unavailable unavailable_error service_unavailable serviceunavailable serviceunavailableexception
        upstream_error bad_gateway internalserverexception internalservererrorexception 1013 1024""",
    "timeout": """timeout timeout_error request_timeout deadline_exceeded gateway_timeout modeltimeoutexception 1001""",
    "context_overflow": """context_length_exceeded context_window_exceeded model_max_prompt_tokens_exceeded
        exceed_context_size_error max_context_length_exceeded context_overflow prompt_too_long input_too_long
        tokens_limit_reached string_above_max_length model_context_window_exceeded 1261""",
    "request_too_large": "request_too_large payload_too_large request_entity_too_large entity_too_large body_too_large",
    "invalid_history": "invalid_request_message_order invalid_message_order invalid_encrypted_content",
    "invalid_tools": "invalid_function_parameters invalid_tool invalid_tools invalid_tool_schema invalid_function_name",
    "unsupported_feature": """unsupported_parameter unsupported_value unsupported_feature unknown_parameter
        not_supported not_supported_error unimplemented unsupported_operation unsupported_media_type
        unsupported_model_feature""",
    "model_not_found": """model_not_found not_found not_found_error resource_not_found_error deploymentnotfound
        unknown_model invalid_model invalid_model_error model_not_available model_not_exist unsupported_model
        model_not_supported resourcenotfoundexception notfounderror""",
    "protocol": "tool_use_failed malformed_function_call output_parse_failed",
}
BY_WORD: Final[Mapping[str, ErrorClass]] = MappingProxyType(
    {word: kind for kind, words in _BY_CLASS.items() for word in words.split()}
)
"""Codes and types, in lower case, that say by themselves what went wrong."""

REFUSED: Final = frozenset(
    """invalid_request_error invalid_request invalid_argument invalid_parameter invalid_parameter_error bad_request
    badrequest badrequesterror validation_error validationexception unprocessable_entity""".split()
)
"""Codes and types that say no more than that the request is wrong; they count where the status is 200."""

BY_STATUS: Final[Mapping[int, ErrorClass]] = MappingProxyType(
    {
        401: "auth",
        402: "quota",
        403: "auth",
        404: "model_not_found",
        408: "timeout",
        409: "unavailable",
        413: "request_too_large",
        415: "unsupported_feature",
        425: "unavailable",
        429: "rate_limit",
        498: "overloaded",
        501: "unsupported_feature",
        504: "timeout",
        524: "timeout",
        529: "overloaded",
    }
)
"""What a status means when nothing in the body says more; other 5xx are `unavailable`, other 4xx `bad_request`."""


def says(text: str, sentences: str) -> bool:
    """Say whether a text says one of these sentences (compiled when first asked for: most runs never fail)."""
    return re.search(sentences, text, re.IGNORECASE | re.DOTALL) is not None


def _any(*patterns: str) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns)


_BEYOND: Final = r"(?:exceed|longer than|larger than|greater than|too (?:long|large|many)|maximum|overflow|full|limit)"
OVERFLOW: Final = _any(
    rf"context[ _-]?(?:length|window|size|limit)\b.{{0,160}}{_BEYOND}",
    rf"{_BEYOND}.{{0,160}}context[ _-]?(?:length|window|size|limit)",
    r"(?:prompt|input|request|conversation|messages?)(?: length| text| tokens)? (?:is|are|was) too long",
    r"(?:prompt|input) too long|prompt contains .{0,80}too large|prompt exceeds (?:the )?max",
    r"too many (?:input |prompt )?tokens",
    r"(?:token count|input length|prompt length|number of tokens)\b.{0,80}(?:exceed|longer|greater|larger)",
    r"exceed\w* (?:the |model |model's |this model's )*(?:token limit|max(?:imum)? (?:length|number of tokens|prompt))",
    r"maximum prompt length is \d",
    r"reduce the length of (?:the |your |either )",
    r"range of input length should be",
    r"`?inputs`? tokens \+ `?max_new_tokens`? must be",
    r"request body too large for .{0,60}\btokens\b",
    r"prompt token count of \d",
)
"""Sentences that say that the request does not fit the model's window."""
NOT_OVERFLOW: Final = _any(r"per (?:minute|second|hour|day)", r"\bTPM\b|\bTPD\b|\bRPM\b", r"rate limit", r"\bquota\b")
"""Sentences about tokens that are about speed or money instead."""

HISTORY: Final = _any(
    r"reasoning_content\b.{0,80}(?:missing|must be|required|passed back)",
    r"(?:missing|without|requires?).{0,80}\b(?:thought_signature|reasoning_content|reasoning_details)",
    r"(?:invalid|corrupted|missing).{0,40}(?:thought[ _]signature|`?signature`? in `?thinking)",
    r"`?(?:redacted_)?thinking`? (?:or `redacted_thinking`|blocks?).{0,120}(?:expected|must|cannot|found)",
    r"expected `?thinking`?|thinking\.signature",
    r"tool_use`? ids? (?:were|must)|tool_use_id|`?tool_result`? blocks?",
    r"tool_calls?'? must be followed|role '?tool'? must (?:be a response|follow)|tool_call_ids? did not",
    r"tool_call_id\b.{0,80}(?:not found|invalid|missing|unknown|must|no matching)|tool call id was",
    r"tool result'?s? tool id",
    r"no tool (?:call|output) found for|no matching (?:tool|function) call",
    r"tool call and result|number of function (?:calls|response)|function (?:response|call) (?:parts|turn)",
    r"without its required (?:'reasoning'|following)",
    r"encrypted content.{0,80}(?:verified|decrypt)",
    r"roles? must alternate|must alternate between|unexpected role|expected last role|incorrect role information",
    r"first message must (?:be|use)|at least one message|last message must",
    r"(?:text content blocks|messages?|content)\b.{0,60}must (?:be non-empty|not be empty|have non-empty)",
    r"text content blocks must|cannot end with trailing whitespace|does not support assistant message prefill",
)
"""Sentences that say that the messages do not form a valid conversation."""

TOOLS: Final = _any(
    r"\btools?(?:\[|\.|', ?)\d+", r"function_declarations", r"invalid schema for function", r"\binput_schema\b",
    r"invalid (?:function|tool) (?:name|schema|parameters)", r"(?:duplicate|tool) names? must be unique",
    r"(?:tool|function)(?:'s)? (?:name|schema|parameters?)\b.{0,80}(?:invalid|must|should|match|not (?:valid|allowed))",
)  # fmt: skip
"""Sentences that point at a tool."""
UNSUPPORTED: Final = _any(
    r"(?:does|do) not support|is not supported|are not supported|not supported (?:by|with|for|in)|unsupported",
    r"no endpoints found that (?:can )?support",
    r"(?:unknown|unrecognized|unexpected|unsupported|extra) (?:request )?(?:parameter|argument|field|input)",
    r"extra inputs are not permitted|unrecognized request argument|requires --enable",
)
"""Sentences that say that the model or endpoint lacks what was asked for."""
MODEL: Final = _any(
    r"not a valid model", r"\bmodel\b.{0,100}(?:does not exist|not found|is not available)", r"no such model"
)
"""Sentences that say that there is no such model."""
CREDIT: Final = _any(
    r"credit balance is too low", r"insufficient (?:balance|credit|fund|quota)", r"out of credits?",
    r"usage limit", r"key limit", r"exceeded your (?:current )?(?:quota|usage)", r"billing cycle",
)  # fmt: skip
"""Sentences about money; asked only where a status leaves auth and quota open, or where a 400 says so."""
