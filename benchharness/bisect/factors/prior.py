"""What is believed of the factors before the first launch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from benchharness.bisect.factors.hypotheses import Flags, Floats, Form, up_to
from benchharness.errors import UsageError

SHIFTS = 40
FINE_SHIFTS = 25
"""Further shifts about the one that the likely sets fit: a well-known shift is narrower than the grid."""
TRIPLES = 0.2
"""Of culprits in several parts, the share of those with three factors."""
WITHIN_ERRORS = 5.0
"""How far the further shifts reach, in standard errors."""


@dataclass(frozen=True)
class Prior:
    """What is believed before the first launch.

    Attributes:
        by_size: chance that the culprit is a single factor, a pair, a triple ..., that act together; as many
            as are weighed.
        added, either: chance that there are several parts that act each by itself, and their effects add or
            any of them is enough; it is taken from the others. Without pairs neither is weighed.
        nothing: chance that no set acts: the two stacks are equally fast.
        weights: how suspicious each factor is beside the others; None for all alike.
        least_shift, most_shift: bounds of the shift, on the log scale.
        deviation: of a launch's value about its level, on the log scale, as earlier runs showed it.
        deviation_launches: launches that this deviation is worth; `math.inf` if it is known.
        shift: the shift, where it is known.
        level: of the good stack, where it is known.
    """

    by_size: tuple[float, ...] = (0.75, 0.25)
    added: float = 0.03
    either: float = 0.015
    nothing: float = 0.02
    weights: tuple[float, ...] | None = None
    least_shift: float = 0.01
    most_shift: float = 3.0
    deviation: float = 0.02
    deviation_launches: float = 1.0
    shift: float | None = None
    level: float | None = None

    @property
    def size(self) -> int:
        """Factors of the largest set that is weighed."""
        return len(self.by_size)

    @property
    def several(self) -> bool:
        """Whether culprits in several parts are weighed, too."""
        return self.size > 1 and self.added + self.either > 0

    def shifts(self, about: float = 0.0, error: float = 0.0) -> Floats:
        """A grid of possible shifts, closer about one whose standard error is known; ascending."""
        if self.shift is not None:
            return np.array([self.shift])
        coarse = _coarse(self.least_shift, self.most_shift)
        fine = about + np.linspace(-WITHIN_ERRORS, WITHIN_ERRORS, FINE_SHIFTS if error > 0 else 0) * error
        fine = fine[(fine > self.least_shift) & (fine < self.most_shift)]
        return np.unique(np.concatenate([coarse, fine]))

    @staticmethod
    def chance_of(shifts: Floats) -> Floats:
        """Chance of each shift of a grid: equal lengths of the logarithm are equally likely."""
        if len(shifts) == 1:
            return np.ones(1)
        width = np.gradient(np.log(shifts))
        width[[0, -1]] /= 2
        return np.asarray(width / width.sum())


def log_sum(logs: Floats) -> Floats:
    """Logarithm of the sum of what the last axis holds the logarithms of."""
    top = logs.max(axis=-1)
    return np.asarray(top + np.log(np.exp(logs - top[..., None]).sum(axis=-1)))


@lru_cache(maxsize=8)
def _coarse(least: float, most: float) -> Floats:
    return np.geomspace(least, most, SHIFTS)


@lru_cache(maxsize=8)
def log_chances(factors: int, prior: Prior) -> Floats:
    """Logarithm of the chance of each set: by its size, and within a size by its factors' weights.

    Raises:
        UsageError: weights that don't fit the factors.
    """
    sets = up_to(factors, prior.size, prior.several)
    weights = np.ones(factors) if prior.weights is None else np.asarray(prior.weights, dtype=float)
    if len(weights) != factors or not (weights > 0).all():
        raise UsageError(f"each of the {factors} factors needs a weight above 0", "correct the weights")
    logs = sets.members @ np.log(weights)
    forms = {form: np.array([row.form is form for row in sets.rows]) for form in Form}
    together = forms[Form.TOGETHER] & (sets.sizes > 0)
    parts = [(together & (sets.sizes == size + 1), chance) for size, chance in enumerate(prior.by_size)]
    _share_out(logs, parts)
    _share_out(logs, [(together, 1 - prior.added - prior.either)])
    for form, chance in ((Form.ADDED, prior.added), (Form.EITHER, prior.either)):
        pairs = forms[form] & (sets.sizes == 2)
        _share_out(logs, [(pairs, 1 - TRIPLES), (forms[form] & ~pairs, TRIPLES)])
        _share_out(logs, [(forms[form], chance)])
    _share_out(logs, [(sets.sizes > 0, 1 - prior.nothing), (sets.sizes == 0, prior.nothing)])
    return np.asarray(logs - log_sum(logs))


def _share_out(logs: Floats, parts: Iterable[tuple[Flags, float]]) -> None:
    """Give each part its chance, its own proportions kept."""
    for part, chance in parts:
        if part.any():
            logs[part] += math.log(max(chance, 1e-12)) - log_sum(logs[part])
