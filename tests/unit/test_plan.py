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


@given(stacks=st.integers(1, 5), launches=st.integers(1, 4), steps=st.lists(st.integers(1, 3), max_size=3))
def test_a_longer_plan_begins_with_the_present_one_however_it_grew(
    stacks: int, launches: int, steps: list[int]
) -> None:
    begun = made(stacks, launches)
    grown = begun
    for step in steps:
        grown = plan.longer(grown, step)
    assert grown.launches[: len(begun.launches)] == begun.launches
    assert grown == plan.longer(begun, sum(steps))
    assert plan.launches_of_each(grown) == launches + sum(steps)
    assert [one.index for one in grown.launches] == list(range(len(grown.launches)))
    assert plan.is_grown_from(grown, begun)


def test_further_blocks_go_on_alternating_with_prompts_of_their_own() -> None:
    grown = plan.longer(made(stacks=4, launches=3), 5)
    rows = plan.blocks(grown.launches)
    for even, odd in zip(rows[::2], rows[1::2], strict=True):
        assert [one.stack for one in odd] == [one.stack for one in even][::-1]
    assert len({one.seed for one in grown.launches}) == 8
    for row in rows:
        assert len({(one.seed, one.workloads, one.block) for one in row}) == 1


def test_another_plan_is_none_grown_from_this_one() -> None:
    begun = made()
    assert plan.is_grown_from(begun, begun)
    assert not plan.is_grown_from(plan.longer(made(seed=2), 1), begun)
    assert not plan.is_grown_from(begun, plan.longer(begun, 1))
    part = replace(begun, launches=plan.longer(begun, 1).launches[:-1])
    assert not plan.is_grown_from(part, begun)


def test_a_plan_without_blocks_does_not_grow() -> None:
    with pytest.raises(UsageError, match="pairing: none has no blocks"):
        plan.longer(made(pairing="none"), 1)


@given(stacks=st.integers(2, 5), launches=st.integers(1, 5))
def test_each_block_of_a_duet_holds_the_first_stack_and_one_other(stacks: int, launches: int) -> None:
    done = made(stacks, launches, pairing="duet")
    rows = plan.blocks(done.launches)
    assert all(len(row) == 2 and "x=0" in {one.stack for one in row} for row in rows)
    counts = Counter(one.stack for one in done.launches)
    assert counts.pop("x=0") == launches * (stacks - 1)
    assert set(counts.values()) == {launches} == {plan.launches_of_each(done)}
    for at, row in enumerate(rows):
        assert len({(one.seed, one.workloads) for one in row}) == 1
        if at // (stacks - 1) % 2:
            before = rows[at - (stacks - 1)]
            assert [one.stack for one in row] == [one.stack for one in before][::-1]


def test_a_duet_grows_by_the_same_rule() -> None:
    assert plan.longer(made(3, 2, pairing="duet"), 3).launches == made(3, 5, pairing="duet").launches


def test_of_a_duet_only_both_launches_are_over() -> None:
    done = made(2, 3, pairing="duet")
    assert [one.index for one in plan.without(done, {0, 1, 2}).launches] == [2, 3, 4, 5]
    assert [one.index for one in plan.without(made(2, 3), {0, 1, 2}).launches] == [3, 4, 5]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("workload: {context_tokens: [8], output_tokens: 4, concurrency: 2}", "2 streams"),
        ("workload: {context_tokens: [8], output_tokens: 4, rate_rps: 2}", "an open loop"),
    ],
)
def test_a_duet_needs_one_stream(text: str, word: str) -> None:
    head = "{name: p, engine: standin, matrix: {args.x: [1, 2]}, measure: {pairing: duet}, "
    with pytest.raises(UsageError, match=word) as refused:
        plan.make(spec.parse(head + text + "}"))
    assert refused.value.advice


def test_a_duet_needs_two_stacks_and_no_alternating_probe() -> None:
    with pytest.raises(UsageError, match="needs two stacks"):
        made(1, pairing="duet")
    work = "workload: {context_tokens: [8], output_tokens: 4}"
    text = f"{{name: p, engine: sglang, matrix: {{args.x: [1, 2]}}, {work}, "
    with pytest.raises(UsageError, match="both pair requests"):
        plan.make(spec.parse(text + "measure: {pairing: duet, probe: alternate}}"))
