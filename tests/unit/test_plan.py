"""The plan: order, pairing, prompts that do equal work, and what it will take."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchharness import plan, spec
from benchharness.errors import UsageError
from benchharness.plan import Cost

TEXT = """\
name: p
engine: standin
matrix: {{args.x: [{values}]}}
workload: {{context_tokens: [1, 2, 3], output_tokens: 4, requests: 5}}
measure: {{launches: {launches}, seed: {seed}, pairing: {pairing}, warmup: 2}}
"""


def made(stacks: int = 3, launches: int = 4, seed: int = 1, pairing: str = "interleaved") -> plan.Plan:
    values = ", ".join(str(number) for number in range(stacks))
    return plan.make(spec.parse(TEXT.format(values=values, launches=launches, seed=seed, pairing=pairing)))


@given(stacks=st.integers(1, 6), launches=st.integers(1, 6), seed=st.integers(0, 99))
def test_every_block_holds_every_stack_once(stacks: int, launches: int, seed: int) -> None:
    done = made(stacks, launches, seed)
    counts = Counter((launch.block, launch.stack) for launch in done.launches)
    assert len(counts) == stacks * launches
    assert set(counts.values()) == {1}
    assert [launch.index for launch in done.launches] == list(range(stacks * launches))


@given(stacks=st.integers(2, 6), seed=st.integers(0, 99))
def test_a_steady_drift_cancels_between_two_blocks(stacks: int, seed: int) -> None:
    done = made(stacks, 2, seed)
    places: Counter[str] = Counter()
    for launch in done.launches:
        places[launch.stack] += launch.index
    assert len(set(places.values())) == 1


def test_launches_of_a_block_do_equal_work() -> None:
    done = made()
    for block in range(4):
        rows = [launch for launch in done.launches if launch.block == block]
        assert len({launch.seed for launch in rows}) == 1
        assert len({launch.workloads for launch in rows}) == 1
    assert len({launch.seed for launch in done.launches}) == 4


def test_the_same_experiment_gives_the_same_plan_and_another_seed_another() -> None:
    assert made() == made()
    assert made(seed=1).launches != made(seed=2).launches


def test_without_pairing_stacks_follow_each_other() -> None:
    done = made(pairing="none")
    assert [launch.stack for launch in done.launches] == ["x=0"] * 4 + ["x=1"] * 4 + ["x=2"] * 4
    assert [launch.block for launch in done.launches[:4]] == [0, 1, 2, 3]


def test_requests_count_warm_up_and_time_follows_costs() -> None:
    done = made(stacks=2, launches=3)
    assert plan.requests_of(done, done.launches[0]) == 3 * (5 + 2)
    costs = {"x=0": Cost(launch_s=10.0, request_s=1.0), "x=1": Cost(launch_s=20.0, request_s=2.0)}
    assert plan.estimate_s(done, costs) == 3 * (10 + 21) + 3 * (20 + 42)
    guessed = plan.guessed_costs(done, {"x=0": 3.0, "x=1": 4.0})
    assert [guessed["x=0"].launch_s, guessed["x=1"].launch_s] == [3.0, 4.0]
    assert guessed["x=0"].request_s == guessed["x=1"].request_s > 0


def test_what_is_left_is_corrected_by_what_was_seen() -> None:
    done = made(stacks=1, launches=4)
    remaining = plan.Remaining(done, {"x=0": Cost(launch_s=10.0, request_s=0.0)})
    assert remaining.seconds(0, 0.0) == 40
    assert remaining.seconds(2, 40.0) == 40
    assert remaining.seconds(4, 80.0) == 0


def test_differences_name_only_what_sets_stacks_apart() -> None:
    stacks = made(stacks=2).stacks
    assert plan.differences(stacks) == {"args.x": ("0", "1")}


def test_only_equal_work_is_compared() -> None:
    work = made().workloads
    plan.refuse_other_work(work, [replace(one, requests=99, warmup_requests=0) for one in work])
    plan.refuse_other_work(work, [replace(work[0], context_tokens=77, output_tokens=9)])
    for name, value in {"output_tokens": 9, "concurrency": 8, "turns": 2, "prompts_file": "p.jsonl"}.items():
        with pytest.raises(UsageError, match=f"{name} is "):
            plan.refuse_other_work(work, [replace(work[0], **{name: value})])


@pytest.mark.parametrize(
    ("workload", "word"),
    [
        ("concurrency: 2", "concurrency is 2"),
        ("rate_rps: 3", "open loop"),
        ("trace_file: t.csv", "open loop"),
        ("turns: 2", "workload.turns"),
        ("requests: 7", "requests is 7"),
    ],
)
def test_a_probe_switched_by_request_needs_one_stream_of_equal_requests(workload: str, word: str) -> None:
    cell = f"{{context_tokens: [8], output_tokens: 4, {workload}}}"
    text = f"{{name: p, engine: sglang, workload: {cell}, measure: {{probe: alternate}}}}"
    with pytest.raises(UsageError, match=word) as refused:
        plan.make(spec.parse(text))
    assert "measure.probe: alternate" in str(refused.value)
    assert refused.value.advice


def test_a_probe_switched_by_request_is_planned() -> None:
    cell = "{context_tokens: [8], output_tokens: 4, concurrency: 1}"
    text = f"{{name: p, engine: sglang, workload: {cell}, measure: {{probe: alternate}}}}"
    assert plan.make(spec.parse(text)).probe == "alternate"
