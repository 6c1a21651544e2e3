"""A gate's logic: intervals against bounds, and which outcome of many counts."""

from __future__ import annotations

import math

import pytest

from benchharness import gate
from benchharness.gate import Outcome, Seen
from benchharness.spec import thresholds

CELLS = (("a", 128), ("a", 2048), ("b", 128))


def held(text: str, seen: Seen | None, changes: Seen | None = None) -> gate.GateFinding:
    demanded = thresholds.parse(f"bounds: {{verify_ms: {text}}}")
    cell = ("a", 128, "verify_ms")
    (finding,) = gate.judge(
        demanded, [("a", 128)], {cell: seen} if seen else {}, {cell: changes} if changes else {}
    )
    return finding


@pytest.mark.parametrize(
    ("text", "low", "high", "outcome"),
    [
        ('"<= 21"', 19, 21, Outcome.PASSED),
        ('"<= 21"', 21.01, 23, Outcome.FAILED),
        ('"<= 21"', 20.9, 21.1, Outcome.UNDECIDED),
        ('">= 80"', 80, 90, Outcome.PASSED),
        ('">= 80"', 70, 79.9, Outcome.FAILED),
        ('">= 80"', -math.inf, math.inf, Outcome.UNDECIDED),
        ('"<= 21"', math.nan, math.nan, Outcome.UNDECIDED),
    ],
)
def test_a_bound_is_decided_where_the_whole_interval_lies_on_one_side(
    text: str, low: float, high: float, outcome: Outcome
) -> None:
    assert held(text, Seen(20, low, high, 3)).outcome == outcome


def test_a_relative_bound_looks_at_the_change_alone() -> None:
    fine, worse = Seen(0.01, 0.0, 0.02, 5), Seen(0.05, 0.04, 0.06, 5)
    assert held('"+3 %"', Seen(99, 98, 100, 5), fine).outcome == Outcome.PASSED
    assert held('"+3 %"', Seen(1, 1, 1, 5), worse).outcome == Outcome.FAILED
    assert held('"3 %"', None, worse).outcome == Outcome.FAILED
    assert held('"-3 %"', None, Seen(-0.05, -0.06, -0.04, 5)).outcome == Outcome.FAILED


def test_what_was_not_measured_is_invalid_and_says_why() -> None:
    assert held('"<= 21"', None).outcome == Outcome.INVALID
    said = held('"<= 21"', Seen(math.nan, math.nan, math.nan, 0, "no valid trial"))
    assert (said.outcome, said.reason) == (Outcome.INVALID, "no valid trial")


def test_bounds_hold_for_the_cells_that_they_name() -> None:
    demanded = thresholds.parse(
        'bounds: {verify_ms: ["<= 1", {max: 2, stack: a}, {max: 3, context_tokens: 128, stack: [a, b]}]}'
    )
    cells = [(f.bound.value, f.stack, f.context_tokens) for f in gate.judge(demanded, CELLS, {}, {})]
    assert cells == [
        *((1, *cell) for cell in CELLS),
        (2, "a", 128),
        (2, "a", 2048),
        (3, "a", 128),
        (3, "b", 128),
    ]


@pytest.mark.parametrize(
    ("outcomes", "undecided", "valid", "expected"),
    [
        ("p", "fail", True, Outcome.PASSED),
        ("pf", "fail", True, Outcome.FAILED),
        ("pu", "fail", True, Outcome.UNDECIDED),
        ("pu", "warn", True, Outcome.PASSED),
        ("puf", "pass", True, Outcome.FAILED),
        ("pufi", "pass", True, Outcome.INVALID),
        ("p", "fail", False, Outcome.INVALID),
        ("", "fail", True, Outcome.INVALID),
    ],
)
def test_the_worst_outcome_counts(outcomes: str, undecided: str, valid: bool, expected: Outcome) -> None:
    seen = {
        "p": Seen(1, 1, 1, 3),
        "f": Seen(9, 9, 9, 3),
        "u": Seen(2, 1, 9, 3),
        "i": Seen(math.nan, 0, 0, 0),
    }
    demanded = thresholds.parse(f'undecided: {undecided}\nbounds: {{verify_ms: "<= 5"}}')
    values = {(letter, 128, "verify_ms"): seen[letter] for letter in outcomes}
    found = gate.judge(demanded, [(letter, 128) for letter in outcomes], values, {})
    assert gate.verdict(found, demanded, valid=valid) == expected


def test_an_invalid_run_is_judged_where_the_thresholds_allow_it() -> None:
    demanded = thresholds.parse('require: any\nbounds: {verify_ms: "<= 5"}')
    values = {("a", 128, "verify_ms"): Seen(1, 1, 1, 3)}
    found = gate.judge(demanded, [("a", 128), ("b", 128)], values, {})
    assert [one.outcome for one in found] == [Outcome.PASSED, Outcome.INVALID]
    assert gate.verdict(found, demanded, valid=False) == Outcome.PASSED


def test_a_bound_may_say_for_itself_what_undecided_means() -> None:
    demanded = thresholds.parse(
        "undecided: warn\nbounds: {verify_ms: {max: 5, undecided: fail}, draft_ms: {max: 5}}"
    )
    unsure, fine = Seen(2, 1, 9, 3), Seen(1, 1, 1, 3)

    def ended(verify: Seen, draft: Seen) -> Outcome:
        values = {("a", 128, "verify_ms"): verify, ("a", 128, "draft_ms"): draft}
        return gate.verdict(gate.judge(demanded, [("a", 128)], values, {}), demanded, valid=True)

    assert ended(fine, unsure) == Outcome.PASSED
    assert ended(unsure, fine) == Outcome.UNDECIDED
