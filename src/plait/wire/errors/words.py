"""What providers' codes, types and sentences mean.

Floor: 1. Owns: the tables; never: the order in which they are asked (that is `classify`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from plait.core.errors import ErrorClass
from plait.wire.words import plain_word

_BY_CLASS: Final[Mapping[ErrorClass, str]] = {
    "auth": """invalid_api_key incorrect_api_key authentication_error invalid_authentication_error unauthenticated
        permission_error permission_denied permission_denied_error unauthorized access_denied access_denied_exception
        invalid_api_key_error api_key_invalid expired_api_key unsupported_country_region_territory auth_error
        unrecognized_client_exception expired_token_exception token_expired invalid_token""",
    "quota": """insufficient_quota quota_exceeded billing_error billing_hard_limit_reached billing_not_active
        insufficient_balance insufficient_credits insufficient_credit payment_required credit_balance_too_low
        exceeded_current_quota_error access_terminated_error arrearage budget_exceeded budget_exceeded_error
        allocation_quota free_tier_only usage_not_included not_enough_balance account_overdue_error credits_error
        token_quota_reached balance_depleted model_not_supported_on_free_tier 1113 1304 3036""",
    "rate_limit": """rate_limit_exceeded rate_limit_error rate_limit_reached_error rate_limit_reached rate_limited
        rate_limit too_many_requests too_many_requests_error too_many_requests_exception resource_exhausted throttling
        throttling_exception throttled throttling_error limit_requests limit_burst_rate token_quota_exceeded
        request_quota_exceeded too_many_tokens_error concurrency_limit_exceeded usage_limit_reached requests tokens
        request_limit_exceeded free_usage_limit_error
        1302 1303 1305 1308 1309 1310""",
    "overloaded": """overloaded_error overloaded engine_overloaded engine_overloaded_error server_overloaded
        model_overloaded slow_down capacity_exceeded insufficient_system_resource no_capacity queue_exceeded
        model_not_ready_exception service_tier_capacity_exceeded server_is_overloaded 3505 3040""",
    "unavailable": """server_error internal_error internal_server_error internal api_error unavailable
        unavailable_error service_unavailable service_unavailable_error service_unavailable_exception upstream_error
        bad_gateway provider_unavailable internal_server_exception internal_server_error_exception
        api_connection_error connection_error model_error_exception model_stream_error_exception cancelled aborted
        temporarily_unavailable 1230 1234""",
    "timeout": """timeout timeout_error request_timeout request_time_out deadline_exceeded gateway_timeout
        model_timeout_exception api_timeout_error internal_error_timeout operation_timeout""",
    "context_overflow": """context_length_exceeded context_window_exceeded context_window_exceeded_error
        model_max_prompt_tokens_exceeded exceed_context_size_error max_context_length_exceeded context_overflow
        token_limit_exceeded prompt_too_long input_too_long tokens_limit_reached model_context_window_exceeded 1261""",
    "request_too_large": """request_too_large payload_too_large request_entity_too_large entity_too_large body_too_large
        image_too_large image_file_too_large""",
    "invalid_history": """invalid_request_message_order invalid_message_order invalid_encrypted_content
        invalid_request_assistant_message previous_response_not_found missing_thought_signature invalid_message""",
    "invalid_tools": "invalid_function_parameters invalid_tool invalid_tools invalid_tool_schema invalid_function_name",
    "unsupported_feature": """unsupported_parameter unsupported_value unsupported_feature unknown_parameter
        not_supported not_supported_error unimplemented unsupported_operation unsupported_media_type
        unsupported_model_feature unsupported_params_error operation_not_supported unsupported_api_for_model""",
    "model_not_found": """model_not_found not_found not_found_error resource_not_found_error deployment_not_found
        unknown_model invalid_model invalid_model_error model_not_available model_not_exist unsupported_model
        model_not_supported resource_not_found_exception model_decommissioned model_deprecated model_terminated
        invalid_model_id resource_does_not_exist 1211""",
    "bad_request": """content_filter content_policy content_policy_violation content_policy_violation_error
        data_inspection_failed invalid_prompt image_content_policy_violation image_parse_error cyber_policy
        failed_to_download_image responsible_ai_policy_violation moderation_blocked sensitive_content_detected
        input_text_risk_detection 1301""",
    "protocol": "tool_use_failed malformed_function_call output_parse_failed",
}


_BY_WORD: Final[Mapping[str, ErrorClass]] = MappingProxyType(
    {plain_word(word): kind for kind, words in _BY_CLASS.items() for word in words.split()}
)


_ENDINGS: Final[Mapping[str, ErrorClass]] = MappingProxyType(
    {
        "ratelimited": "rate_limit",
        "ratelimitexceeded": "rate_limit",
        "ratelimiterror": "rate_limit",
        "toomanyrequests": "rate_limit",
        "quotaexceeded": "quota",
        "overloaded": "overloaded",
        "contextlengthexceeded": "context_overflow",
    }
)
"""Ends of plain codes that say what went wrong, whatever limit or model stands before them."""
_BY_MINIMAX_CODE: Final[Mapping[str, ErrorClass]] = MappingProxyType(
    {
        "1000": "unavailable",
        "1001": "timeout",
        "1002": "rate_limit",
        "1004": "auth",
        "1008": "quota",
        "1039": "rate_limit",
        "1041": "rate_limit",
        "2045": "rate_limit",
        "2049": "auth",
        "2056": "quota",
        "1026": "bad_request",
        "1027": "bad_request",
    }
)
"""Codes beside a `status_msg`; elsewhere the same numbers mean other things."""


def class_of_word(code: str | int, *, is_minimax: bool = False) -> ErrorClass | None:
    """Return what a code or type says by itself about what went wrong, None where it leaves that open.

    A code with a narrower one behind a point (`Throttling.RateQuota`) is looked up whole, then without that.

    Args:
        is_minimax: the code stands in an object of the form that MiniMax reports errors in.
    """
    text = str(code)
    if is_minimax and text in _BY_MINIMAX_CODE:
        return _BY_MINIMAX_CODE[text]
    for part in (text, text.partition(".")[0]):
        word = plain_word(part)
        if word in _BY_WORD:
            return _BY_WORD[word]
        ending = next(filter(word.endswith, _ENDINGS), None)
        if ending is not None:
            return _ENDINGS[ending]
    return None


_REFUSED: Final = frozenset(
    plain_word(word)
    for word in """invalid_request_error invalid_request invalid_argument invalid_parameter invalid_parameter_error
    bad_request bad_request_error validation_error validation_exception unprocessable_entity
    unprocessable_entity_error failed_precondition 2013""".split()
)


def is_refusal(word: str | int) -> bool:
    """Say whether a code or type says no more than that the request is wrong; asked where the status is 200."""
    plain = plain_word(str(word))
    return plain in _REFUSED or plain.startswith(("invalid", "malformed", "missing", "unsupported"))


BY_STATUS: Final[Mapping[int, ErrorClass]] = MappingProxyType(
    {
        401: "auth",
        402: "quota",
        403: "auth",
        404: "model_not_found",
        407: "auth",
        408: "timeout",
        409: "unavailable",
        413: "request_too_large",
        415: "unsupported_feature",
        424: "unavailable",
        425: "unavailable",
        429: "rate_limit",
        498: "overloaded",
        499: "unavailable",
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
    r"(?:prompt|input)\b.{0,40}longer than the (?:model's )?maximum (?:model )?length",
    r"too many (?:input |prompt )?tokens",
    r"(?:token count|input length|prompt length|number of (?:input )?tokens)\b.{0,80}(?:exceed|longer|greater|larger)",
    r"must have less than \d+ tokens|size limit exceeded by \d+ tokens|must be less than max_seq_len",
    r"exceed max message tokens|expected maxlength: \d+, actual|context shift is disabled|token limit exceeded",
    r"tokens? in request more than max tokens? allowed|maximum allowed input length|configured context size is",
    r"input length\b.{0,40}exceeds (?:the )?model|total tokens? .{0,40}exceeds? the (?:model|max|limit)",
    r"ran out of room in .{0,40}context|exceeds the max_model_len|slot context: |supports only \d+k context",
    r"上下文(?:过长|超出|长度超)|超出最大上下文|超过最大长度",
    r"input token count is \d+ but model only supports",
    r"exceed\w* (?:the |model |model's |this model's )*(?:token limit|max(?:imum)? (?:length|number of tokens|prompt))",
    r"maximum prompt length is \d|max_tokens must be at least 1, got -",
    r"reduce the length of (?:the |your |either )",
    r"range of input length should be|prompt 超长",
    r"`?inputs`? tokens \+ `?max_new_tokens`? must be",
    r"request body too large for .{0,60}\btokens\b",
    r"prompt token count of \d",
    r"'(?:messages|input)(?:\[\d+\])?(?:\.(?:content|output)\b[^']*)?': string too long",
)
"""Sentences that say that the request does not fit the model's window."""
SURE_OVERFLOW: Final = r"supports only \d+k context"
"""A sentence that says so whatever the status: one provider reports it as a refused key."""
NOT_OVERFLOW: Final = _any(
    r"per (?:minute|second|hour|day)", r"\bTPM\b|\bTPD\b|\bRPM\b", r"rate limit", r"\bquota\b", r"please wait before"
)
"""Sentences about tokens that are about speed or money instead."""

