"""Arrivals: rates, ramps and trace files; the same on every machine; contradictions are refused."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchharness.errors import UsageError
from benchharness.records import Workload
from benchharness.workload.load import alternation, arrivals

OPEN = Workload(128, 16, 1000, concurrency=None, rate_rps=50.0)


def due(workload: Workload, seed: int = 1) -> list[float]:
    found = arrivals(workload, seed)
    assert found is not None
    assert len(found) == workload.requests
    return [one.due_s for one in found]


def test_a_closed_loop_has_no_times() -> None:
    assert arrivals(Workload(128, 16, 8, concurrency=4)) is None


def test_poisson_arrivals_have_their_rate_and_their_spread() -> None:
    times = due(replace(OPEN, requests=20_000))
    gaps = [b - a for a, b in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert mean == pytest.approx(1 / 50, rel=0.03)
    assert deviation == pytest.approx(mean, rel=0.05), "as wide as an exponential"


def test_poisson_arrivals_depend_on_the_seed_alone() -> None:
    assert due(OPEN, 1) == due(OPEN, 1) != due(OPEN, 2)
    assert due(OPEN, 7)[:3] == pytest.approx([0.0, 0.0078264, 0.0110967], abs=1e-6), (
        "on every version of Python"
    )


def test_a_constant_rate() -> None:
    assert due(replace(OPEN, arrivals="constant", requests=4)) == pytest.approx([0, 0.02, 0.04, 0.06])


@given(st.floats(0.1, 1000), st.floats(0.1, 1000), st.integers(2, 300))
def test_a_ramp_goes_from_one_rate_to_the_other(start: float, end: float, count: int) -> None:
    times = due(replace(OPEN, arrivals="ramp", rate_rps=start, ramp_to_rps=end, requests=count))
    gaps = [b - a for a, b in pairwise(times)]
    assert times[0] == 0.0
    # n requests at an average rate of (start + end) / 2; the last one comes at the ramp's end but one gap.
    assert times[-1] <= 2 * count / (start + end) * (1 + 1e-9)
    assert all(gap > 0 for gap in gaps)
    assert gaps[0] <= 1.0001 / min(start, end)
    assert sorted(gaps, reverse=end > start) == pytest.approx(gaps), "evenly faster, or evenly slower"


MOONCAKE = [
    {"timestamp": 27_482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]},
    {"timestamp": 30_535, "input_length": 6472, "output_length": 26, "hash_ids": [46]},
]
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:05.0000000,110,27
"""


def traced(path: Path, text: str, requests: int, **more: float) -> Workload:
    path.write_text(text)
    return Workload(128, 16, requests, trace_file=str(path), **more)


def test_mooncake_traces(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(row) for row in MOONCAKE)
    found = arrivals(traced(tmp_path / "a.jsonl", lines, 2))
    assert found is not None
    assert [(one.context_tokens, one.output_tokens) for one in found] == [(6955, 52), (6472, 26)]
    assert [one.due_s for one in found] == pytest.approx([0.0, 3.053])


def test_azure_traces_and_playing_faster(tmp_path: Path) -> None:
    found = arrivals(traced(tmp_path / "a.csv", AZURE, 3, trace_speedup=2.0))
    assert found is not None
    assert [one.due_s for one in found] == pytest.approx([0.0, 0.026, 0.51002], abs=1e-5)
    assert [one.context_tokens for one in found] == [4808, 3180, 110]


def test_own_columns_in_any_order(tmp_path: Path) -> None:
    found = arrivals(traced(tmp_path / "a.csv", "output_tokens,at_s,input_tokens\n5,2.5,9\n6,1.5,8\n", 2))
    assert found is not None
    assert [(one.due_s, one.context_tokens, one.output_tokens) for one in found] == [(0.0, 8, 6), (1.0, 9, 5)]


@pytest.mark.parametrize(
    ("text", "requests", "said"),
    [
        ("", 1, "has no requests"),
        ("a,b,c\n1,2,3\n", 1, "no known columns among a, b, c"),
        (AZURE, 4, "has 3 requests, 4 are wanted"),
        ("at_s,input_tokens,output_tokens\n1,2,3\n1,x,3\n", 2, "line 3"),
        ("at_s,input_tokens,output_tokens\nnan,2,3\n", 1, "out of range"),
        ("at_s,input_tokens,output_tokens\n1,0,3\n", 1, "out of range"),
        ('{"at_s":1,"input_tokens":2,"output_tokens":3}\n{"at_s"\n', 2, "line 2: not JSON"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-40 18:17:03.9,1,1\n", 1, "line 2"),
    ],
)
def test_broken_traces_are_refused_with_their_place(
    tmp_path: Path, text: str, requests: int, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        arrivals(traced(tmp_path / "trace", text, requests))


def test_empty_lines_at_the_start_of_a_trace_are_passed_over(tmp_path: Path) -> None:
    text = '\n\n{"at_s":1,"input_tokens":2,"output_tokens":3}\n'
    found = arrivals(traced(tmp_path / "trace", text, 1))
    assert found is not None
    assert [(one.context_tokens, one.output_tokens) for one in found] == [(2, 3)]
    found = arrivals(traced(tmp_path / "trace.csv", f"\r\n  \n{AZURE}", 3))
    assert found is not None
    assert [one.context_tokens for one in found] == [4808, 3180, 110]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('\n\n{"at_s":1,"input_tokens":2,"output_tokens":3}\n{"at_s"\n', "line 4: not JSON"),
        ("\n\nat_s,input_tokens,output_tokens\n1,2,3\n1,x,3\n", "line 5"),
        ("\n \n", "has no requests"),
    ],
)
def test_empty_lines_at_the_start_count_as_lines(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        arrivals(traced(tmp_path / "trace", text, 2))


def test_a_trace_of_bytes_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    for name in ("b", "missing"):
        with pytest.raises(UsageError):
            arrivals(Workload(1, 1, 1, trace_file=str(tmp_path / name)))


@pytest.mark.parametrize(
    "changes",
    [
        {"concurrency": None, "rate_rps": None},
        {"concurrency": 4},
        {"trace_file": "x"},
        {"rate_rps": 0.0},
        {"rate_rps": math.inf},
        {"arrivals": "poison"},
        {"arrivals": "ramp"},
        {"arrivals": "ramp", "ramp_to_rps": -1.0},
    ],
)
def test_contradictions_are_refused(changes: dict) -> None:
    with pytest.raises(UsageError) as error:
        arrivals(replace(OPEN, **changes))
    assert error.value.advice


@given(pairs=st.integers(1, 40), seed=st.integers(0, 999))
def test_neighbours_are_pairs_of_on_and_off(pairs: int, seed: int) -> None:
    order = alternation(2 * pairs, seed)
    assert order == alternation(2 * pairs, seed)
    assert all(first != second for first, second in zip(order[::2], order[1::2], strict=True))


@given(fours=st.integers(1, 20), seed=st.integers(0, 999))
def test_a_steady_drift_cancels_within_every_four_requests(fours: int, seed: int) -> None:
    order = alternation(4 * fours, seed)
    for at in range(0, 4 * fours, 4):
        on = [place for place in range(at, at + 4) if order[place]]
        assert sum(on) == 2 * (2 * at + 3) / 2


def test_which_comes_first_is_drawn() -> None:
    firsts = {alternation(2, seed)[0] for seed in range(20)}
    assert firsts == {True, False}
    assert len({alternation(40, seed) for seed in range(20)}) == 20
