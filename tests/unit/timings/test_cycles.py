"""Cycles rebuilt from a stream."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchharness.records import RequestTrace
from benchharness.timings import cycles

MS = 1_000_000


def trace(tokens: list[int], server_ms: list[float], gaps_ms: list[int] | None = None) -> RequestTrace:
    gaps = gaps_ms or [1] * len(tokens)
    stamps = tuple(1_000 * MS + sum(gaps[: place + 1]) * MS for place in range(len(tokens)))
    return RequestTrace(
        index=3,
        warmup=False,
        prompt_tokens=8,
        due_ns=0,
        sent_ns=0,
        finished_ns=stamps[-1] if stamps else 0,
        chunk_ns=stamps,
        chunk_tokens=tuple(tokens),
        chunk_server_ms=tuple(server_ms),
        output_tokens=sum(tokens),
    )


def test_chunks_of_one_server_time_are_one_cycle_whenever_they_arrive() -> None:
    # As llama.cpp b11549 streams: one token a chunk, the cycle's time on each of them.
    made = cycles.from_trace(
        trace([1, 1, 1, 1, 1, 1], [0.001, 5.849, 11.815, 11.815, 17.466, 17.466], [40, 6, 1, 9, 1, 1])
    )

    assert [cycle.tokens for cycle in made] == [1, 2, 2]
    assert [cycle.total_ms for cycle in made] == pytest.approx([5.848, 5.966, 5.651])
    assert {(cycle.source, cycle.clock) for cycle in made} == {("server-timing", "host")}
    assert [(cycle.request, cycle.index) for cycle in made] == [(3, 0), (3, 1), (3, 2)]


def test_counts_that_jump_at_a_cycle_s_first_chunk_give_the_same() -> None:
    # As llama.cpp b8672 counts: all tokens of a cycle at its first chunk, which alone is kept.
    made = cycles.from_trace(trace([1, 1, 2, 4], [0.001, 12.2, 19.3, 25.0]))

    assert [cycle.tokens for cycle in made] == [1, 2, 4]
    assert sum(cycle.tokens - 1 for cycle in made) == 4


def test_without_server_times_each_chunk_is_a_cycle_by_the_client_s_clock() -> None:
    source = replace(trace([1, 3, 2], [math.nan] * 3, [50, 20, 30]), verify_cycles=2)
    made = cycles.from_trace(source)

    assert [(cycle.tokens, cycle.total_ms) for cycle in made] == [(3, 20.0), (2, 30.0)]
    assert {(cycle.source, cycle.clock) for cycle in made} == {("client-chunk", "client")}


@pytest.mark.parametrize(
    ("tokens", "counts"),
    [
        ([1, 3, 2], {}),  # nothing says that a chunk of several tokens is one cycle
        ([1, 1, 1, 1, 1, 1, 1], {"verify_cycles": 3}),  # the tokens of a cycle were streamed one by one
        ([1, 8, 8], {"verify_cycles": 6}),  # several cycles in a chunk
        ([1, 1, 1, 1, 1], {"drafted_tokens": 8, "accepted_tokens": 3}),
        ([1, 1, 1], {"tokens_estimated": True}),
        ([1, 2, 1], {"tokens_mismatch": True, "verify_cycles": 2}),
    ],
)
def test_chunks_that_the_servers_counts_do_not_call_cycles_are_none(
    tokens: list[int], counts: dict[str, Any]
) -> None:
    source = replace(trace(tokens, [math.nan] * len(tokens)), **counts)
    assert cycles.from_trace(source) == ()


@pytest.mark.parametrize("counts", [{"verify_cycles": 2}, {"drafted_tokens": 6, "accepted_tokens": 3}])
def test_chunks_that_the_servers_counts_call_cycles_are_taken(counts: dict[str, Any]) -> None:
    source = replace(trace([1, 3, 2], [math.nan] * 3), **counts)
    assert [cycle.tokens for cycle in cycles.from_trace(source)] == [3, 2]


def test_what_came_in_the_first_read_has_no_duration() -> None:
    source = replace(trace([1, 2, 2, 2], [math.nan] * 4, [50, 0, 20, 30]), verify_cycles=3)
    assert [(c.tokens, c.total_ms) for c in cycles.from_trace(source)] == [(2, 20.0), (2, 30.0)]


def test_one_missing_server_time_puts_the_whole_answer_on_the_client_s_clock() -> None:
    made = cycles.from_trace(trace([1, 1, 1], [0.001, math.nan, 9.0], [50, 20, 30]))

    assert [cycle.total_ms for cycle in made] == [20.0, 30.0]
    assert {cycle.source for cycle in made} == {"client-chunk"}


@pytest.mark.parametrize(("tokens", "server_ms"), [([], []), ([1], [0.001]), ([2, 1], [0.5, 0.5])])
def test_what_the_prefill_gave_is_no_cycle(tokens: list[int], server_ms: list[float]) -> None:
    assert cycles.from_trace(trace(tokens, server_ms)) == ()


@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 50_000)), min_size=1, max_size=40),
    st.booleans(),
)
def test_no_token_and_no_time_gets_lost(groups: list[tuple[int, int]], told: bool) -> None:
    """However a cycle's tokens are cut into chunks, its size and time come back."""
    ends_us = [sum(us for _, us in groups[: place + 1]) for place in range(len(groups))]
    chunks = [(end_us / 1e3, size) for end_us, (size, _) in zip(ends_us, groups, strict=True)]
    if told:
        chunks = [(ms, 1) for ms, size in chunks for _ in range(size)]
    server_ms = [ms if told else math.nan for ms, _ in chunks]
    source = replace(
        trace([tokens for _, tokens in chunks], server_ms), verify_cycles=None if told else len(groups) - 1
    )

    made = cycles.from_trace(source)

    assert [cycle.tokens for cycle in made] == [size for size, _ in groups[1:]]
    assert groups[0][0] + sum(cycle.tokens for cycle in made) == source.output_tokens
    if told:
        assert sum(cycle.total_ms for cycle in made) == pytest.approx((ends_us[-1] - ends_us[0]) / 1e3)
