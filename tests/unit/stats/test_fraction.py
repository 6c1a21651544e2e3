"""Effects over the cells of a fraction: against least squares done slowly, and by what leaks into them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchharness.stats import fraction
from benchharness.stats.fraction import Cell, Term

GRID = {"proto": ("LL", "LL128", "Simple"), "algo": ("Ring", "Tree"), "graphs": ("on", "off")}
FULL = [dict(zip(GRID, levels, strict=True)) for levels in itertools.product(*GRID.values())]
TERMS = fraction.terms(list(GRID), ["graphs"])


def solved(rows: list[list[Fraction]], values: list[Fraction]) -> list[Fraction]:
    """Least squares by the normal equations in exact fractions, Gauss and Jordan by hand."""
    width = len(rows[0])
    system = [
        [sum((row[i] * row[j] for row in rows), Fraction()) for j in range(width)]
        + [sum((row[i] * value for row, value in zip(rows, values, strict=True)), Fraction())]
        for i in range(width)
    ]
    for place in range(width):
        pivot = next(i for i in range(place, width) if system[i][place])
        system[place], system[pivot] = system[pivot], system[place]
        system[place] = [cell / system[place][place] for cell in system[place]]
        for i in range(width):
            if i != place:
                factor = system[i][place]
                system[i] = [a - factor * b for a, b in zip(system[i], system[place], strict=True)]
    return [row[width] for row in system]


def reference(cells: list[Cell], values: list[float], terms: tuple[Term, ...]) -> dict[str, float]:
    """The effects by dummy variables instead: differences between means over the fitted grid."""
    known = fraction.Coding.of(cells).levels

    def row(cell: Cell) -> list[Fraction]:
        made = [Fraction(1)]
        for term in terms:
            for chosen in itertools.product(*(known[factor][1:] for factor in term)):
                hit = all(cell[factor] == level for factor, level in zip(term, chosen, strict=True))
                made.append(Fraction(int(hit)))
        return made

    found = solved([row(cell) for cell in cells], [Fraction(value) for value in values])

    def mean(**fixed: str) -> Fraction:
        grid = [
            dict(zip(known, chosen, strict=True))
            for chosen in itertools.product(*known.values())
            if all(dict(zip(known, chosen, strict=True))[k] == v for k, v in fixed.items())
        ]
        fitted = [sum((a * b for a, b in zip(row(c), found, strict=True)), Fraction()) for c in grid]
        return sum(fitted, Fraction()) / len(fitted)

    effects: dict[str, float] = {}
    for term in terms:
        first = [known[factor][0] for factor in term]
        for chosen in itertools.product(*(known[factor][1:] for factor in term)):
            if len(term) == 1:
                change = mean(**{term[0]: chosen[0]}) - mean(**{term[0]: first[0]})
            else:
                a, b = term
                change = (mean(**{a: chosen[0], b: chosen[1]}) - mean(**{a: first[0], b: chosen[1]})) - (
                    mean(**{a: chosen[0], b: first[1]}) - mean(**{a: first[0], b: first[1]})
                )
            pairs = zip(term, chosen, first, strict=True)
            effects[" x ".join(f"{factor} {one}/{other}" for factor, one, other in pairs)] = float(change)
    return effects


@given(
    st.lists(st.sampled_from(FULL), min_size=8, max_size=20),
    st.lists(st.integers(-64, 64), min_size=20, max_size=20),
)
@settings(max_examples=100, deadline=None)
def test_effects_are_those_of_least_squares_done_slowly(cells: list[Cell], raw: list[int]) -> None:
    values = [value / 8 for value in raw[: len(cells)]]
    made = fraction.fit(cells, values, TERMS)
    kept = tuple(term for term in TERMS if term not in made.untold)
    expected = reference(cells, values, kept)
    assert {effect.name: effect.value for effect in made.effects} == pytest.approx(expected, abs=1e-9)
    assert made.freedom == len(cells) - 1 - len(made.effects)


def test_an_effect_is_found_where_it_was_put_in_and_nowhere_else() -> None:
    put = {"Tree": 0.25, "off": 1.0, "Simple": 0.5}
    values = [
        sum(put.get(level, 0.0) for level in cell.values())
        + 0.125 * (cell["algo"] == "Tree") * (cell["graphs"] == "off")
        for cell in FULL
    ]
    made = fraction.fit(FULL, values, TERMS)
    found = {effect.name: effect.value for effect in made.effects}
    assert found["algo Tree/Ring"] == pytest.approx(0.25 + 0.0625)
    assert found["algo Tree/Ring x graphs off/on"] == pytest.approx(0.125)
    assert found["proto Simple/LL"] == pytest.approx(0.5)
    assert found["proto LL128/LL"] == pytest.approx(0.0, abs=1e-12)
    assert made.residual == pytest.approx(0.0, abs=1e-12)
    # A full grid leaves nothing to be taken for something else.
    assert all(not effect.aliases for effect in made.effects)


def test_half_a_grid_says_what_each_effect_holds_beside_itself() -> None:
    # Three factors in four cells: each is the interaction of the other two.
    cells = [{"a": a, "b": b, "c": "1" if a == b else "0"} for a in "01" for b in "01"]
    cells.sort(key=lambda cell: (cell["a"], cell["b"], cell["c"]))
    made = fraction.fit(cells, [1.0, 2.0, 3.0, 5.0], fraction.terms(["a", "b", "c"]))
    assert made.freedom == 0
    holds = {effect.name: list(effect.aliases) for effect in made.effects}
    assert all(len(names) == 1 for names in holds.values())
    assert set(next(iter(holds["a 1/0"])).split(" x ")) >= {"b 1/0"}
    assert all(math.isinf(effect.low) and math.isinf(effect.high) for effect in made.effects)


def test_the_share_of_an_alias_is_what_the_estimate_gains() -> None:
    # An irregular fraction; the interaction that is left out is the only thing in the values.
    cells = [cell for place, cell in enumerate(FULL) if place not in (1, 6, 8)]
    known = fraction.Coding.of(cells).levels
    first = (known["proto"][0], known["algo"][0])
    for one in known["proto"][1:]:
        name = f"proto {one}/{first[0]} x algo {known['algo'][1]}/{first[1]}"
        # Values whose effects are all 0 but this one: that of a cell means model, made of its contrasts.
        values = [pure(cell, one, known) for cell in cells]
        made = fraction.fit(cells, values, TERMS)
        for effect in made.effects:
            assert effect.value == pytest.approx(effect.aliases.get(name, effect.value), abs=1e-9)
            assert name in effect.aliases or abs(effect.value) < fraction.LEAST_ALIAS


def pure(cell: Cell, level: str, known: Mapping[str, tuple[str, ...]]) -> float:
    """A value that holds the effect `proto level/first x algo second/first` of 1, and no other effect."""
    proto = (cell["proto"] == level) - 1 / 3
    algo = (cell["algo"] == known["algo"][1]) - 1 / 2
    return proto * algo


def test_an_interval_holds_the_effect_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    cells = [cell for place, cell in enumerate(FULL) if place not in (1, 6)]
    held = 0
    for _ in range(400):
        values = [
            0.3 * (cell["algo"] == "Tree") + noise
            for cell, noise in zip(cells, random.normal(0, 0.1, 10), strict=True)
        ]
        effect = next(
            e for e in fraction.fit(cells, values, fraction.terms(list(GRID))).effects if e.term == ("algo",)
        )
        held += effect.low <= 0.3 <= effect.high
    # 95 % of 400 are 380, with a standard deviation of 4.4.
    assert 362 <= held <= 396


def test_a_factor_that_always_changes_with_another_can_not_be_told() -> None:
    cells = [{"a": x, "b": x, "c": c} for x in "01" for c in "01"]
    made = fraction.fit(cells, [0.0, 1.0, 2.0, 3.0], fraction.terms(["a", "b", "c"]))
    assert made.untold == (("b",),)
    assert [effect.name for effect in made.effects] == ["a 1/0", "c 1/0"]


def test_standard_errors_are_known_before_anything_is_measured() -> None:
    promised = fraction.errors(FULL, fraction.terms(list(GRID)))
    # Two halves of 12 cells: each mean has a variance of 1/6.
    assert promised["algo Tree/Ring"] == pytest.approx(math.sqrt(1 / 3))
    assert promised["proto Simple/LL"] == pytest.approx(math.sqrt(1 / 2))


def test_cells_and_values_must_go_together() -> None:
    with pytest.raises(ValueError, match="2 cells and 1 values"):
        fraction.fit(FULL[:2], [1.0], TERMS)


def test_a_factor_beside_the_others_tells_of_itself_and_leaves_their_effects_alone() -> None:
    inside = [{**cell, "own": "no"} for cell in FULL]
    beside = {**FULL[0], "own": "yes"}
    values = [0.25 * (cell["algo"] == "Tree") + 0.5 * (cell["graphs"] == "off") for cell in inside]
    terms = fraction.terms([*GRID, "own"])
    cells = [*inside, beside]
    coding = fraction.Coding.of(cells, ["own"])
    made = fraction.fit(cells, [*values, -0.75], terms, coding)
    found = {effect.name: effect for effect in made.effects}
    assert found["own yes/no"].value == pytest.approx(-0.75)
    assert found["algo Tree/Ring"].value == pytest.approx(0.25)
    # What the one cell may hold beside its factor is in that factor's effect alone.
    assert found["algo Tree/Ring"].aliases.keys().isdisjoint({"algo Tree/Ring x own yes/no"})
    assert found["own yes/no"].aliases["algo Tree/Ring x own yes/no"] == pytest.approx(-0.5)
