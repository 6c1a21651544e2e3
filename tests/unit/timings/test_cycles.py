"""Cycles rebuilt from a stream."""

from __future__ import annotations

import math

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
    made = cycles.from_trace(trace([1, 3, 2], [math.nan] * 3, [50, 20, 30]))

    assert [(cycle.tokens, cycle.total_ms) for cycle in made] == [(3, 20.0), (2, 30.0)]
    assert {(cycle.source, cycle.clock) for cycle in made} == {("client-chunk", "client")}


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
    source = trace([tokens for _, tokens in chunks], server_ms)

    made = cycles.from_trace(source)

    assert [cycle.tokens for cycle in made] == [size for size, _ in groups[1:]]
    assert groups[0][0] + sum(cycle.tokens for cycle in made) == source.output_tokens
    if told:
        assert sum(cycle.total_ms for cycle in made) == pytest.approx((ends_us[-1] - ends_us[0]) / 1e3)
