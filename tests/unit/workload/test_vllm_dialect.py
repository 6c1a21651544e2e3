"""vLLM's stream: one chunk for each step of its engine, as its own counts of the request confirm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchharness.records import RequestTrace
from benchharness.timings.cycles import chunks_are_cycles, from_trace
from benchharness.workload.dialects import Answer, dialect, fold
from benchharness.workload.prompts import Prompt


def answer(chunks: Sequence[int], counts: dict[str, Any] | None) -> Answer:
    """What an answer with so many tokens a chunk adds up to; events as 0.32.0 sends them."""
    events, total = [], 0
    for place, tokens in enumerate(chunks):
        total += tokens
        last = place == len(chunks) - 1
        choice = {"index": 0, "text": " dida" * tokens, "finish_reason": "length" if last else None}
        usage = {"prompt_tokens": 128, "total_tokens": 128 + total, "completion_tokens": total}
        events.append({"choices": [choice], "usage": usage})
    usage = {"prompt_tokens": 128, "completion_tokens": total, "prompt_tokens_details": {"cached_tokens": 0}}
    final: dict[str, Any] = {"choices": [], "usage": usage}
    if counts is not None:
        final["metrics"] = {"speculative_decoding": counts}
    stamped = [(1000 * (n + 1), b"", json.dumps(event).encode()) for n, event in enumerate([*events, final])]
    return fold(dialect("vllm"), stamped)


def traced(found: Answer) -> RequestTrace:
    trace = RequestTrace(0, False, prompt_tokens=128, due_ns=0, sent_ns=0, finished_ns=10**9)
    names = (
        *("chunk_ns", "chunk_tokens", "chunk_server_ms", "output_tokens", "tokens_mismatch"),
        *("drafted_tokens", "accepted_tokens", "verify_cycles"),
    )
    told = {name: getattr(found, name) for name in names}
    return replace(trace, **{name: tuple(v) if isinstance(v, list) else v for name, v in told.items()})


# Answers of vLLM 0.32.0 with the tiny model: chunks, and what the last event counts.
DRAFTED = [1, 1, 4, 2, 4, 4, 3, 4, 4, 4, 3, 4, 1, 1, 4, 4, 4, 1, 4, 1, 2, 2, 2]
DRAFTED_COUNTS = {"num_spec_steps": 22, "num_accepted_draft_tokens": 41, "num_draft_tokens": 66}
CUT_OFF = [1, 4, 2]
CUT_OFF_COUNTS = {"num_spec_steps": 2, "num_accepted_draft_tokens": 5, "num_draft_tokens": 6}
NGRAM = [*[1] * 15, 2, *[1] * 19, 2, *[1] * 26]
NGRAM_COUNTS = {"num_spec_steps": 8, "num_accepted_draft_tokens": 2, "num_draft_tokens": 24}


def test_with_a_draft_model_chunks_are_cycles_and_the_server_counts_them() -> None:
    for chunks, counts in ((DRAFTED, DRAFTED_COUNTS), (CUT_OFF, CUT_OFF_COUNTS)):
        found = answer(chunks, counts)
        assert (found.chunk_tokens, found.output_tokens, found.cached_tokens) == (chunks, sum(chunks), 0)
        assert (found.verify_cycles, found.failure) == (counts["num_spec_steps"], None)
        cycles = from_trace(traced(found))
        assert [cycle.tokens for cycle in cycles] == chunks[1:]
        assert {cycle.source for cycle in cycles} == {"client-chunk"}


def test_ngrams_steps_without_drafts_are_cycles_too() -> None:
    found = answer(NGRAM, NGRAM_COUNTS)
    assert (found.verify_cycles, found.drafted_tokens, found.accepted_tokens) == (None, 24, 2)
    assert len(from_trace(traced(found))) == len(NGRAM) - 1


def test_steps_that_came_in_one_chunk_are_no_cycles() -> None:
    merged = [*DRAFTED[:5], sum(DRAFTED[5:8]), *DRAFTED[8:]]
    assert not chunks_are_cycles(traced(answer(merged, DRAFTED_COUNTS)))
    merged = [*NGRAM[:5], 3, *NGRAM[8:20], 2, *NGRAM[22:]]
    assert not chunks_are_cycles(traced(answer(merged, NGRAM_COUNTS)))


def test_without_counts_only_single_tokens_are_cycles() -> None:
    assert chunks_are_cycles(traced(answer([1] * 9, None)))
    assert not chunks_are_cycles(traced(answer([1, 4, 2], None)))
    nothing_drafted = {"num_spec_steps": 0, "num_accepted_draft_tokens": 0, "num_draft_tokens": 0}
    assert chunks_are_cycles(traced(answer([1] * 9, nothing_drafted)))


def test_the_request_asks_for_counts_in_every_chunk() -> None:
    body = json.loads(dialect("vllm").body(Prompt(ids=(5, 6)), 32, {"model": "m"}))
    assert (body["prompt"], body["max_tokens"], body["model"]) == ([5, 6], 32, "m")
    assert body["ignore_eos"] is True
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
