"""The machine that judges an answer's cache numbers: what each mode makes of every sequence of answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from plait.core.usage import Usage
from plait.engine.cache.proof import (
    UNMEASURABLE,
    CacheProof,
    CacheTerms,
    Judged,
    ProofRules,
    judge,
    rules_of,
)
from plait.models.known_profiles import profile_named
from plait.wire.usage import read_usage

TTL_S = 3_600.0
HIT = Usage(5_000, 10, cache_read=4_000)
ZERO = Usage(5_000, 10, cache_read=0)
WRITTEN = Usage(5_000, 10, cache_read=0, cache_write=4_900)
SILENT = Usage(5_000, 10)
NOTHING = Usage.UNAVAILABLE


def after(*usages: Usage, rules: ProofRules, pause_s: float = 1.0) -> list[Judged]:
    """Judge some answers, each so long after the one before it."""
    proof, judged = CacheProof(), []
    for number, usage in enumerate(usages):
        judged.append(judge(proof, rules, usage, round(number * pause_s * 1_000)))
        proof = judged[-1].proof
    return judged


def told(judged: Judged) -> str:
    """Say in a word what a judgement came to: `end`, the event, or the status."""
    if judged.objection:
        return "end"
    return judged.verdict.type if judged.verdict is not None else str(judged.proof.status)


FIRST, EVERY = ProofRules("first", ttl_s=TTL_S), ProofRules("every", ttl_s=TTL_S)
LENIENT, OFF = ProofRules("lenient", ttl_s=TTL_S), ProofRules("off", ttl_s=TTL_S)


@pytest.mark.parametrize(
    "rules, usages, expected",
    [
        (FIRST, (SILENT,), ["end"]),
        (FIRST, (NOTHING,), ["end"]),
        (FIRST, (ZERO, SILENT, HIT), ["None", "cache_proof_missing", "ok"]),
        (FIRST, (WRITTEN, HIT), ["ok", "ok"]),
        (FIRST, (HIT, ZERO, ZERO), ["ok", "cache_proof_missing", "cache_proof_missing"]),
        (FIRST, (HIT, WRITTEN), ["ok", "cache_written"]),
        (FIRST, (HIT, NOTHING), ["ok", "cache_proof_missing"]),
        (EVERY, (SILENT,), ["end"]),
        (EVERY, (ZERO, ZERO), ["None", "end"]),
        (EVERY, (ZERO, HIT, SILENT), ["None", "ok", "end"]),
        (EVERY, (ZERO, WRITTEN), ["None", "cache_written"]),
        (LENIENT, (SILENT, SILENT), ["cache_unmeasurable", "unmeasurable"]),
        (LENIENT, (NOTHING, HIT, SILENT), ["cache_unmeasurable", "ok", "missing"]),
        (LENIENT, (ZERO, ZERO), ["None", "missing"]),
        (OFF, (SILENT, NOTHING, ZERO), ["None", "None", "None"]),
    ],
)
def test_what_each_mode_makes_of_answers(rules: ProofRules, usages: tuple[Usage, ...], expected: list[str]) -> None:
    """The first answer has to report something, "every" later one has to be a hit or a write, "auto" only notices."""
    assert expected == [told(judged) for judged in after(*usages, rules=rules)]


def test_an_endpoint_whose_counts_mean_nothing() -> None:
    """With `reports_prompt_tokens` false there is one notice, and nothing else, whatever is reported."""
    rules = ProofRules("every", can_measure=False)

    assert ["cache_unmeasurable", "unmeasurable", "unmeasurable"] == [
        told(judged) for judged in after(SILENT, HIT, ZERO, rules=rules)
    ]


def test_a_client_of_somebody_elses_may_drop_the_numbers_once() -> None:
    """A first answer without any usage is no proof of anything behind such a client; the next one is missed."""
    rules = ProofRules("first", usage_is_optional=True)

    assert ["None", "cache_proof_missing"] == [told(judged) for judged in after(NOTHING, NOTHING, rules=rules)]
    assert "end" == told(after(SILENT, rules=rules)[0])


def test_short_prompts_are_never_cached() -> None:
    """Below the minimum the first answer need not say anything, and a later zero is explained by it."""
    rules = ProofRules("every", min_tokens=6_000)

    judged = after(SILENT, ZERO, rules=rules)

    assert ["None", "cache_below_minimum"] == [told(each) for each in judged]
    assert {"prompt_tokens": 5_000, "min_cacheable_tokens": 6_000} == dict(judged[1].verdict.data)  # type: ignore[union-attr]


@pytest.mark.parametrize("rules", [FIRST, EVERY], ids=["first", "every"])
@pytest.mark.parametrize("usage", [ZERO, SILENT, NOTHING, WRITTEN], ids=["zero", "silent", "nothing", "written"])
def test_a_cold_cache_is_nobodys_fault(rules: ProofRules, usage: Usage) -> None:
    """After a pause longer than the cache lasts a miss is told as cold, with the age, and ends nothing."""
    judged = after(HIT, usage, rules=rules, pause_s=TTL_S + 1)[1]

    assert "cache_cold" == told(judged)
    assert {"age": TTL_S + 1, "ttl": TTL_S} == dict(judged.verdict.data)  # type: ignore[union-attr]
    assert "ok" == told(after(HIT, HIT, rules=rules, pause_s=TTL_S + 1)[1])


@pytest.mark.parametrize("pause_s, expected", [(60.0, "cache_proof_missing"), (7_200.0, "cache_cold")])
def test_a_resumed_conversation_is_not_at_its_first_answer(pause_s: float, expected: str) -> None:
    """What an earlier process was answered counts: its last answer's age decides, and nothing is fatal again."""
    proof = CacheProof(answers=3, answered_ms=0)

    assert expected == told(judge(proof, FIRST, SILENT, round(pause_s * 1_000)))


