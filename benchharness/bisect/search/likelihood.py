"""How likely the observations are, for each way in which a change can part them.

A launch mean is level + what its block shares + launch + repeats; the level steps once. Given the ratios of
the variances (a cell) and how wide the shift is beforehand (a width), the good level, the shift and the
variance of one repeat integrate out exactly: a normal-inverse-gamma model with covariance V. Cells and widths
are summed over a grid. See docs/method.md, Bisection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchharness.bisect.search import modes, shifts
from benchharness.bisect.search.cells import Cells, grid
from benchharness.bisect.search.problem import Floats, Ints, Observation, Prior

LEAST_SQUARES = 1e-12
"""Sum of squares that even launches without any spread have: metrics are not known to more than 1e-6."""


_ENOUGH = 5.0
"""Degrees of freedom of an earlier deviation from which on modes would have shown in it."""


@dataclass(frozen=True)
class Fits:
    """What follows if the change lies in a given split, for each split.

    `points` are the distinct points that were measured, in order; in split s the first s of them are good.

    Attributes:
        points: distinct points.
        log_marginal: of the observations.
        good, bad: expected levels.
        good_variance, bad_variance, shift_variance: of these levels and of their difference.
        between, within, drift: expected variances.
        modes: how likely it is that starts come in modes.
        freedom: degrees of freedom of the variances.
    """

    points: Ints
    log_marginal: Floats
    good: Floats
    bad: Floats
    good_variance: Floats
    bad_variance: Floats
    shift_variance: Floats
    between: Floats
    within: Floats
    drift: Floats
    modes: Floats
    freedom: float


@dataclass(frozen=True)
class _Sums:
    """Weighted sums over launches, cells x 1 or cells x splits: ones, values, and the bad ones alone."""

    ones: Floats
    values: Floats
    squares: Floats
    bad_ones: Floats
    bad_values: Floats
    bad_bad: Floats
    log_determinant: Floats
    typical: Floats


def fit(observations: Sequence[Observation], prior: Prior) -> Fits:
    """Fit each split; needs at least one observation."""
    shown = sorted(observations, key=lambda one: one.point)
    cells = grid(shown, prior)
    points, starts = np.unique([one.point for one in shown], return_index=True)
    ends = np.append(starts, len(shown))
    centre = float(np.mean([one.value for one in shown]))
    values = np.array([one.value for one in shown]) - centre
    sums = _sums(shown, values, ends, cells, prior, centre)
    scatter = sum(
        one.scatter * one.independent / one.repeats
        for one in shown
        if one.repeats > 1 and one.independent > 1
    )
    inside = sum(max(one.independent - 1, 0.0) for one in shown if one.repeats > 1)
    launches = len(shown) + (prior.good is not None) - 1
    fits = _integrate(sums, cells, prior, points, centre, scatter, inside + launches)
    return _with_modes(fits, values, ends, prior)


def _with_modes(fits: Fits, values: Floats, ends: Ints, prior: Prior) -> Fits:
    """Weigh in that starts may come in modes, unless it is known how launches spread."""
    shown = prior.between_sd is not None and prior.between_weight >= _ENOUGH
    if prior.modes <= 0 or shown or len(values) < 3:
        return fits
    ratio, variance = modes.ratios(values, ends)
    both = np.logaddexp(np.log1p(-prior.modes), np.log(prior.modes) + ratio)
    likely = np.exp(np.log(prior.modes) + ratio - both)
    between = (1 - likely) * fits.between + likely * np.maximum(variance, fits.between)
    return replace(fits, log_marginal=fits.log_marginal + both, modes=likely, between=between)


def _sums(
    shown: Sequence[Observation], values: Floats, ends: Ints, cells: Cells, prior: Prior, centre: float
) -> _Sums:
    repeats = np.array([one.independent for one in shown])
    launch = cells.launch(repeats)
    if cells.has_drift:
        blocks = np.array([float(one.block) for one in shown])
        covariance = cells.covariance(repeats, blocks)
        inverse = np.linalg.inv(covariance)
        log_determinant = np.linalg.slogdet(covariance)[1]
        ones, weighted = inverse.sum(axis=2), inverse @ values
        corner = inverse[:, ::-1, ::-1].cumsum(1).cumsum(2)
        diagonal = np.diagonal(corner, axis1=1, axis2=2)
    else:
        ones = 1 / launch
        weighted = ones * values
        log_determinant = np.log(launch).sum(axis=1)
        diagonal = ones[:, ::-1].cumsum(axis=1)
    squares = (weighted * values).sum(axis=1, keepdims=True)
    total, total_values = ones.sum(axis=1, keepdims=True), weighted.sum(axis=1, keepdims=True)
    bad_ones, bad_values = _after(ones, ends), _after(weighted, ends)
    bad_bad = np.concatenate([np.zeros((len(diagonal), 1)), diagonal], axis=1)[:, len(shown) - ends]
    typical = np.median(launch, axis=1, keepdims=True)
    if prior.good is not None:
        # Known beforehand: as if the good end had been measured in launches of a block of their own.
        weight = prior.good_weight / (cells.between[:, None] + 1)
        total = total + weight
        total_values = total_values + weight * (prior.good - centre)
        squares = squares + weight * (prior.good - centre) ** 2
        log_determinant = log_determinant - np.log(weight[:, 0])
    return _Sums(
        total, total_values, squares, bad_ones, bad_values, bad_bad, log_determinant[:, None], typical
    )


def _after(weights: Floats, ends: Ints) -> Floats:
    """Sums over the launches from each end on: cells x splits."""
    running = np.concatenate([np.zeros((len(weights), 1)), weights.cumsum(axis=1)], axis=1)
    return np.asarray(running[:, -1:] - running[:, ends])


def _shifts(sums: _Sums, cells: Cells, prior: Prior) -> tuple[Floats, Floats, Floats]:
    """Centre, variance (in units of w) and log-weight of the prior of the shift: widths x cells x 1."""
    if prior.shift is None:
        variance = shifts.WIDTHS[:, None, None] ** 2 * sums.typical[None]
        return np.zeros_like(variance), variance, np.log(shifts.WEIGHTS)[:, None, None]
    signs = [prior.direction] if prior.direction else [1, -1]
    centres = (
        np.array([sign * prior.shift for sign in signs])[:, None, None] * np.ones_like(sums.typical)[None]
    )
    if prior.within_sd is not None:
        unit = np.full_like(sums.typical, prior.within_sd**2)
    else:
        flat = sums.squares - sums.values**2 / sums.ones
        unit = flat / (2 * sums.typical) + LEAST_SQUARES
    variance = np.broadcast_to(prior.shift**2 / prior.shift_weight / unit[None], centres.shape)
    return centres, np.asarray(variance), np.full((len(signs), 1, 1), -np.log(len(signs)))


def _integrate(
    sums: _Sums, cells: Cells, prior: Prior, points: Ints, centre: float, scatter: float, degrees: float
) -> Fits:
    middle, variance, log_width = _shifts(sums, cells, prior)
    # The good level first: what is left of sums about the weighted mean.
    zz = (sums.bad_bad - sums.bad_ones**2 / sums.ones)[None]
    zy = (sums.bad_values - sums.bad_ones * sums.values / sums.ones)[None]
    yy = (sums.squares - sums.values**2 / sums.ones)[None]
    precision = zz + 1 / variance
    shift = (zy + middle / variance) / precision
    total = yy + middle**2 / variance - shift**2 * precision
    freedom = max(degrees + cells.degrees, 1.0)
    # Rounding may leave a sum of squares a little below 0.
    total = np.maximum(total, 0.0) + scatter + cells.squares[None, :, None] + LEAST_SQUARES
    log_marginal = (
        cells.log_prior[None, :, None]
        + log_width
        - 0.5 * (sums.log_determinant + np.log(sums.ones))[None]
        - 0.5 * np.log(variance * precision)
        - freedom / 2 * np.log(total)
    )
    unit = total / freedom
    spread = unit / precision
    if prior.shift is None:
        log_marginal = log_marginal + shifts.log_factor(
            shift, spread, precision * variance, prior.direction, freedom
        )
        shift, spread = shifts.moments(shift, spread)
    return _averaged(
        log_marginal, shift, unit, spread, sums, cells, points=points, centre=centre, freedom=freedom
    )


def _averaged(
    log_marginal: Floats,
    shift: Floats,
    unit: Floats,
    spread: Floats,
    sums: _Sums,
    cells: Cells,
    *,
    points: Ints,
    centre: float,
    freedom: float,
) -> Fits:
    """Sum over widths and cells; levels and variances are averaged with their weights.

    `unit` is the variance of one repeat and `spread` that of the shift, before their tails are counted.
    """
    largest = log_marginal.max(axis=(0, 1))
    weights = np.exp(log_marginal - largest)
    norm = weights.sum(axis=(0, 1))
    weights /= norm

    def mean(values: Floats) -> Floats:
        return np.asarray((weights * values).sum(axis=(0, 1)))

    lean = (sums.bad_ones / sums.ones)[None]
    level = (sums.values / sums.ones)[None] - lean * shift
    # The variance of a normal-inverse-gamma level is finite from three degrees of freedom on.
    tails = freedom / max(freedom - 2, 0.5)
    good, bad = mean(level), mean(level + shift)
    spread_good = mean((level - good) ** 2 + tails * (unit / sums.ones[None] + lean**2 * spread))
    spread_bad = mean(
        (level + shift - bad) ** 2 + tails * (unit / sums.ones[None] + (1 - lean) ** 2 * spread)
    )
    spread_shift = mean((shift - (bad - good)) ** 2 + tails * spread)
    return Fits(
        points=points,
        log_marginal=largest + np.log(norm),
        good=good + centre,
        bad=bad + centre,
        good_variance=spread_good,
        bad_variance=spread_bad,
        shift_variance=spread_shift,
        between=mean(unit * cells.between[None, :, None]),
        within=mean(unit),
        drift=mean(unit * cells.drift[None, :, None]),
        modes=np.zeros(len(good)),
        freedom=freedom,
    )
