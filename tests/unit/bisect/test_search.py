"""Properties of the search that hold for whatever was measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchharness.bisect.search import (
    Axis,
    Limits,
    Move,
    Observation,
    Prices,
    Prior,
    Reason,
    Stop,
    believe,
    next_move,
)
from benchharness.errors import UsageError

PRICES = Prices(420.0, 120.0, 15.0)


@st.composite
def campaigns(draw: st.DrawFn) -> tuple[Axis, list[Observation]]:
    """An axis with points that can't be used, both ends measured, and more launches."""
    points = draw(st.integers(3, 40))
    unusable = draw(st.frozensets(st.integers(1, points - 2), max_size=points - 2))
    usable = [point for point in range(points) if point not in unusable]
    places = [0, points - 1, *draw(st.lists(st.sampled_from(usable), max_size=12))]
    shown = []
    for place in places:
        repeats = draw(st.integers(1, 6))
        scatter = draw(st.floats(0, 2)) if repeats > 1 else 0.0
        shown.append(Observation(place, draw(st.floats(-3, 3)), repeats, scatter, draw(st.integers(0, 4))))
    return Axis(points, unusable), shown


@settings(max_examples=60, deadline=None)
@given(campaigns())
def test_the_posterior_sums_to_one_and_gaps_hold_their_positions(
    campaign: tuple[Axis, list[Observation]],
) -> None:
    axis, shown = campaign
    belief = believe(axis, shown)
    assert belief.probability.shape == (axis.points - 1,)
    assert (belief.probability >= 0).all()
    assert belief.probability.sum() == pytest.approx(1)
    for gap, (low, high) in zip(
        belief.gaps, zip(belief.usable, belief.usable[1:], strict=False), strict=True
    ):
        assert gap == pytest.approx(belief.probability[low:high].sum())
        # Nothing can tell the positions of one gap apart.
        assert np.ptp(belief.probability[low:high]) == pytest.approx(0)


@settings(max_examples=60, deadline=None)
@given(campaigns(), st.randoms(use_true_random=False))
def test_the_order_of_observations_does_not_matter(campaign, shuffle) -> None:  # type: ignore[no-untyped-def]
    axis, shown = campaign
    other = list(shown)
    shuffle.shuffle(other)
    np.testing.assert_allclose(
        believe(axis, shown).probability, believe(axis, other).probability, rtol=1e-6, atol=1e-9
    )


@settings(max_examples=60, deadline=None)
@given(campaigns(), st.floats(-5, 5), st.sampled_from([1.0, -1.0]))
def test_levels_and_signs_do_not_matter(campaign, offset: float, sign: float) -> None:  # type: ignore[no-untyped-def]
    axis, shown = campaign
    moved = [
        Observation(one.point, sign * one.value + offset, one.repeats, one.scatter, one.block)
        for one in shown
    ]
    # Launches that agree exactly leave sums of squares that are rounding alone.
    np.testing.assert_allclose(
        believe(axis, shown).probability, believe(axis, moved).probability, rtol=2e-3, atol=1e-7
    )


@settings(max_examples=60, deadline=None)
@given(campaigns(), st.booleans())
def test_only_usable_points_are_chosen(campaign: tuple[Axis, list[Observation]], runs: bool) -> None:
    axis, shown = campaign
    belief = believe(axis, shown)
    move = next_move(axis, shown, belief, PRICES, running=len(shown) - 1 if runs else None)
    if isinstance(move, Move):
        assert move.point in set(axis.usable().tolist())
        assert move.beside in (None, 0, axis.points - 1)
        assert move.repeats >= 1
        assert not move.stay or (runs and move.point == shown[-1].point)
    else:
        assert {move.good, move.bad}.isdisjoint(axis.unusable)
        assert move.good < move.bad


@settings(max_examples=60, deadline=None)
@given(campaigns(), st.floats(0.01, 1.0))
def test_a_range_holds_what_it_says_and_no_shorter_one_does(campaign, confidence: float) -> None:  # type: ignore[no-untyped-def]
    axis, shown = campaign
    belief = believe(axis, shown)
    good, bad = belief.range_(confidence)
    assert belief.probability[good:bad].sum() >= confidence - 1e-9
    usable = axis.usable()
    for low in usable:
        for high in usable:
            if 0 < high - low < bad - good:
                assert belief.probability[low:high].sum() < confidence + 1e-9


