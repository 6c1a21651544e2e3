"""How large the change may be, beforehand, and what that makes of a shift fitted with a normal prior.

A normal about 0 expects changes that are smaller than its width, so many that a search would doubt each
clean step for long. Ends that look alike are not searched between; so the prior is normal times the square of
the shift (a product moment prior: Johnson and Rossell, On the use of non-local prior densities, 2010), which
leaves little near 0. It costs a factor only: normal-inverse-gamma models stay exact.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, ndtr

from benchharness.bisect.search.problem import Floats

WIDTHS = np.array([0.6, 1.2, 2.0, 4.0, 8.0, 16.0, 60.0])
"""Deviations of the normals, in deviations of one launch. Times the square of the shift, the middle half of
each lies between 1.1 and 2.0 widths, so that each doubling is about as likely as the next."""

SQUARED = np.array([False, False, True, True, True, True, True])
"""Which of them stand times the square of the shift. The narrow ones do not: where a change is about as large
as the noise, a search that expects it to be larger would be too sure."""

WEIGHTS = np.array([0.4, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]) / 6.4
"""How likely each is."""


def log_factor(shift: Floats, variance: Floats, shrunk: Floats, direction: int, freedom: float) -> Floats:
    """What the likelihood under a normal prior has to be multiplied by, as a log; first axis: the widths.

    Args:
        shift: expected under the normal prior.
        variance: its scale, squared: the variance of one repeat at its expected value, over the precision.
        shrunk: precision of the shift, in precisions of the prior; 1 where nothing was learnt of it.
        direction: +1 or -1 where the sign of the shift is known, 0 where it is not.
        freedom: degrees of freedom of the variance.
    """
    t = shift / np.sqrt(variance)
    squared = SQUARED[:, None, None]
    found = np.where(squared, np.log((1 + t * t) / shrunk), 0.0)
    if direction:
        # A normal that stands in for Student's t.
        z = direction * t * (1 - 1 / (4 * freedom)) / np.sqrt(1 + t * t / (2 * freedom))
        found = found + np.log(2) + np.where(squared, _log_share(z), np.log(ndtr(np.maximum(z, -30))))
    return np.asarray(found)


def _log_share(z: Floats) -> Floats:
    """Log of the share of E[x^2] that comes from positive x, where x is normal about z with deviation 1."""
    z = np.clip(z, -30, 30)
    below = np.minimum(z, 0.0)
    scaled = (1 + below**2) * erfcx(-below / np.sqrt(2)) / 2 + below / np.sqrt(2 * np.pi)
    low = np.log(scaled) - below**2 / 2
    above = np.maximum(z, 0.0)
    high = np.log((1 + above**2) * ndtr(above) + above * np.exp(-(above**2) / 2) / np.sqrt(2 * np.pi))
    return np.asarray(np.where(z < 0, low, high) - np.log(1 + z * z))


def moments(shift: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the shift, from those under the normal prior; first axis: the widths."""
    square = shift**2
    second = square + variance
    mean = shift * (square + 3 * variance) / second
    spread = (square**2 + 6 * square * variance + 3 * variance**2) / second - mean**2
    squared = SQUARED[:, None, None]
    return np.where(squared, mean, shift), np.where(squared, np.maximum(spread, 0.0), variance)
