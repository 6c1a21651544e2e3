"""How much the means of whole runs differ from one campaign to the next, of one and the same stack."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchharness.stats.interval import t_quantile

FEWEST = 3
"""Campaigns of one stack from which on their spread is believed."""


@dataclass(frozen=True)
class Campaigns:
    """Spread between campaigns.

    Attributes:
        deviation: standard deviation of the logs of campaign means.
        count: campaigns that it stands on.
    """

    deviation: float
    count: int

    def reach(self, confidence: float) -> float:
        """Half width, on the log scale, of the interval of a difference of two campaigns."""
        return t_quantile(confidence, self.count - 1) * math.sqrt(2) * self.deviation


def spread(means: Sequence[float]) -> Campaigns | None:
    """From the means of campaigns, one each; None for too few. Values of 0 or less are left out."""
    logs = [math.log(value) for value in means if math.isfinite(value) and value > 0]
    if len(logs) < FEWEST:
        return None
    return Campaigns(float(np.std(logs, ddof=1)), len(logs))