def test_an_age_that_nobody_knows_is_taken_for_cold() -> None:
    """A session restored from a dict says how many answers there were, and not when: its first miss is no offence."""
    judged = judge(CacheProof(answers=3), EVERY, ZERO, 1_000)

    assert ("cache_cold", None) == (told(judged), judged.verdict.data["age"])  # type: ignore[union-attr]
    assert 1_000 == judged.proof.answered_ms


PROOFS: list[dict[str, Any]] = [
    {"prompt_tokens_details": {"cached_tokens": 7}},
    {"cache_read_input_tokens": 7},
    {"cache_read_tokens": 7},
    {"prompt_tokens_details": {"cache_read_tokens": 7}},
    {"prompt_tokens_details": {"cache_read_input_tokens": 7}},
    {"cache_creation_input_tokens": 7},
    {"cache_write_tokens": 7},
    {"prompt_tokens_details": {"cache_write_tokens": 7}},
    {"prompt_tokens_details": {"cache_creation_input_tokens": 7}},
    {"cached_tokens": 7},
    {"prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 93},
    {"input_tokens_details": {"cached_tokens": 7}},
]


@pytest.mark.parametrize("fields", PROOFS, ids=[str(number) for number in range(len(PROOFS))])
@pytest.mark.parametrize("zero", [False, True])
def test_every_shape_of_usage_proves(fields: dict[str, Any], zero: bool) -> None:
    """All shapes in which servers report cached tokens are proof, a reported zero included."""
    reported = _zeroed(fields) if zero else fields

    usage = read_usage({"prompt_tokens": 100, "completion_tokens": 1, **reported})

    assert usage is not None
    judged = after(usage, rules=EVERY)[0]
    assert ("", None if zero else "ok") == (judged.objection, judged.proof.status)


def _zeroed(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: _zeroed(value) if isinstance(value, dict) else 0 for name, value in fields.items()}


@pytest.mark.parametrize(
    "mode, endpoint, expected",
    [
        (True, None, "first"),
        ("every", "openai", "every"),
        (False, "openai", "off"),
        ("auto", "openai", "first"),
        ("auto", "local", "lenient"),
        ("auto", None, "lenient"),
    ],
)
def test_the_rules_for_an_endpoint(mode: Any, endpoint: str | None, expected: str) -> None:
    """The word auto is strict where the profile says that cached tokens are reported; its minimum counts by default."""
    profile = None if endpoint is None else profile_named(endpoint)

    rules = rules_of(CacheTerms(mode), profile)

    assert (expected, 1_024 if endpoint == "openai" else 0) == (rules.strictness, rules.min_tokens)
    assert 4_096 == rules_of(CacheTerms(mode, 4_096), profile).min_tokens


counts = st.none() | st.integers(0, 10_000)
usages = st.builds(Usage, input=counts, output=counts, cache_read=counts, cache_write=counts)
rules = st.builds(
    ProofRules,
    st.sampled_from(["off", "lenient", "first", "every"]),
    min_tokens=st.sampled_from([0, 1_024]),
    can_measure=st.booleans(),
    usage_is_optional=st.booleans(),
)


@given(rules, st.lists(st.tuples(usages, st.integers(0, 10_000_000)), max_size=8))
def test_what_holds_for_every_sequence(rules: ProofRules, answers: list[tuple[Usage, int]]) -> None:
    """Off says nothing; only strict modes end a turn, and "first" only at the first answer; a hit ends none; a proof
    moves only with a read or a write; unmeasurable is told once."""
    proof, now_ms, unmeasurable = CacheProof(), 0, 0
    for number, (usage, pause_ms) in enumerate(answers):
        now_ms += pause_ms
        judged = judge(proof, rules, usage, now_ms)

        assert (number + 1, now_ms) == (judged.proof.answers, judged.proof.answered_ms)
        if judged.objection:
            assert rules.strictness == "every" or (rules.strictness == "first" and number == 0)
            assert not usage.cache_read
            assert "missing" == judged.proof.status
        if rules.strictness == "off":
            assert (None, None, "") == (judged.verdict, judged.proof.status, judged.objection)
        moved = judged.proof.proved_ms != proof.proved_ms
        assert not moved or bool(usage.cache_read or usage.cache_write)
        unmeasurable += judged.verdict == UNMEASURABLE
        proof = judged.proof
    assert unmeasurable <= 1
