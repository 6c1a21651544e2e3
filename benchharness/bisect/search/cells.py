"""What is not known of the noise, as a small grid of cells: shares, drift, and the covariance of launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchharness.bisect.search.problem import Floats, Observation, Prior

_SHARES = np.array([0.02, 0.1, 0.25, 0.45, 0.65, 0.82, 0.93, 0.985])
"""Share of the variance of one repeat that lies between launches."""

_DRIFTS = np.array([0.3, 1.0, 4.0])
"""Variance of what a block shares, as a multiple of that of a launch."""

_LENGTHS = np.array([4.0, 30.0])
"""Blocks over which drift is alike: it falls by a factor e."""

NO_DRIFT = 0.5
"""How likely it is, beforehand, that blocks share nothing."""


@dataclass(frozen=True)
class Cells:
    """The grid. All variances are in units of the variance of one repeat, `w`.

    Attributes:
        between: of launches, one a cell.
        drift: of what blocks share, one a cell.
        length: in blocks, one a cell; 0 where there is no drift.
        log_prior: one a cell, but for what depends on `w`.
        degrees, squares: what the priors add to the degrees of freedom and to the sum of squares, one a cell;
            `squares` in units of the metric.
    """

    between: Floats
    drift: Floats
    length: Floats
    log_prior: Floats
    degrees: float
    squares: Floats

    def launch(self, repeats: Floats) -> Floats:
        """Variances of launch means without what blocks share: cells x launches."""
        found: Floats = self.between[:, None] + 1 / repeats[None, :]
        return found

    def covariance(self, repeats: Floats, blocks: Floats) -> Floats:
        """Covariance of launch means: cells x launches x launches."""
        apart = np.abs(blocks[:, None] - blocks[None, :])
        length = np.maximum(self.length, 1e-9)[:, None, None]
        shared = self.drift[:, None, None] * np.exp(-apart / length)
        at = np.arange(len(repeats))
        shared[:, at, at] += self.launch(repeats)
        return shared

    @property
    def has_drift(self) -> bool:
        """Whether some cell has any."""
        return bool(self.drift.any())


def grid(observations: Sequence[Observation], prior: Prior) -> Cells:
    """The cells that these observations can tell apart."""
    between, log_prior = _between(observations, prior)
    degrees, squares = 0.0, np.zeros_like(between)
    if prior.within_sd is not None:
        degrees += prior.within_weight
        squares = squares + prior.within_weight * prior.within_sd**2
    if prior.between_sd is not None:
        # A scaled inverse chi-squared prior on between = ratio * w is conjugate for w, given the ratio.
        degrees += prior.between_weight
        squares = squares + prior.between_weight * prior.between_sd**2 / between
        log_prior = log_prior - prior.between_weight / 2 * np.log(between)
    if len({one.block for one in observations}) < 2:
        none = np.zeros_like(between)
        return Cells(between, none, none, log_prior, degrees, squares)
    return _with_drift(Cells(between, between, between, log_prior, degrees, squares), observations)


def _between(observations: Sequence[Observation], prior: Prior) -> tuple[Floats, Floats]:
    known = prior.between_sd is not None and prior.within_sd is not None
    if known and min(prior.between_weight, prior.within_weight) >= 1e3:
        ratio = (float(prior.between_sd or 0) / float(prior.within_sd or 1)) ** 2
        return np.array([ratio]), np.zeros(1)
    informed = prior.between_sd is not None or prior.within_sd is not None
    if not informed and all(one.repeats == 1 for one in observations):
        # One repeat a launch shows the sum of both variances alone.
        return np.ones(1), np.zeros(1)
    shares = np.linspace(0.01, 0.99, 25) if informed else _SHARES
    return shares / (1 - shares), np.full(len(shares), -np.log(len(shares)))


def _with_drift(plain: Cells, observations: Sequence[Observation]) -> Cells:
    repeats = np.array([one.independent for one in observations])
    typical = np.median(plain.launch(repeats), axis=1)
    combined = [(0.0, 0.0, NO_DRIFT)]
    each = (1 - NO_DRIFT) / (len(_DRIFTS) * len(_LENGTHS))
    combined += [(float(drift), float(length), each) for drift in _DRIFTS for length in _LENGTHS]
    count = len(combined)
    drift, length, weight = (np.array(column) for column in zip(*combined, strict=True))
    return Cells(
        between=np.repeat(plain.between, count),
        drift=(typical[:, None] * drift[None, :]).ravel(),
        length=np.tile(length, len(plain.between)),
        log_prior=(plain.log_prior[:, None] + np.log(weight)[None, :]).ravel(),
        degrees=plain.degrees,
        squares=np.repeat(plain.squares, count),
    )
