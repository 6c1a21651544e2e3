"""Where the time went: the articles' own figures, and identities that must hold for any."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchharness import attribution
from benchharness.attribution import Account, account, waterfall


def of(tok_s: float, accept: float, cycle_ms: float, **phases: float) -> Account:
    means = {"decode_tok_s": tok_s, "accept_length": accept, "cycle_ms": cycle_ms}
    made = account(means | {f"{name}_ms": value for name, value in phases.items()})
    assert made is not None
    return made


def causes(baseline: Account, candidate: Account) -> dict[str, float]:
    return {step.cause: step.tok_s for step in waterfall(baseline, candidate)}


def test_t22_the_articles_overhead_is_six_and_ten_percent() -> None:
    before, after = of(94, 2.0, 20), of(60, 2.0, 30)
    assert before.ceiling_tok_s == pytest.approx(100)
    assert before.overhead == pytest.approx(0.06)
    assert after.overhead == pytest.approx(0.10)
    # A client can't see more than the cycles produce: such a run contradicts itself.
    assert of(110, 2.0, 20).overhead < 0


def test_t22_the_articles_loss_is_the_verify_and_not_acceptance() -> None:
    before = of(94, 2.0, 20, draft=0.7, verify=19.0)
    after = of(60, 2.0, 30, draft=0.7, verify=29.0)
    steps = waterfall(before, after)
    assert sum(step.tok_s for step in steps) == pytest.approx(60 - 94)
    main = attribution.main_cause(steps)
    assert main is not None and main.cause == "verify"
    assert main.ms == pytest.approx(10)
    named = causes(before, after)
    assert named["accept length"] == named["draft"] == 0
    assert named["verify"] == pytest.approx(-34 * math.log(1.5) / math.log(94 / 60))


def test_t14_a_longer_cycle_and_a_lost_acceptance_are_told_apart() -> None:
    longer = causes(of(62, 2.6, 40, verify=36), of(24.5, 2.6, 100, verify=96))
    assert longer["accept length"] == 0
    assert longer["verify"] < 0 and abs(longer["verify"]) > 10 * abs(longer["overhead"])
    lost = causes(of(72, 3.04, 40, verify=36), of(51.4, 2.17, 40, verify=36))
    assert lost["verify"] == 0
    assert lost["accept length"] == pytest.approx(51.4 - 72, abs=0.2)


def test_t14_positions_collapse_from_the_second() -> None:
    before = attribution.acceptance_by_position([4] * 50 + [3] * 20 + [2] * 14 + [1] * 16)
    after = attribution.acceptance_by_position([4] * 2 + [3] * 6 + [2] * 75 + [1] * 17)
    assert [one.rate for one in before] == pytest.approx([0.84, 70 / 84, 50 / 70])
    assert attribution.collapses_from(before, after) == 2
    assert attribution.collapses_from(before, before) is None
    none_left = attribution.acceptance_by_position([1] * 9)
    assert none_left == ()
    assert attribution.collapses_from(before, none_left) == 1


def test_t23_break_even() -> None:
    assert attribution.break_even_accept_length(30, 82) == pytest.approx(2.46)
    assert attribution.break_even_accept_length(29, 82) == pytest.approx(2.38, abs=0.005)
    assert attribution.gain(2.0, 30, 82) == pytest.approx(-0.19, abs=0.005)
    assert attribution.needed_accept_length(94, 20, overhead=0.06) == pytest.approx(2.0)


SPEEDS = st.floats(1, 1000)
ACCEPTS = st.floats(1, 8)
PHASE = st.floats(0.01, 50)


@st.composite
def accounts(draw: st.DrawFn) -> Account:
    phases = {
        name: draw(PHASE) for name in draw(st.sets(st.sampled_from(["draft", "verify", "draft_extend"])))
    }
    cycle = sum(phases.values()) + draw(PHASE)
    return of(draw(SPEEDS), draw(ACCEPTS), cycle, **phases)


@given(accounts(), accounts())
def test_a_waterfall_adds_up_and_turns_its_signs_when_the_sides_are_swapped(
    one: Account, other: Account
) -> None:
    there, back = waterfall(one, other), waterfall(other, one)
    assert sum(step.tok_s for step in there) == pytest.approx(other.tok_s - one.tok_s, abs=1e-6)
    assert [step.tok_s for step in there] == pytest.approx([-step.tok_s for step in back], abs=1e-6)
    cycle = [step.ms for step in there if math.isfinite(step.ms)]
    assert sum(cycle) == pytest.approx(other.cycle_ms - one.cycle_ms, abs=1e-9)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=200))
def test_positions_add_up_to_the_accept_length(tokens: list[int]) -> None:
    positions = attribution.acceptance_by_position(tokens)
    assert 1 + sum(one.share for one in positions) == pytest.approx(sum(tokens) / len(tokens))


def test_an_account_needs_speed_and_cycles() -> None:
    assert account({"decode_tok_s": 50.0, "accept_length": 2.0}) is None
    assert account({"decode_tok_s": math.nan, "accept_length": 2.0, "cycle_ms": 20.0}) is None


def test_the_slope_with_context() -> None:
    found = attribution.slope([128, 2048, 8192, 512], [5.1, 7.02, 13.164, math.nan])
    assert found is not None
    assert (found.at_zero, found.per_1k_tokens) == pytest.approx((4.972, 1.0))
    assert found.at(2000) == pytest.approx(6.972)
    assert attribution.slope([128, 128], [1, 2]) is None