MEDIA: Final = r"\b(?:image|images|document|pdf|file|audio|video|media_type|base64|cache_control)\b|image_url"
"""Words of sentences about something that a message holds, not about the conversation."""
TOO_LARGE: Final = _any(
    r"(?:image|document|pdf|file|audio|video)\b.{0,80}(?:exceed|too large|too big|maximum)",
    r"maximum of \d+ (?:pdf |document )?pages",
    r"(?:payload|body|entity)(?: size)? (?:exceed|is too large|too large)",
)
"""Sentences about pictures and files, or the bytes of a request, beyond a limit."""
HISTORY: Final = _any(
    r"reasoning_content\b.{0,80}(?:missing|must be|required|passed back)",
    r"(?:missing|without|requires?).{0,80}\b(?:thought_signature|reasoning_content|reasoning_details)",
    r"thought[ _]signature\b.{0,40}(?:invalid|not valid|missing|corrupt|required)",
    r"(?:invalid|corrupted|missing).{0,40}(?:thought[ _]signature|`?signature`? in `?thinking)",
    r"`?(?:redacted_)?thinking`? (?:or `redacted_thinking`|blocks?).{0,120}(?:expected|must|cannot|found)",
    r"expected `?thinking`?|thinking\.signature",
    r"tool_?use`? ids? (?:were|must)|tool_use_id|`?tool_?result`? blocks?|when using tooluse and toolresult",
    r"[\"']?tool_calls?[\"']? must be followed|role '?tool'? must (?:be a response|follow)|tool_call_ids? did not",
    r"tool_call_id\b.{0,80}(?:not found|invalid|missing|unknown|must|no matching)|tool call id was",
    r"duplicate (?:value for '?)?tool_call_id|missing corresponding tool call",
    r"tool result'?s? tool id|invalid tool_call_id|\btool call id\b",
    r"no tool (?:call|output) found for|no matching (?:tool|function) call",
    r"tool call and result|number of function (?:calls|response)|function (?:response|call) (?:parts|turn)",
    r"function_(?:response|call)\.name|without its required (?:'reasoning'|following)",
    r"item with id '?[\w.]+'? not found|previous response with id|encrypted content.{0,80}(?:verified|decrypt)",
    r"failed to parse tool call arguments|tool_calls?\[\d+\]\.function\.arguments|ValidatorIterator",
    r"(?:must|should) alternate\b|unexpected (?:message )?role|expected last role|incorrect role information",
    r"roles are supported|must (?:start|begin|end) with a user|2 or more assistant messages",
    r"struct field .{0,60}\bmessages\b",
    r"first message must (?:be|use)|at least one message|last message must|contents is not specified",
    r"(?:text content blocks|messages?|contents?)\b.{0,60}must (?:be non-empty|not be empty|have non-empty)",
    r"messages?\b.{0,20}must (?:have|contain) (?:either|at least)|'messages': empty array|too short - 'messages'",
    r"text content blocks must|cannot end with trailing whitespace|does not support assistant message prefill",
    r"invalid message content type|messages 参数非法",
)
"""Sentences that say that the messages do not form a valid conversation."""
PLACE: Final = r"\bmessages\W{0,3}\d+|\binput\[\d+\]"
"""Sentences that point at a message."""