def test_both_ends_come_first_in_one_block() -> None:
    axis = Axis(9)
    move = next_move(axis, [], believe(axis, []), PRICES)
    assert isinstance(move, Move)
    assert (move.point, move.beside, move.stay) == (0, 8, False)
    only = [Observation(0, 1.0)]
    second = next_move(axis, only, believe(axis, only), PRICES)
    assert isinstance(second, Move)
    assert second.point == 8


def test_where_levels_are_known_the_middle_comes_first() -> None:
    axis = Axis(9)
    prior = Prior(good=0.0, shift=1.0, good_weight=1e5, shift_weight=1e5, direction=1)
    move = next_move(axis, [], believe(axis, [], prior), PRICES, prior=prior)
    assert isinstance(move, Move)
    assert (move.point, move.beside) == (4, None)


def test_only_unusable_points_between_is_a_range() -> None:
    axis = Axis(10, frozenset({4, 5, 6}))
    noise = np.random.default_rng(3).normal(0, 0.01, 12)
    places = [0, 9, 3, 7, 3, 7, 3, 7, 0, 9, 3, 7]
    shown = [Observation(p, float(e + (p > 5))) for p, e in zip(places, noise, strict=True)]
    stop = next_move(axis, shown, believe(axis, shown), PRICES)
    assert isinstance(stop, Stop)
    assert (stop.reason, stop.good, stop.bad) == (Reason.RANGE, 3, 7)


def test_found_names_neighbours() -> None:
    axis = Axis(10)
    noise = np.random.default_rng(3).normal(0, 0.01, 8)
    shown = [Observation(p, float(e + (p > 5))) for p, e in zip([0, 9, 5, 6, 5, 6, 5, 6], noise, strict=True)]
    belief = believe(axis, shown)
    stop = next_move(axis, shown, belief, PRICES)
    assert isinstance(stop, Stop)
    assert (stop.reason, stop.good, stop.bad, belief.best) == (Reason.FOUND, 5, 6, 6)
    assert belief.low < 1 < belief.high


def test_the_budget_ends_a_campaign_before_it_is_overdrawn() -> None:
    axis = Axis(9)
    dear = next_move(axis, [], believe(axis, []), PRICES, limits=Limits(budget_s=900.0))
    assert isinstance(dear, Stop)
    assert dear.reason == Reason.CANNOT_TELL
    paid = next_move(axis, [], believe(axis, []), PRICES, limits=Limits(budget_s=960.0))
    assert isinstance(paid, Move)


def test_no_change_at_all_can_not_be_told() -> None:
    axis = Axis(9)
    random = np.random.default_rng(5)
    shown = [Observation(p, float(random.normal())) for p in [0, 8] * 20]
    stop = next_move(axis, shown, believe(axis, shown), PRICES, limits=Limits(launches=40))
    assert isinstance(stop, Stop)
    assert stop.reason == Reason.CANNOT_TELL


def test_a_broken_stretch_is_leapt_over() -> None:
    axis, launches, unusable = Axis(200), [Observation(0, 0.0), Observation(199, 5.0)], set()
    shown = [*launches, Observation(0, 0.1), Observation(199, 5.1)]
    for _ in range(20):
        broken = Axis(axis.points, frozenset(unusable))
        move = next_move(broken, shown, believe(broken, shown), PRICES)
        assert isinstance(move, Move)
        if not 60 <= move.point < 140:
            break
        unusable.add(move.point)
    assert len(unusable) <= 8  # of 80 in a row that can't be used


def test_repeats_grow_as_launches_agree_and_repeats_do_not() -> None:
    axis = Axis(64)
    random = np.random.default_rng(2)

    def repeats(between: float, within: float) -> int:
        shown = []
        for place in [0, 63] * 5:
            values = (place > 30) * 2 + random.normal(0, between) + random.normal(0, within, 8)
            scatter = float(((values - values.mean()) ** 2).sum())
            shown.append(Observation(place, float(values.mean()), 8, scatter))
        move = next_move(axis, shown, believe(axis, shown), PRICES)
        assert isinstance(move, Move)
        return move.repeats

    assert repeats(0.05, 2.0) > 3 * repeats(1.0, 0.1)


def test_wrong_input_is_refused() -> None:
    for points, unusable in ((1, frozenset[int]()), (5, frozenset({0})), (5, frozenset({4}))):
        with pytest.raises(UsageError):
            Axis(points, unusable)
    with pytest.raises(UsageError, match="no usable point"):
        believe(Axis(5, frozenset({2})), [Observation(2, 0.0)])
    with pytest.raises(UsageError):
        Prior(shift=-1.0)
    with pytest.raises(UsageError):
        believe(Axis(5), [], Prior(positions=[0.0]))
