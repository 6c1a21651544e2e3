"""T2 and T3: windows that hold more than decoding, and an accept rate that changed its meaning."""

from __future__ import annotations

import random
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loglines import decode, lines, prefill, rows, summarised

from benchharness.timings.logs import definition, windows

GAPS = frozenset(range(7, 100, 10))


def idle_log(
    *, with_prefill: bool, rank: str = "TP0", truth: float = 82.0, idle_s: float = 12.0
) -> tuple[str, list[float]]:
    """100 windows of 40 tokens at about 82 tok/s; before ten of them the server was idle."""
    noise = random.Random(4)
    said, shown, now, tokens = [], [], 0.0, 100
    for index in range(100):
        seconds = 40 / (truth * noise.uniform(0.995, 1.005))
        if index in GAPS:
            seconds += idle_s
            if with_prefill:
                said.append(prefill(rank, int(now + idle_s)))
                tokens = 100
        now += seconds
        tokens += 40
        shown.append(40 / seconds)
        said.append(decode(shown[-1], rank=rank, second=int(now), tokens=tokens))
    return lines(said), shown


@pytest.mark.parametrize(
    "with_prefill", [True, False], ids=["prefill is logged", "prefill is logged elsewhere"]
)
@pytest.mark.parametrize("idle_s", [0.5, 12.0])
def test_polluted_windows_are_left_out(with_prefill: bool, idle_s: float) -> None:
    text, shown = idle_log(with_prefill=with_prefill, idle_s=idle_s)
    assert abs(statistics.mean(shown) / 82.0 - 1) > 0.05
    (group,) = summarised(text).groups.values()
    assert (group.count, group.kept) == (100, 90)
    assert group.tok_s.median == pytest.approx(82.0, rel=0.01)
    assert group.tok_s.mean == pytest.approx(82.0, rel=0.01)
    read = [row for row in rows(text) if row.kind == "decode"]
    assert {index for index, row in enumerate(read) if not row.fields["keep"]} == GAPS
    assert all(row.fields["reason"] for row in read if not row.fields["keep"])


def test_a_slower_stack_is_not_taken_for_pauses() -> None:
    text = lines(
        decode(82.0 if index < 50 else 27.0, second=index, tokens=100 + 40 * index) for index in range(100)
    )
    (group,) = summarised(text).groups.values()
    assert group.kept >= 99


def test_the_noise_of_a_slow_machine_is_no_pause() -> None:
    text = lines(decode(8.0 - index % 3, second=7 * index, tokens=40 * index) for index in range(60))
    (group,) = summarised(text).groups.values()
    assert group.kept == 60


def test_growing_contexts_and_batches_are_no_pauses() -> None:
    text = lines(
        decode(300.0 / (1 + index / 40) * running, running=running, second=index, tokens=100 + 40 * index)
        for index in range(100)
        for running in [1 + index // 10]
    )
    (group,) = summarised(text).groups.values()
    assert group.kept == 100


def test_a_prefill_of_one_rank_says_nothing_of_another() -> None:
    said = []
    for index in range(20):
        said += [
            decode(80.0, rank=f"DP{rank} TP{rank}", second=index, tokens=40 * index) for rank in range(4)
        ]
        if index == 9:
            said.append(prefill("DP2 TP2", second=index))
    groups = summarised(lines(said)).groups
    assert {key[1]: group.kept for key, group in groups.items()} == {
        "DP0 TP0": 20, "DP1 TP1": 20, "DP2 TP2": 19, "DP3 TP3": 20,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[2026-11-29 12:00:05] KV cache pool is full. Retract requests. #retracted_reqs: 1", "retraction"),
        ("[2026-11-29 12:00:05 TP0] Capture cuda graph begin. avail mem=55.46 GB", "capture"),
        ("[2026-11-29 12:00:05] Entering DeepGEMM JIT Pre-Compile session.", "jit"),
        ("[2026-11-29 12:00:05] The server is fired up and ready to roll!", "start"),
    ],
)  # fmt: skip
def test_what_else_spoils_a_window(line: str, reason: str) -> None:
    said = [decode(80.0, second=index, tokens=40 * index) for index in range(20)]
    (group,) = summarised(lines([*said[:9], line, *said[9:]])).groups.values()
    assert group.kept == 19
    assert group.reasons[reason] == 1


