"""Which set of factors acts: against a slow reference, and in whole campaigns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from benchharness.bisect import factors
from benchharness.bisect.factors import (
    Combination,
    Form,
    Hypothesis,
    Prior,
    Stop,
    Tried,
    believe,
    next_combination,
)
from benchharness.bisect.factors.belief import BLOCK_RATIOS, weigh
from benchharness.bisect.factors.choice import information
from benchharness.bisect.factors.hypotheses import LEVELS, SHARES
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


Shown = Callable[[Combination], float]
"""What a combination shows of the shift."""


def written_out(count: int, prior: Prior) -> Iterator[tuple[Hypothesis, Shown, float]]:
    """Everything that may be to blame of three factors at most, with its chance."""
    acting = 1 - prior.nothing
    yield Hypothesis(()), lambda _: 0.0, prior.nothing
    parted = prior.added + prior.either
    for size, chance in enumerate(prior.by_size, 1):
        sets = [frozenset(one) for one in itertools.combinations(range(count), size)]
        for one in sets:
            whole = acting * (1 - parted) * chance / len(sets)
            yield Hypothesis((one,)), lambda taken, one=one: float(one <= taken), whole
    singles = [frozenset({factor}) for factor in range(count)]
    pairs = list(itertools.combinations(singles, 2))
    apart = [(frozenset(range(count)) - one, one) for one in singles]
    few = (0.35, 0.5, 0.65)
    for parts, shares, rows, weight in ((pairs, SHARES, pairs, 0.8), (apart, few, [*apart, singles], 0.2)):
        for pair in parts:
            for share in shares:
                each = weight * acting * prior.added / len(parts) / len(shares)
                yield (
                    Hypothesis(pair, Form.ADDED),
                    lambda taken, pair=pair, share=share: (
                        share * (pair[0] <= taken) + (1 - share) * (pair[1] <= taken)
                    ),
                    each,
                )
        for row in rows:
            either = Hypothesis(tuple(row), Form.EITHER)
            shown = lambda taken, row=row: float(any(part <= taken for part in row))  # noqa: E731
            yield either, shown, weight * acting * prior.either / len(rows)


def reference(count: int, tried: list[Tried], prior: Prior) -> dict[Hypothesis, float]:
    """Level, deviation and shift integrated out on grids, with the covariance of every launch written out."""
    values = np.array([one.value for one in tried])
    blocks = [one.block for one in tried]
    known = [block for block in blocks if block is not None]
    ratios = BLOCK_RATIOS if 1 < len(set(known)) < len(known) else (0.0,)
    levels = np.linspace(values.min() - 1, values.max() + 1, 801)
    deviations = np.geomspace(5e-3, 1, 90)
    shifts = np.geomspace(prior.least_shift, prior.most_shift, 60)
    shape, scale = prior.deviation_launches / 2, prior.deviation_launches * prior.deviation**2 / 2
    weight = stats.invgamma(shape, scale=scale).pdf(deviations**2) * 2 * deviations**2  # of the logarithm
    found: dict[Hypothesis, float] = {}
    for one, shown, chance in written_out(count, prior):
        evidence = 0.0
        for ratio in ratios:
            same = np.array([[a is not None and a == b for b in blocks] for a in blocks], dtype=float)
            inverse = np.linalg.inv(np.eye(len(values)) + ratio * same)
            for shift, part in zip(shifts, prior.chance_of(shifts), strict=True):
                acts = np.array([shown(other.combination) for other in tried])
                rest = (values - shift * acts)[:, None] - levels
                squares = np.einsum("il,ij,jl->l", rest, inverse, rest)
                for deviation, height in zip(deviations, weight, strict=True):
                    density = np.exp(-squares / (2 * deviation**2)).sum()
                    norm = np.sqrt(np.linalg.det(inverse)) / deviation ** len(values)
                    evidence += part * height * norm * density
        found[one] = found.get(one, 0.0) + chance * evidence
    total = sum(found.values())
    return {one: value / total for one, value in found.items()}


@pytest.mark.parametrize("blocks", [False, True])
def test_the_posterior_is_that_of_a_slow_reference(blocks: bool) -> None:
    random = np.random.default_rng(5)
    prior = Prior(
        by_size=(0.7, 0.3),
        added=0.2,
        either=0.1,
        least_shift=0.03,
        most_shift=0.3,
        deviation=0.04,
        deviation_launches=3.0,
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
        parts: dict[Combination, float] = {}
        for one, probability in slow.items():
            for part in one.parts:
                parts[part] = parts.get(part, 0.0) + probability
        assert found.best == max(parts, key=lambda part: parts[part])
        assert found.confidence == pytest.approx(parts[found.best], abs=5e-3)


@settings(deadline=None)
@given(LAUNCHES, st.sampled_from([Prior(), KNOWN, Prior(by_size=(0.6, 0.3, 0.1))]))
def test_probabilities_sum_to_one(tried: list[Tried], prior: Prior) -> None:
    found = believe(K, tried, prior)
    assert sum(found.probability.values()) == pytest.approx(1)
    assert all(0 <= one <= 1 for one in (*found.probability.values(), *found.marginal))
    nothing = found.probability[Hypothesis(())]
    assert found.confidence == (found.parts[found.best] if found.best else nothing)
    assert found.confidence == max(nothing, *found.parts.values())
    for part, chance in found.parts.items():
        assert chance == pytest.approx(sum(p for one, p in found.probability.items() if part in one.parts))
    assert found.shift.low <= found.shift.middle <= found.shift.high
    for factor, marginal in enumerate(found.marginal):
        assert marginal == pytest.approx(
            sum(p for one, p in found.probability.items() if factor in one.factors)
        )


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
    first, second = believe(K, tried), believe(K, other)
    assert all(chance == pytest.approx(second.parts[renamed(one)]) for one, chance in first.parts.items())
    by_name = {(frozenset(one.parts), one.form): chance for one, chance in second.probability.items()}
    for one, chance in first.probability.items():
        parts = frozenset(renamed(part) for part in one.parts)
        assert chance == pytest.approx(by_name[parts, one.form], abs=1e-9)


def test_before_the_first_launch_only_the_prior_speaks() -> None:
    prior = Prior(by_size=(0.75, 0.25), added=0.1, either=0.1, nothing=0.1, weights=(1.0, 2.0, 1.0))
    found = believe(3, [], prior).probability
    one, other = frozenset({0}), frozenset({2})
    assert found[Hypothesis(())] == pytest.approx(0.1)
    assert found[Hypothesis((frozenset({1}),))] == pytest.approx(0.9 * 0.8 * 0.75 * 0.5)
    assert found[Hypothesis((one | other,))] == pytest.approx(0.9 * 0.8 * 0.25 * 0.2)
    assert found[Hypothesis((one, other), Form.ADDED)] == pytest.approx(0.9 * 0.1 * 0.8 * 0.2)
    assert found[Hypothesis((one, other), Form.EITHER)] == pytest.approx(0.9 * 0.1 * 0.8 * 0.2)


def test_without_several_parts_none_is_weighed() -> None:
    found = believe(3, [], Prior(added=0.0, either=0.0)).probability
    assert {one.form for one in found} == {Form.TOGETHER}
    assert len(found) == 3 + 3 + 1


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
    suspected = believe(2, tried).parts[frozenset({0})], believe(2, apart).parts[frozenset({0})]
    assert suspected[0] < suspected[1]


@pytest.mark.parametrize("prior", [Prior(), KNOWN])
def test_information_is_that_of_its_definition(prior: Prior) -> None:
    tried = [Tried(frozenset(), 1.0), Tried(frozenset({0, 1, 2}), 1.05), Tried(frozenset({0, 1}), 1.03)]
    found = weigh(3, tuple(tried), prior)
    taken = np.array([[True, False, False], [False, True, True], [True, True, True]])
    shown = found.sets.levels(taken)
    assert set(np.unique(shown)) == set(range(len(LEVELS)))
    for row, told in zip(shown, information(found, shown), strict=True):
        mean = found.mean[np.arange(len(row)), row]
        spread = found.spread[np.arange(len(row)), row]

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
    parts = believe(8, [], KNOWN).parts
    whole = sum(parts.values())
    assert sum(chance for one, chance in parts.items() if one <= chosen) / whole == pytest.approx(
        0.5, abs=0.1
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


Truth = Callable[[Combination], float]

SEVERAL: dict[str, tuple[Truth, set[Combination]]] = {
    "6 + 4": (lambda c: 0.06 * (0 in c) + 0.04 * (1 in c), {frozenset({0}), frozenset({1})}),
    "5 + 5": (lambda c: 0.05 * (0 in c) + 0.05 * (1 in c), {frozenset({0}), frozenset({1})}),
    "8 + 2": (lambda c: 0.08 * (0 in c) + 0.02 * (1 in c), {frozenset({0}), frozenset({1})}),
    "either of two": (lambda c: 0.1 * bool({0, 1} & c), {frozenset({0}), frozenset({1})}),
    "any of three": (lambda c: 0.1 * bool({0, 1, 2} & c), {frozenset({one}) for one in range(3)}),
}


@pytest.mark.parametrize(
    ("name", "most"), [("6 + 4", 21), ("5 + 5", 25), ("8 + 2", 14), ("either of two", 18)]
)
def test_of_several_culprits_one_is_named_and_never_a_pair_that_acts_together(name: str, most: float) -> None:
    """Eight factors; a launch deviates by 2 %."""
    truth, right = SEVERAL[name]
    random = np.random.default_rng(23)
    named, launches = 0, 0
    for _ in range(12):
        tried: list[Tried] = []
        while not isinstance(chosen := next_combination(8, tried, believe(8, tried)), Stop):
            tried.append(Tried(chosen, truth(chosen) + random.normal(0, 0.02)))
        assert chosen.reason == "confident"
        named += chosen.left[0] in right
        launches += len(tried)
    assert named >= 11
    assert launches / 12 <= most


def test_any_of_three_is_found_by_exact_launches() -> None:
    truth, right = SEVERAL["any of three"]
    tried = [
        Tried(one, truth(one))
        for size in range(4)
        for one in map(frozenset, itertools.combinations(range(5), size))
    ]
    found = believe(5, tried)
    assert found.probability[Hypothesis(tuple(sorted(right, key=min)), Form.EITHER)] > 0.9
    assert found.best in right and found.confidence > 0.99


def test_the_shift_of_a_culprit_is_its_own() -> None:
    random = np.random.default_rng(7)
    sets = [frozenset(one) for size in range(4) for one in itertools.combinations(range(3), size)] * 6
    truth, _ = SEVERAL["6 + 4"]
    found = believe(3, [Tried(one, truth(one) + random.normal(0, 0.004)) for one in sets])
    assert found.best in (frozenset({0}), frozenset({1}))
    assert min(found.parts[frozenset({0})], found.parts[frozenset({1})]) > 0.95
    assert found.shift.middle == pytest.approx(0.06 if 0 in found.best else 0.04, abs=0.012)


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
    prior = replace(KNOWN, shift=0.08)
    random, failed = np.random.default_rng(seed), set[Combination]()
    tried: list[Tried] = []
    while True:
        unbuildable = failed if learning else failed.__contains__
        chosen = next_combination(12, tried, believe(12, tried, prior), unbuildable=unbuildable)
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
