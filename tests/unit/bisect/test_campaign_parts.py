"""The parts of a campaign: differences, further changes, swaps, and its state on disk."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchharness.bisect.session import campaign, deciding, difference, levels, state
from benchharness.bisect.session.deciding import Ended, Outcome, Wanted
from benchharness.bisect.session.effects import Effect
from benchharness.bisect.session.observed import Observed, scaled
from benchharness.bisect.session.phase import main_phase
from benchharness.bisect.session.question import Question
from benchharness.bisect.session.state import Leg, Place, Role, State, Step
from benchharness.bisect.session.swap_hunt import INTO_BAD, INTO_GOOD, SwapHunt
from benchharness.errors import UsageError


def seen(place: str, value: float, block: int = 0, role: Role = Role.SEARCH) -> Observed:
    return Observed(0, 0, role, place, block, place, 0, value)


# --- differences


def test_one_launch_borrows_the_spread_of_the_other_side() -> None:
    found = difference.between([0.0, 0.01, -0.01], [0.5], 0.05)
    assert found.known and found.decided(0.01)
    # Student's t with two degrees of freedom, of a spread of 0.01 over 3 launches and one.
    assert found.high - found.low == pytest.approx(2 * 4.3027 * 0.01 * math.sqrt(4 / 3), rel=1e-4)


def test_two_single_launches_tell_nothing() -> None:
    assert not difference.between([0.0], [0.5], 0.05).decided(0.5)


def test_counts_that_agree_exactly_are_told_apart_but_not_their_rounding() -> None:
    assert difference.between([1.0, 1.0], [1.1, 1.1], 0.05).decided(0.01)
    assert not difference.between([1.0, 1.0], [1.00005, 1.00005], 0.05).decided(0.01)


def test_a_slow_mode_drawn_at_the_start_is_taken_out_of_the_difference() -> None:
    slow = 0.48
    first = [0.0, slow, 0.01, slow + 0.01, slow]
    second = [0.1, 0.1 + slow, 0.11, 0.09, 0.1 + slow]
    found = difference.between(first, second, 0.05)
    assert found.mean == pytest.approx(0.1, abs=0.02)
    assert found.decided(0.05)


# --- more than one change


def values(*levels_: float) -> list[np.ndarray]:
    noise = np.array([0.0, 0.004, -0.004, 0.002])
    return [np.log(level) + noise if level else np.array([]) for level in levels_]


def test_points_that_are_like_neither_end_part_the_axis_at_the_larger_step() -> None:
    assert levels.between_ends(values(75, 0, 75.2, 142, 0, 142)) == (0, 5)
    assert levels.between_ends(values(142, 142, 0, 23, 0, 75)) == (0, 3)
    assert levels.between_ends(values(75, 0, 23, 0, 142, 142)) == (2, 5)
    exact = [np.log([one, one]) for one in (65.0, 65.0, 52.0, 50.0)]
    assert levels.between_ends(exact) == (0, 3)  # 50 is near enough to 52, of 65
    ramp = [np.log(one) + np.array([0.0, 1e-4, -1e-4]) for one in (726.0, 728.0, 737.0, 744.0, 751.0)]
    assert levels.between_ends(ramp) == (0, 2)


def test_a_point_that_is_not_as_the_end_of_its_side_is_told() -> None:
    assert list(levels.unlike_their_end(values(75, 0, 23, 142, 0, 142), [(2, 3)])) == [(2, 0)]
    assert list(levels.unlike_their_end(values(75, 0, 75.1, 142, 0, 142.2), [(2, 3)])) == []


# --- swaps


def swaps(observed: list[Observed]) -> SwapHunt:
    places = tuple(Place(label, label) for label in ("good", "good+x", "bad-x", "bad"))
    return SwapHunt(Leg("swap", "", "good", places), tuple(observed), 0.95, 1)


def test_a_swap_measures_both_directions_and_counts_confirmations() -> None:
    first = swaps([]).next()
    assert isinstance(first, Wanted) and first.reason == INTO_GOOD
    into_good = [
        seen(place, value + 0.001 * block, block, Role.SWAP)
        for block in (0, 1, 2)
        for place, value in (("good", 0.0), ("good+x", 0.3 + 0.001 * block))
    ]
    second = swaps(into_good).next()
    assert isinstance(second, Wanted) and second.reason == INTO_BAD
    confirmed = [
        seen(place, value + 0.001 * block, block + 5, Role.CONFIRM)
        for block in (0, 1, 2)
        for place, value in (("bad-x", 0.0), ("bad", 0.3 - 0.001 * block))
    ]
    last = swaps([*into_good, *confirmed]).next()
    assert isinstance(last, Ended) and last.outcome is Outcome.FOUND


def test_a_place_that_was_refused_is_not_asked_for_again() -> None:
    refused = replace(swaps([]).leg.places[1], unusable="no such argument")
    places = swaps([]).leg.places
    hunt = replace(swaps([]), leg=replace(swaps([]).leg, places=(places[0], refused, *places[2:])))
    coming = hunt.next()
    assert isinstance(coming, Wanted) and coming.reason == INTO_BAD
    end = Place("bad", "bad", unusable="no such argument")
    ended = deciding.check_ends(places[0], end, (), 0.95, 1)
    assert isinstance(ended, Ended) and ended.outcome is Outcome.UNUSABLE


def test_a_state_marks_a_place_that_was_refused() -> None:
    marked = campaign.refused(STATE, STATE.legs[0].places[1], "no such argument")
    assert [place.unusable for place in marked.legs[0].places] == ["", "no such argument"]


def test_a_swap_that_shows_nothing_is_no_proof() -> None:
    flat = [
        seen(place, 0.01 * ((block * 7 + shift) % 5), block, Role.SWAP)
        for block in range(8)
        for place, shift in (("good", 0), ("good+x", 3))
    ]
    ended = swaps(flat).next()
    assert isinstance(ended, Ended) and ended.outcome is Outcome.UNCONFIRMED


def test_blocks_with_another_partner_are_no_blocks_of_a_pair() -> None:
    """The good stack stands in the swap of every culprit."""
    other = [seen("good", 0.001 * block, block, Role.SWAP) for block in range(9)]
    both = [seen(place, value, 9, Role.SWAP) for place, value in (("good", 0.0), ("good+x", 0.3))]
    coming = swaps([*other, *both]).next()
    assert isinstance(coming, Wanted) and [place.label for place in coming.places] == ["good+x", "good"]


def test_where_the_fix_does_nothing_the_culprit_is_enough_by_itself_and_not_alone() -> None:
    into_good = [
        seen(place, value + 0.001 * block, block, Role.SWAP)
        for block in (0, 1, 2)
        for place, value in (("good", 0.0), ("good+x", 0.3 + 0.001 * block))
    ]
    into_bad = [
        seen(place, value, block, Role.SWAP)
        for block, noise in ((5, 0.004), (6, -0.004), (7, 0.001), (8, -0.001))
        for place, value in (("bad-x", 0.3 + noise), ("bad", 0.3 - noise))
    ]
    hunt = swaps([*into_good, *into_bad])
    ended = hunt.next()
    assert isinstance(ended, Ended) and ended.outcome is Outcome.FOUND
    assert hunt.masked and hunt.told_by[0] == INTO_GOOD
    assert "as slow without it" in ended.reason


# --- phases


def effect(metric: str, before: float, after: float) -> Effect:
    return Effect(128, metric, "", before, after, after / before - 1, 0, 0, 3, True)


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        ({"verify_ms": (20, 29), "cycle_ms": (24, 33)}, "verify"),
        ({"draft_ms": (2, 6), "cycle_ms": (24, 28)}, "draft"),
        ({"cycle_ms": (24, 30)}, "rest"),
        ({"accept_length": (2.6, 2.0)}, "acceptance"),
    ],
)
def test_the_phase_is_what_moves_the_speed_most(changes: dict[str, tuple[float, float]], phase: str) -> None:
    known = {"draft_ms": (2, 2), "verify_ms": (20, 20), "draft_extend_ms": (1, 1), "cycle_ms": (24, 24)}
    both = {**known, "accept_length": (2.0, 2.0), **changes}
    speeds = [1000 * both["accept_length"][i] / both["cycle_ms"][i] for i in (0, 1)]
    both["decode_tok_s"] = (speeds[0], speeds[1])
    assert main_phase([effect(name, *pair) for name, pair in both.items()], (128,)) == phase


def test_without_cycles_no_phase_is_named() -> None:
    assert main_phase([effect("ttft_ms", 10, 20)], (128,)) == ""


# --- the state on disk

QUESTION = Question("e", "axis", "commit", "a", "b", "s", "cycle_ms", (128,))
STATE = State(
    "id",
    QUESTION,
    (Leg("axis", "commit", "s", (Place("a", "a", {"source.commit": "a"}), Place("b", "b"))),),
    (Step(0, Role.ENDS, "a", 0, "why", 0),),
)


def test_a_state_is_the_same_after_it_was_read_back(tmp_path: Path) -> None:
    state.write(tmp_path, STATE)
    assert state.read(tmp_path) == STATE
    assert json.loads((tmp_path / state.FILE).read_text())["state_version"] == state.STATE_VERSION


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "state version None"),
        ('{"state_version": 7}', "state version 7"),
        ('{"state_version": 1}', "is damaged"),
    ],
)
def test_a_state_that_cannot_be_used_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / state.FILE).write_text(text)
    with pytest.raises(UsageError, match=words):
        state.read(tmp_path)


def test_only_a_launch_that_is_over_has_a_wall_time() -> None:
    ended = STATE.ended(0, 4.5)
    assert [step.seconds for step in ended.steps] == [4.5]
    assert replace(STATE, steps=()).ended(0, 4.5).steps == ()
    assert ended.ended(0, 9.0) == ended


def test_values_of_no_ratio_are_no_values() -> None:
    assert scaled("cycle_ms", 0.0) is None
    assert scaled("cycle_ms", math.nan) is None
    assert scaled("failed", 0.0) == 0.0