TOOLS: Final = _any(
    r"\btools?(?:\[|\.|', ?)\d+", r"function_declarations", r"invalid schema for function", r"\binput_schema\b",
    r"invalid (?:function|tool) (?:name|schema|parameters)", r"(?:duplicate|tool) names? must be unique",
    r"(?:tool|function)(?:'s)? (?:name|schema|parameters?)\b.{0,80}(?:invalid|must|should|match|not (?:valid|allowed))",
    r"schema produces a constraint that has too many states|json schema conversion|failed to parse tools",
    r"error parsing grammar|json-schema-to-grammar|unable to generate parser",
    r"\btools?\.function\b|'tools': (?:empty|duplicate)|too short - 'tools'|struct field .{0,60}\btools\b",
    r"duplicate (?:function|tool)\b|(?:function|tool) names? (?:is|are|must be) (?:not )?(?:unique|duplicated)",
)  # fmt: skip
"""Sentences that point at a tool."""
UNSUPPORTED: Final = _any(
    r"(?:does|do) not support|(?:is|are) not supported|isn.t supported|not supported (?:by|with|for|in)|unsupported",
    r"only supported (?:by|in|for|with)|no endpoints found that (?:can )?support",
    r"(?:unknown|unrecognized|unexpected|unsupported|extra) (?:request )?(?:parameter|argument|field|input)",
    r"(?:extra inputs are not permitted|unrecognized request argument|requires? --\w|is not yet available for)",
    r"additional properties are not allowed|role not supported",
)
"""Sentences that say that the model or endpoint lacks what was asked for."""
UNSUPPORTED_AS_STARTED: Final = r"requires? --\w"
"""Sentences of a server that would have to be started with another option."""
MODEL: Final = _any(
    r"not a valid model", r"\bmodel\b.{0,100}(?:does not exist|not exist\b|not found|is not available)",
    r"no such model|unknown model|invalid model\b|not found the model|model identifier is invalid",
    r"model\b.{0,60}(?:decommissioned|deprecated|no longer (?:supported|available))",
)  # fmt: skip
"""Sentences that say that there is no such model."""
KEY: Final = _any(
    r"(?:incorrect|invalid) api key|api key (?:not valid|expired|is (?:invalid|expired))",
    r"(?:user location|country|region)\b.{0,40} not supported",
)
"""Sentences about the key, or about who may ask at all."""
CREDIT: Final = _any(
    r"credit balance is too low|balance is insufficient", r"insufficient (?:balance|credit|fund|quota)",
    r"(?:out of|any|available|no) credits?\b|spending limit|account\b.{0,20}\bis suspended|no quota",
    r"usage limit|key limit|billing cycle", r"exceeded your (?:current )?(?:quota|usage)", r"free tier\b.{0,40}exhaust",
)  # fmt: skip
"""Sentences about money; asked only where a status leaves auth and quota open, or where a 400 says so."""
NO_MONEY: Final = _any(
    r"insufficient (?:balance|credit|fund)|balance is (?:insufficient|too low)|credit balance",
    r"(?:all available|no usable|out of|no) (?:credits?|funds)\b|credits (?:have been )?exhausted|monthly quota",
    r"余额不足|用量上限",
)
"""Sentences about money that are believed even beside a code for speed."""
FLAGGED: Final = r"\bflagged\b|\bmoderation\b"
"""Sentences about what may not be said."""
