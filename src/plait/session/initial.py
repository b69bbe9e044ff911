"""What a session begins with: its public keys, and its settings beside them.

Floor: 5. Owns: which of spec, options and an earlier session has the word; never: its tools (`tabling`).
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from plait.core.facts import Fact, MessageAdded
from plait.core.usage import Usage
from plait.engine.agent_spec import endpoint_of, model_of
from plait.engine.limits import Limits, rules_under
from plait.engine.spec_limits import limits_of_spec
from plait.kernel.counting import TokenCounter
from plait.kernel.rules import Retry, Rules
from plait.models.endpoint import endpoint_of as parsed_endpoint, kept_address
from plait.models.pinning import pin_of
from plait.session.cache_terms import cache_keys
from plait.session.cancelling import signal_of
from plait.session.kept.keeping import Kept
from plait.session.kept.recorded import provider_recorded
from plait.session.live import Settings
from plait.session.options import SIDE_BY_SIDE
from plait.session.permitting import permissions_of
from plait.session.spec_terms import is_structured, key_source_of, program_of, streams_of
from plait.session.summaries.terms import compaction_keys, last_prompt_tokens

USUAL: Final = Limits(max_steps=None, tool_concurrency=SIDE_BY_SIDE)


def values_of(
    schema: Mapping[str, Any], given: Mapping[str, Any], kept: Kept, earlier: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the public keys of a session; id, usage and counts of an earlier one are its own."""
    before: Mapping[str, Any] = {} if earlier is None or kept.state is not None else earlier
    began_s = kept.began_ms / 1_000 if kept.began_ms else time.time()
    return {
        "session_id": kept.id,
        "model": model_of(schema),
        "endpoint": kept_address(endpoint_of(schema)),
        "messages": [],
        "tools": [],
        "tool_dispatch": {},
        "structured": is_structured(schema),
        "streaming": streams_of(schema) is not False,
        "non_interactive": given["non_interactive"],
        "cache_key": given["cache_key"] or before.get("cache_key") or kept.id,
        "max_output_tokens": given["max_output_tokens"] or schema.get("max_output_tokens"),
        "provider": schema.get("provider") or _pinned(kept) or before.get("provider"),
        "auth": key_source_of(schema),
        "profile": None if given["profile"] is None else given["profile"].to_dict(),
        "reports_prompt_tokens": schema.get("reports_prompt_tokens") is not False,
        "options": list(schema.get("options") or ()),
        "strict_cache_proof": given["strict_cache_proof"],
        **cache_keys(schema, given),
        **compaction_keys(schema, given),
        "compaction_last_prompt_tokens": last_prompt_tokens(kept.facts),
        "parallel_tool_dispatch": schema.get("parallel_tool_dispatch") is True,
        "usage_totals": dict.fromkeys(("prompt", "completion", "total", "cached", "cache_write"), 0)
        | dict(before.get("usage_totals", {})),
        "llm_call_count": before.get("llm_call_count", sum(map(_is_answer, kept.facts))),
        "session_start_ts": before.get("session_start_ts", began_s),
    }


def _pinned(kept: Kept) -> dict[str, object] | None:
    provider = provider_recorded(kept.facts)
    return None if provider is None else pin_of(provider)


def _is_answer(fact: Fact) -> bool:
    return isinstance(fact, MessageAdded) and fact.message.role == "assistant"


def settings_of(schema: Mapping[str, Any], given: Mapping[str, Any], values: Mapping[str, Any]) -> Settings:
    limits: Limits = given["limits"] or (limits_of_spec(schema, USUAL) if schema.get("limits") else USUAL)
    if schema.get("parallel_tool_dispatch") is True:
        limits = replace(limits, tool_concurrency=int(schema.get("parallel_tool_dispatch_max_workers") or 8))
    return Settings(
        supplement=given["system_prompt_supplement"],
        bare=bool(given["bare"]),
        approver=given["approver"],
        limits=limits,
        max_turn_tokens=given["max_turn_tokens"],
        request_params=_request_params(schema, values["provider"]),
        context_window=schema.get("context_window"),
        streams=streams_of(schema) is True,
        rules=rules_under(
            limits,
            Rules(retry=given["retry"] or Retry(), token_counter=_counter(schema, given)),
            zlib.crc32(values["session_id"].encode()),
        ),
        output=given["output"],
        step_reducer=given["step_reducer"],
        compaction_policy=None if isinstance(given["compaction_policy"], str) else given["compaction_policy"],
        opening_cancel=signal_of(given["opening_cancel"]),
        profile=given["profile"],
        seat=given["tool_executor"],
        permissions=permissions_of(schema, given, given["workspace"] or os.getcwd()),
    )


def _counter(schema: Mapping[str, Any], given: Mapping[str, Any]) -> TokenCounter | None:
    wanted = given["token_counter"] or schema.get("token_counter")
    if not wanted:
        return None
    from plait.models.token_counters import token_counter_of  # most sessions estimate

    return token_counter_of(wanted, model_of(schema))


def _request_params(schema: Mapping[str, Any], provider: object) -> dict[str, object]:
    """Return the forced members of every request; with the provider that an earlier session stayed with."""
    kept = {"provider": provider} if provider and "provider" not in schema and _pins(schema) else {}
    return {**kept, **(schema.get("request_params") or {})}


def _pins(schema: Mapping[str, Any]) -> bool:
    return program_of(schema) is None and parsed_endpoint(endpoint_of(schema) or None).profile.pins_provider


def used_in(values: Mapping[str, Any]) -> Usage:
    totals = values["usage_totals"]
    return Usage(totals["prompt"], totals["completion"], totals["cached"], totals["cache_write"], computed=True)
