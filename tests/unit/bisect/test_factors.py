"""Which set of factors acts: against a slow reference, and in whole campaigns."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from benchharness.bisect import factors
from benchharness.bisect.factors import Combination, Prior, Stop, Tried, believe, next_combination
from benchharness.bisect.factors.belief import BLOCK_RATIOS, weigh
from benchharness.bisect.factors.choice import information
from benchharness.bisect.factors.hypotheses import up_to
from benchharness.errors import UsageError

KNOWN = Prior(level=1.0, shift=0.04, deviation=0.02, deviation_launches=math.inf)
K = 4
COMBINATIONS = st.frozensets(st.integers(0, K - 1))
LAUNCHES = st.lists(
    st.builds(
        Tried, COMBINATIONS, st.floats(-0.2, 0.2).map(lambda x: round(x, 4)), st.none() | st.integers(0, 2)
    ),
    max_size=10,
)


def reference(count: int, tried: list[Tried], prior: Prior) -> dict[Combination, float]:
    """Level, deviation and shift integrated out on grids, with the covariance of every launch written out."""
    sets = up_to(count, prior.size).sets
    values = np.array([one.value for one in tried])
    blocks = [one.block for one in tried]
    known = [block for block in blocks if block is not None]
    ratios = BLOCK_RATIOS if 1 < len(set(known)) < len(known) else (0.0,)
    levels = np.linspace(values.min() - 1, values.max() + 1, 801)
    deviations = np.geomspace(5e-3, 1, 90)
    shifts = np.geomspace(prior.least_shift, prior.most_shift, 60)
    shape, scale = prior.deviation_launches / 2, prior.deviation_launches * prior.deviation**2 / 2
    weight = stats.invgamma(shape, scale=scale).pdf(deviations**2) * 2 * deviations**2  # of the logarithm
    found = {}
    for one in sets:
        chance = prior.nothing if not one else (1 - prior.nothing) * prior.by_size[len(one) - 1]
        chance /= max(sum(len(other) == len(one) for other in sets), 1)
        evidence = 0.0
        for ratio in ratios:
            same = np.array([[a is not None and a == b for b in blocks] for a in blocks], dtype=float)
            inverse = np.linalg.inv(np.eye(len(values)) + ratio * same)
            for shift, part in zip(shifts, prior.chance_of(shifts), strict=True):
                acts = np.array([bool(one) and one <= other.combination for other in tried])
                rest = (values - shift * acts)[:, None] - levels
                squares = np.einsum("il,ij,jl->l", rest, inverse, rest)
                for deviation, height in zip(deviations, weight, strict=True):
                    density = np.exp(-squares / (2 * deviation**2)).sum()
                    norm = np.sqrt(np.linalg.det(inverse)) / deviation ** len(values)
                    evidence += part * height * norm * density
        found[one] = chance * evidence
    total = sum(found.values())
    return {one: value / total for one, value in found.items()}


@pytest.mark.parametrize("blocks", [False, True])
def test_the_posterior_is_that_of_a_slow_reference(blocks: bool) -> None:
    random = np.random.default_rng(5)
    prior = Prior(
        by_size=(0.7, 0.3), least_shift=0.03, most_shift=0.3, deviation=0.04, deviation_launches=3.0
    )
    for culprit in (frozenset({1}), frozenset({0, 2})):
        tried = []
        for at in range(7):
            combination = frozenset(np.flatnonzero(random.random(3) < 0.6).tolist())
            value = 0.1 * (culprit <= combination) + random.normal(0, 0.04)
            tried.append(Tried(combination, value, at // 2 if blocks else None))
        found, slow = believe(3, tried, prior), reference(3, tried, prior)
        assert found.probability.keys() == slow.keys()
        for one, probability in slow.items():
            assert found.probability[one] == pytest.approx(probability, abs=2e-3), one
        assert found.best == max(slow, key=lambda one: slow[one])


@settings(deadline=None)
@given(LAUNCHES, st.sampled_from([Prior(), KNOWN, Prior(by_size=(0.6, 0.3, 0.1))]))
def test_probabilities_sum_to_one(tried: list[Tried], prior: Prior) -> None:
    found = believe(K, tried, prior)
    assert sum(found.probability.values()) == pytest.approx(1)
    assert all(0 <= one <= 1 for one in (*found.probability.values(), *found.marginal))
    assert found.confidence == max(found.probability.values()) == found.probability[found.best]
    assert found.shift.low <= found.shift.middle <= found.shift.high
    for factor, marginal in enumerate(found.marginal):
        assert marginal == pytest.approx(sum(p for one, p in found.probability.items() if factor in one))


@settings(deadline=None)
@given(LAUNCHES, st.floats(-5, 5), st.randoms())
def test_neither_the_level_nor_the_order_of_launches_matters(
    tried: list[Tried], up: float, random: object
) -> None:
    moved = [Tried(one.combination, one.value + up, one.block) for one in tried]
    random.shuffle(moved)  # type: ignore[attr-defined]
    first, second = believe(K, tried).probability, believe(K, moved).probability
    assert all(first[one] == pytest.approx(second[one], abs=1e-6) for one in first)


@settings(deadline=None)
@given(LAUNCHES, st.permutations(range(K)))
def test_factors_have_no_order(tried: list[Tried], names: list[int]) -> None:
    def renamed(one: Combination) -> Combination:
        return frozenset(names[factor] for factor in one)

    other = [Tried(renamed(one.combination), one.value, one.block) for one in tried]
    first, second = believe(K, tried).probability, believe(K, other).probability
    assert all(first[one] == pytest.approx(second[renamed(one)], abs=1e-9) for one in first)


def test_before_the_first_launch_only_the_prior_speaks() -> None:
    found = believe(3, [], Prior(by_size=(0.75, 0.25), nothing=0.1, weights=(1.0, 2.0, 1.0)))
    assert found.probability[frozenset()] == pytest.approx(0.1)
    assert found.probability[frozenset({1})] == pytest.approx(0.9 * 0.75 * 0.5)
    assert found.probability[frozenset({0, 2})] == pytest.approx(0.9 * 0.25 * 0.2)


def test_a_shift_comes_with_its_interval() -> None:
    random = np.random.default_rng(3)
    draws = [(at % 2, random.normal(0, 0.01)) for at in range(40)]
    found = believe(2, [Tried(frozenset({0} if bad else {1}), 0.1 * bad + noise) for bad, noise in draws])
    assert found.best == frozenset({0})
    assert found.shift.low < 0.1 < found.shift.high
    assert 0.005 < found.shift.high - found.shift.low < 0.03
    assert found.deviation == pytest.approx(0.01, rel=0.3)


def test_a_block_that_moved_as_a_whole_is_no_shift() -> None:
    """Three blocks, the second slow throughout; factor 0 was only there in that one."""
    one, other = frozenset({0}), frozenset({1})
    rows = [(0, other, 0.0), (0, frozenset(), 0.001), (1, one, 0.2), (1, frozenset(), 0.201), (2, other, 0.0)]
    tried = [Tried(combination, value, block) for block, combination, value in [*rows, (2, frozenset(), 0.0)]]
    apart = [Tried(one.combination, one.value) for one in tried]
    suspected = believe(2, tried).probability[frozenset({0})], believe(2, apart).probability[frozenset({0})]
    assert suspected[0] < suspected[1]


@pytest.mark.parametrize("prior", [Prior(), KNOWN])
def test_information_is_that_of_its_definition(prior: Prior) -> None:
    tried = [Tried(frozenset(), 1.0), Tried(frozenset({0, 1, 2}), 1.05), Tried(frozenset({0, 1}), 1.03)]
    found = weigh(3, tuple(tried), prior)
    taken = np.array([[True, False, False], [False, True, True], [True, True, True]])
    acting = found.sets.acting(taken)
    for row, told in zip(acting, information(found, acting.astype(np.float32)), strict=True):
        mean = np.where(row, found.bad, found.good)
        spread = np.where(row, found.bad_spread, found.good_spread)

        def entropy(density: Callable[[float], float]) -> float:
            def part(value: float) -> float:
                height = density(value)
                return -height * math.log2(height) if height > 0 else 0.0

            return float(integrate.quad(part, 0.0, 2.0, points=[1.0, 1.05], limit=400)[0])

        whole = entropy(lambda x, m=mean, s=spread: float(found.chance @ stats.norm.pdf(x, m, s)))
        own = sum(
            chance * 0.5 * math.log2(2 * math.pi * math.e * width**2)
            for chance, width in zip(found.chance, spread, strict=True)
        )
        if max(spread) < 0.2:  # the integral ends at 0 and 2
            assert told == pytest.approx(whole - own, abs=5e-3)


def test_the_next_launch_parts_the_sets_evenly() -> None:
    chosen = next_combination(8, [], believe(8, [], KNOWN))
    assert isinstance(chosen, frozenset)
    sets = believe(8, [], KNOWN).probability
    assert sum(chance for one, chance in sets.items() if one and one <= chosen) == pytest.approx(
        0.5, abs=0.06
    )


def test_ends_come_first_where_levels_are_unknown() -> None:
    tried: list[Tried] = []
    for _ in range(4):
        chosen = next_combination(5, tried, believe(5, tried))
        assert isinstance(chosen, frozenset)
        tried.append(Tried(chosen, 0.05 * bool(chosen)))
    assert [len(one.combination) for one in tried] == [0, 5, 0, 5]
    chosen = next_combination(5, tried, believe(5, tried))
    assert isinstance(chosen, frozenset) and 0 < len(chosen) < 5


def campaign(
    culprit: Combination,
    random: np.random.Generator,
    prior: Prior,
    *,
    count: int = 12,
    shift: float = 0.04,
    unbuildable: Callable[[Combination], bool] | set[Combination] = frozenset(),  # type: ignore[assignment]
) -> tuple[Stop | Combination, list[Tried]]:
    tried: list[Tried] = []
    while len(tried) < 200:
        chosen = next_combination(count, tried, believe(count, tried, prior), unbuildable=unbuildable)
        if isinstance(chosen, Stop):
            return chosen, tried
        tried.append(Tried(chosen, 1.0 + shift * (culprit <= chosen) + random.normal(0, 0.02)))
    return tried[-1].combination, tried


@pytest.mark.parametrize(("size", "prior", "most"), [(1, KNOWN, 13), (2, KNOWN, 22), (1, Prior(), 25)])
def test_campaigns_find_the_culprit(size: int, prior: Prior, most: int) -> None:
    random = np.random.default_rng(17)
    right, launches = 0, 0
    for _ in range(20):
        culprit = frozenset(random.choice(12, size, replace=False).tolist())
        stop, tried = campaign(culprit, random, prior)
        assert isinstance(stop, Stop) and stop.reason == "confident"
        right += stop.left[0] == culprit
        launches += len(tried)
    assert right >= 18
    assert launches / 20 <= most


def test_many_factors_and_a_triple() -> None:
    random = np.random.default_rng(4)
    culprit = frozenset({3, 9, 17})
    stop, _ = campaign(culprit, random, Prior(by_size=(0.5, 0.3, 0.2)), count=20, shift=0.3)
    assert stop == Stop("confident", (culprit,))


def test_two_equal_stacks_are_told_so() -> None:
    stop, tried = campaign(
        frozenset({0}), np.random.default_rng(1), Prior(nothing=0.1, least_shift=0.03), shift=0.0
    )
    assert isinstance(stop, Stop) and (stop.reason, stop.left[0]) == ("no change", frozenset())
    assert len(tried) < 150


def test_nothing_unbuildable_is_asked_for() -> None:
    def conflicts(one: Combination) -> bool:
        return (2 in one) != (5 in one)  # two packages that need each other's version

    culprit = frozenset({2})
    stop, tried = campaign(culprit, np.random.default_rng(2), KNOWN, unbuildable=conflicts)
    assert isinstance(stop, Stop)
    assert not any(conflicts(one.combination) for one in tried)
    # The two always go together, so nothing tells one from the other.
    assert stop.reason == "exhausted"
    assert {frozenset({2}), frozenset({5})} <= set(stop.left)


def failures(seed: int, *, learning: bool) -> int:
    """Failed builds of a campaign in which two factors only build together, and so do two others."""
    random, failed = np.random.default_rng(seed), set[Combination]()
    tried: list[Tried] = []
    while True:
        unbuildable = failed if learning else failed.__contains__
        chosen = next_combination(12, tried, believe(12, tried, KNOWN), unbuildable=unbuildable)
        if isinstance(chosen, Stop):
            assert chosen.left[0] == frozenset({4, 7})
            return len(failed)
        assert chosen not in failed
        if len(chosen & {0, 1}) == 1 or len(chosen & {2, 3}) == 1:
            failed.add(chosen)
        else:
            tried.append(Tried(chosen, 1.0 + 0.08 * (chosen >= {4, 7}) + random.normal(0, 0.02)))


def test_failures_teach_what_else_would_fail() -> None:
    taught = sum(failures(seed, learning=True) for seed in range(4))
    untaught = sum(failures(seed, learning=False) for seed in range(4))
    assert taught < untaught / 1.5


def test_a_failure_that_nothing_explains_is_not_asked_for_again() -> None:
    """Each factor that it takes was launched beside each that it leaves."""
    tried = [Tried(frozenset({0, 2}), 1.04), Tried(frozenset({0, 1}), 1.04), Tried(frozenset({1, 2}), 1.0)]
    belief = believe(3, tried, KNOWN)
    assert belief.best == frozenset({0})
    chosen = next_combination(3, tried, belief, 0.9999, unbuildable={frozenset({0}), frozenset({0, 1, 2})})
    assert chosen not in ({0}, {0, 1, 2})


def test_costs_are_weighed() -> None:
    cheap = frozenset({0, 1, 2})
    belief = believe(8, [], KNOWN)
    free = next_combination(8, [], belief)
    priced = next_combination(8, [], belief, cost=lambda one: 1.0 if one == cheap else 50.0)
    assert free != cheap
    assert priced == cheap


def test_swaps_check_in_both_directions() -> None:
    assert factors.swaps(frozenset({1, 3}), 5) == (frozenset({1, 3}), frozenset({0, 2, 4}))


@pytest.mark.parametrize(
    ("count", "tried", "prior", "said"),
    [
        (0, [], Prior(), "don't differ"),
        (3, [Tried(frozenset({3}), 1.0)], Prior(), "3 factors, numbered from 0"),
        (3, [Tried(frozenset(), math.nan)], Prior(), "not a number"),
        (3, [], Prior(weights=(1.0, 2.0)), "needs a weight"),
        (80, [], Prior(by_size=(0.5, 0.3, 0.2)), "more than 25,000"),
    ],
)
def test_bad_input(count: int, tried: list[Tried], prior: Prior, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        believe(count, tried, prior)
