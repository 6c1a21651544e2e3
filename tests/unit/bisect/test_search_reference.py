"""The posterior against slow references: brute-force integration, and covariances written out in full."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from benchharness.bisect.search import Axis, Observation, Prior, believe, shifts
from benchharness.bisect.search.cells import grid
from benchharness.bisect.search.likelihood import LEAST_SQUARES
from benchharness.bisect.search.shifts import SQUARED, WEIGHTS, WIDTHS

GAUSS = Prior(modes=0.0)
_MIXTURE = list(zip(WIDTHS, SQUARED, WEIGHTS, strict=True))[:4]  # wider ones take a finer grid than this


def _integrated(
    places: NDArray[np.int64], values: NDArray[np.float64], points: int, direction: int
) -> NDArray[np.float64]:
    """Sums over a grid of level, shift and deviation; nothing is integrated by hand."""
    level = np.linspace(-12, 14, 141)[:, None, None]
    x = np.linspace(-6, 6, 60)  # none at 0, half of them above
    normal = np.exp(-(x**2) / 2)
    normal = np.where(x * direction < 0, 0.0, normal / normal.sum() * (2 if direction else 1))
    deviation = np.exp(np.linspace(-2.5, 3.5, 121))[None, None, :]
    found = np.zeros(points - 1)
    for i in range(points - 1):
        for width, squared, share in _MIXTURE:
            weight = normal * x**2 if squared else normal
            shift = width * deviation * x[None, :, None]
            log = np.zeros((141, 60, 121))
            for place, value in zip(places, values, strict=True):
                log += -np.log(deviation) - ((value - level - (place > i) * shift) / deviation) ** 2 / 2
            found[i] += share * (np.exp(log) * weight[None, :, None]).sum()
    return np.asarray(found / found.sum())


@pytest.mark.parametrize("direction", [0, 1, -1])
def test_posterior_is_that_of_brute_force_integration(
    monkeypatch: pytest.MonkeyPatch, direction: int
) -> None:
    for name, kept in (("WIDTHS", WIDTHS), ("SQUARED", SQUARED), ("WEIGHTS", WEIGHTS)):
        monkeypatch.setattr(shifts, name, kept[:4])
    places = np.array([0, 5, 2, 3, 5, 0, 3])
    values = np.array([0.1, 2.2, 0.9, 1.6, 2.9, -0.5, 2.4])
    shown = [Observation(int(p), float(v)) for p, v in zip(places, values, strict=True)]
    found = believe(Axis(6), shown, replace(GAUSS, direction=direction)).probability
    # A normal stands in for Student's t where the sign is known.
    exact = 0.03 if direction < 0 else 6e-3 if direction else 2e-3
    np.testing.assert_allclose(found, _integrated(places, values, 6, direction), atol=exact)


def test_two_levels_and_drift_are_those_of_the_covariance_written_out() -> None:
    random = np.random.default_rng(8)
    shown = []
    for i, place in enumerate([0, 7, 3, 0, 5, 7, 4]):
        repeats = int(random.integers(2, 6))
        shown.append(Observation(place, float(random.normal()), repeats, float(random.uniform(1, 3)), i // 2))
    cells = grid(shown, GAUSS)
    assert cells.has_drift
    y = np.array([one.value for one in shown])
    repeats = np.array([float(one.repeats) for one in shown])
    scatter = sum(one.scatter for one in shown)
    freedom = len(y) - 1 + (repeats - 1).sum()
    ones = np.ones(len(y))
    logs = np.zeros(7)
    for i in range(7):
        bad = np.array([float(one.point > i) for one in shown])
        terms = []
        for cell in range(len(cells.between)):
            plain = np.diag(cells.between[cell] + 1 / repeats)
            shared = np.zeros((len(y), len(y)))
            if cells.drift[cell]:
                apart = np.array([[abs(a.block - b.block) for b in shown] for a in shown])
                shared = cells.drift[cell] * np.exp(-apart / cells.length[cell])
            typical = np.median(np.diag(plain))
            for width, squared, share in zip(WIDTHS, SQUARED, WEIGHTS, strict=True):
                wide = 1e8  # a level that may be anywhere
                v = plain + shared + wide * np.outer(ones, ones) + width**2 * typical * np.outer(bad, bad)
                # Its inverse by the level's own formula: subtracting 1e8 from 1e8 would lose all digits.
                inner = np.linalg.inv(v - wide * np.outer(ones, ones))
                lean = inner @ ones
                quadratic = y @ inner @ y - (lean @ y) ** 2 / (lean @ ones)
                determinant = np.linalg.slogdet(inner)[1] - np.log(lean @ ones)
                total = quadratic + scatter + LEAST_SQUARES
                apart = np.linalg.inv(plain + shared)
                apart = apart - np.outer(apart @ ones, apart @ ones) / (ones @ apart @ ones)
                variance = width**2 * typical
                precision = bad @ apart @ bad + 1 / variance
                second = 1 / precision + (bad @ apart @ y / precision) ** 2 * freedom / total
                factor = np.log(second / variance) if squared else 0.0
                terms.append(
                    cells.log_prior[cell]
                    + np.log(share)
                    + determinant / 2
                    - freedom / 2 * np.log(total)
                    + factor
                )
        logs[i] = logsumexp(terms)
    expected = np.exp(logs - logsumexp(logs))
    np.testing.assert_allclose(believe(Axis(8), shown, GAUSS).probability, expected, rtol=1e-6)


def test_known_parameters_give_the_plain_likelihood_ratio() -> None:
    sure = {"between_weight": 1e7, "within_weight": 1e7, "shift_weight": 1e7, "good_weight": 1e7}
    prior = Prior(between_sd=0.6, within_sd=0.8, shift=1.5, good=0.2, direction=1, **sure)
    shown = [Observation(2, 0.9, 2, 0.1), Observation(4, 1.4, 3, 0.4)]
    logs = np.zeros(5)
    for i in range(5):
        for one in shown:
            mean = 0.2 + 1.5 * (one.point > i)
            logs[i] -= (one.value - mean) ** 2 / 2 / (0.36 + 0.64 / one.repeats)
    expected = np.exp(logs - logsumexp(logs))
    np.testing.assert_allclose(believe(Axis(6), shown, prior).probability, expected, atol=2e-4)


def test_modes_are_summed_as_if_every_labelling_were_written_out() -> None:
    from itertools import product

    from scipy.special import betaln

    from benchharness.bisect.search import modes

    values = np.array([0.0, 0.1, 3.1, 3.0, 0.05, 3.2])
    end, n = 3, 6
    bad = (np.arange(n) >= end).astype(float)
    y = values - values.mean()

    def log_fit(columns: list[NDArray[np.float64]], widths: list[float]) -> float:
        x = np.stack([one - one.mean() for one in columns])
        precision = x @ x.T + np.diag([1 / width**2 for width in widths])
        left = y @ y - (x @ y) @ np.linalg.solve(precision, x @ y)
        occam = np.linalg.slogdet(precision)[1] + 2 * np.log(widths).sum()
        return float(-occam / 2 - (n - 1) / 2 * np.log(left + 1e-10))

    one, two = [], []
    for width in (0.3, 2.0, 12.0):
        one.append(log_fit([bad], [width]))
        for labels in product([0.0, 1.0], repeat=n):
            slow = np.array(labels)
            sides = [
                (values[slow == 0], values[slow == 1])
                for slow, values in ((slow[:end], values[:end]), (slow[end:], values[end:]))
            ]
            if all(not len(low) or not len(high) or low.max() < high.min() for low, high in sides):
                count = slow.sum()
                two.append(betaln(count + 1, n - count + 1) + log_fit([bad, slow], [width, 20.0]))
    expected = logsumexp(two) - logsumexp(one)
    found, _ = modes.ratios(values, np.array([end]))
    assert found[0] == pytest.approx(expected, rel=1e-6)
