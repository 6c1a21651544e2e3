"""Effects of factors over the cells of a fraction of a grid, and what each effect can't be told from.

A full grid of five or six factors is too long to run, so some of its cells are run and a linear model is
fitted to them: main effects, and interactions with chosen factors. What the model leaves out leaks into
what it has: the alias matrix (X'X)^-1 X'Z says by how much (Box and Wilson 1951; Wu and Hamada,
Experiments, 2nd ed., section 5.2). It depends on the cells alone, so it is known before anything is
measured, and it holds for whatever cells there are: also when some were not run, or could not be.

Factors are coded so that the levels of each add up to zero: a main effect is then the mean over the levels
of the others, each counting the same. Factors that only a few cells vary stand beside them (see `Coding`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchharness.stats.interval import t_quantile

Cell = Mapping[str, str]
Term = tuple[str, ...]
"""One factor (its main effect), or two (their interaction)."""

LEAST_ALIAS = 0.05
"""Share of an effect from which on what leaks in is named."""


@dataclass(frozen=True)
class Effect:
    """One difference between levels, on the scale of the values.

    Attributes:
        term: the factor, or the two of an interaction.
        levels: what is held against what: `(Tree, Ring)`; of an interaction each factor's pair.
        value: of a main effect first level - second level; of an interaction, that difference at the other
            factor's first level less the same at its second.
        low, high: ends of the interval; infinite where nothing is left to tell noise by.
        aliases: what else it holds: effect that the model leaves out -> its share, those of at least
            `LEAST_ALIAS`.
    """

    term: Term
    levels: tuple[tuple[str, str], ...]
    value: float
    low: float
    high: float
    aliases: Mapping[str, float]

    @property
    def name(self) -> str:
        """`ALGO Tree/Ring`, `ALGO Tree/Ring x graphs off/on`."""
        return _named(self.term, self.levels)


@dataclass(frozen=True)
class Fit:
    """A model of some cells.

    Attributes:
        effects: of all its terms.
        freedom: values less coefficients: what the noise is judged by; 0 tells nothing.
        residual: standard deviation of the values around the model; NaN without freedom. Beside noise it
            holds whatever the model leaves out.
        untold: terms that these cells can't tell from the others.
    """

    effects: tuple[Effect, ...]
    freedom: int
    residual: float
    untold: tuple[Term, ...]


@dataclass(frozen=True)
class Coding:
    """How levels become columns.

    Attributes:
        levels: factor -> its levels; the others are held against the first.
        beside: factors of which few cells have another level than the first. They are coded by their distance
            from it, so that all other effects are those at the first level, and such a cell tells of its own
            factor only.
    """

    levels: Mapping[str, tuple[str, ...]]
    beside: frozenset[str] = frozenset()

    @classmethod
    def of(cls, cells: Sequence[Cell], beside: Sequence[str] = ()) -> Coding:
        """Levels in the order in which the cells name them."""
        found = {factor: tuple(dict.fromkeys(cell[factor] for cell in cells)) for factor in cells[0]}
        return cls(found, frozenset(beside))

    def code(self, factor: str, level: str) -> list[float]:
        """A column for each level but the first, which is -1 in all of them, or 0 for a factor beside."""
        first, *others = self.levels[factor]
        if level == first:
            return [0.0 if factor in self.beside else -1.0] * len(others)
        return [float(level == other) for other in others]

    def pairs(self, term: Term) -> list[tuple[tuple[str, str], ...]]:
        """Every level but the first against the first, for each factor of a term."""
        choices = [[(level, known[0]) for level in known[1:]] for known in map(self.levels.__getitem__, term)]
        return list(itertools.product(*choices))

    def columns(self, cells: Sequence[Cell], term: Term) -> np.ndarray:
        """Columns of a term, one row a cell."""
        made = np.ones((len(cells), 1))
        for factor in term:
            coded = np.array([self.code(factor, cell[factor]) for cell in cells])
            made = np.einsum("ri,rj->rij", made, coded.reshape(len(cells), -1)).reshape(len(cells), -1)
        return made

    def matrix(self, cells: Sequence[Cell], chosen: Sequence[Term]) -> np.ndarray:
        """One row a cell: 1, then the columns of each term."""
        return np.hstack([np.ones((len(cells), 1)), *(self.columns(cells, term) for term in chosen)])

    def contrast(self, term: Term, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Weights of a term's own columns: differences over its factors, multiplied out."""
        made = np.ones(1)
        for factor, (one, other) in zip(term, pairs, strict=True):
            difference = np.subtract(self.code(factor, one), self.code(factor, other))
            made = np.outer(made, difference).reshape(-1)
        return made


def terms(factors: Sequence[str], interacting: Sequence[str] = ()) -> tuple[Term, ...]:
    """All main effects, then each factor with each of `interacting`."""
    pairs = [
        (other, one)
        for one, other in itertools.product(interacting, factors)
        if other != one and not (other in interacting and factors.index(other) > factors.index(one))
    ]
    return (*((factor,) for factor in factors), *pairs)