def test_retracted_requests_on_the_line_itself() -> None:
    said = [
        decode(80.0).replace("cuda graph", f"#retracted-req: {index // 19}, cuda graph")
        for index in range(20)
    ]
    (group,) = summarised(lines(said)).groups.values()
    assert (group.kept, group.reasons["retraction"]) == (19, 1)


def test_a_log_that_begins_in_the_middle_loses_nothing() -> None:
    (group,) = summarised(lines(decode(80.0, tokens=40 * index) for index in range(3))).groups.values()
    assert group.kept == 3


def test_marks_go_on_over_the_end_of_a_block() -> None:
    marker = windows.Marker()
    column = np.full(3, 1.0)
    first = marker.mark(
        {"": (np.array([1, 2, 3]), column, column, column)}, {("", windows.PREFILL): np.array([5])}
    )
    then = marker.mark({"": (np.array([6, 7, 8]), column, column, column)}, {})
    last = marker.mark({"": (np.array([9, 10, 11]), column, column, column)}, {})
    assert last[""].tolist() == [0, 0, 0]
    assert first[""].tolist() == [0, 0, 0]
    assert then[""].tolist() == [windows.PREFILL, 0, 0]


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=60), st.integers(1, 50))
@settings(max_examples=100, deadline=None)
def test_any_steps_give_as_many_marks(steps: list[float], cut: int) -> None:
    marker, column = windows.Marker(), np.array(steps)
    at = np.arange(1, len(steps) + 1)
    for piece in (slice(0, cut), slice(cut, None)):
        if len(at[piece]):
            marks = marker.mark({"": (at[piece], column[piece], column[piece], column[piece])}, {})
            assert len(marks[""]) == len(at[piece])


def accepted(formula: str) -> list[tuple[float, float]]:
    """T3: the same steps, 2.17 of 4, under a definition."""
    noise = random.Random(7)
    lengths = [round(2.17 + noise.uniform(-0.1, 0.1), 2) for _ in range(60)]
    return [(length, round(definition.rate(length, 4, formula), 2)) for length in lengths]


def test_the_same_steps_under_two_definitions() -> None:
    sides = {}
    for formula in (definition.WITH_BONUS, definition.DRAFTS_ONLY):
        text = lines(
            decode(80.0, tokens=40 * index, accept=pair) for index, pair in enumerate(accepted(formula))
        )
        sides[formula] = summarised(text)
    old, new = sides.values()
    assert old.accept_rate() == definition.Definition(definition.WITH_BONUS, 4)
    assert new.accept_rate() == definition.Definition(definition.DRAFTS_ONLY, 4)
    said = definition.comparison(old.accept_rate(), new.accept_rate())
    assert said is not None
    assert definition.DIFFERS in said
    (one,), (other,) = old.groups.values(), new.groups.values()
    assert one.accept_len.mean == other.accept_len.mean
    rates = [statistics.mean(rate for _, rate in accepted(formula)) for formula in sides]
    assert rates[1] / rates[0] - 1 == pytest.approx(-0.28, abs=0.01)


def test_one_definition_is_no_difference() -> None:
    one = definition.Definition(definition.WITH_BONUS, 4)
    assert definition.comparison(one, one) is None
    assert definition.comparison(one, definition.Definition(None, None)) is None
    other = definition.comparison(one, definition.Definition(definition.WITH_BONUS, 8))
    assert other is not None
    assert "8" in other


def test_a_single_pair_may_fit_both_definitions() -> None:
    assert definition.infer([3.55], [0.51]).formula is None
    assert definition.infer([], []).formula is None
    assert definition.infer([float("nan")], [0.5], 4) == definition.Definition(None, 4)