def fit(
    cells: Sequence[Cell],
    values: Sequence[float],
    wanted: Sequence[Term],
    coding: Coding | None = None,
    confidence: float = 0.95,
) -> Fit:
    """Fit a model by least squares; a cell may stand there several times, once a launch.

    Args:
        cells: factor -> level, one for each value; all have the same factors.
        values: on a scale on which effects add up, as logarithms of durations.
        wanted: terms in order of importance: one that the terms before it already explain is left out.
        coding: of the levels; by default as the cells name them, with no factor beside the others.
        confidence: of the intervals, by Student's t.

    Raises:
        ValueError: cells and values differ in number, or there are none.
    """
    if len(cells) != len(values) or not cells:
        raise ValueError(f"{len(cells)} cells and {len(values)} values")
    coding = coding or Coding.of(cells)
    kept, untold = estimable(cells, wanted, coding)
    matrix = coding.matrix(cells, kept)
    data = np.asarray(values, dtype=float)
    inverse = np.linalg.pinv(matrix)
    freedom = len(data) - matrix.shape[1]
    rest = data - matrix @ inverse @ data
    residual = math.sqrt(float(rest @ rest) / freedom) if freedom else math.nan
    reach = t_quantile(confidence, freedom) * residual if freedom else math.inf
    effects = []
    for term, pairs, weights in _weighed(coding, kept, inverse):
        value = float(weights @ data)
        # The deviation of weights @ noise, for noise of one standard deviation everywhere.
        half = reach * float(np.linalg.norm(weights))
        leaks = _aliases(cells, coding, kept, weights)
        effects.append(Effect(term, pairs, value, value - half, value + half, leaks))
    return Fit(tuple(effects), freedom, residual, untold)


def estimable(
    cells: Sequence[Cell], wanted: Sequence[Term], coding: Coding | None = None
) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Which terms these cells can tell apart, taken in order, and which they can't."""
    coding = coding or Coding.of(cells)
    kept: list[Term] = []
    untold: list[Term] = []
    for term in wanted:
        grown = coding.matrix(cells, [*kept, term])
        # Without its factors' main effects an interaction means something else in every coding.
        mains = len(term) == 1 or all((factor,) in kept for factor in term)
        varies = all(len(coding.levels[factor]) > 1 for factor in term)
        sound = int(np.linalg.matrix_rank(grown)) == grown.shape[1] <= len(cells)
        (kept if mains and varies and sound else untold).append(term)
    return tuple(kept), tuple(untold)


def errors(cells: Sequence[Cell], wanted: Sequence[Term]) -> dict[str, float]:
    """Each effect's standard error in standard deviations of one value: what a design promises."""
    coding = Coding.of(cells)
    kept, _ = estimable(cells, wanted, coding)
    inverse = np.linalg.pinv(coding.matrix(cells, kept))
    weighed = _weighed(coding, kept, inverse)
    return {_named(term, pairs): float(np.linalg.norm(weights)) for term, pairs, weights in weighed}


def _weighed(
    coding: Coding, kept: Sequence[Term], inverse: np.ndarray
) -> Iterator[tuple[Term, tuple[tuple[str, str], ...], np.ndarray]]:
    """Every effect of the terms with what it weighs each value by; `inverse` is the matrix's."""
    start = 1
    for term in kept:
        pairs = coding.pairs(term)
        for pair in pairs:
            yield term, pair, coding.contrast(term, pair) @ inverse[start : start + len(pairs)]
        start += len(pairs)


def _aliases(
    cells: Sequence[Cell], coding: Coding, kept: Sequence[Term], weights: np.ndarray
) -> dict[str, float]:
    """What leaks into the effect that weighs the values so, of all pairs of factors that the model lacks.

    The share of an effect is what the estimate gains if that effect is 1 and all others are 0.
    """
    found: dict[str, float] = {}
    for term in itertools.combinations(coding.levels, 2):
        if any(set(term) == set(one) for one in kept) or not coding.pairs(term):
            continue
        leak = weights @ coding.columns(cells, term)
        # Columns belong to coefficients; an effect of 1 is spread over them as the contrasts say.
        table = np.array([coding.contrast(term, pairs) for pairs in coding.pairs(term)])
        for pairs, share in zip(coding.pairs(term), leak @ np.linalg.inv(table), strict=True):
            # Rounded, so that equal shares stand in one order whatever the arithmetic's last digits.
            if round(abs(share), 6) >= LEAST_ALIAS:
                found[_named(term, pairs)] = float(share)
    return dict(sorted(found.items(), key=lambda item: (-round(abs(item[1]), 6), item[0])))


def _named(term: Term, pairs: Sequence[tuple[str, str]]) -> str:
    parts = (f"{factor} {one}/{other}" for factor, (one, other) in zip(term, pairs, strict=True))
    return " x ".join(parts)
