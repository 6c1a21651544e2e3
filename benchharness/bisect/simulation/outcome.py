"""How campaigns ended, one and many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchharness.bisect.search import Reason


@dataclass(frozen=True)
class Outcome:
    """One campaign.

    Attributes:
        right: whether it named the change, or the shortest range that usable versions allow.
        reason: why it stopped.
        confidence: that it stated; NaN where it states none.
        measurements, launches, hours: what it took.
    """

    right: bool
    reason: Reason
    confidence: float
    measurements: int
    launches: int
    hours: float


@dataclass(frozen=True)
class Summary:
    """Many campaigns together; means over all of them, `stated` over those that state anything.

    `wrong` is the share of those that name a change, or a range, that it is not.
    """

    trials: int
    success: float
    stated: float
    mean_measurements: float
    mean_launches: float
    mean_hours: float
    cannot_tell: float
    wrong: float


def summary(outcomes: Sequence[Outcome]) -> Summary:
    """Means; needs at least one outcome."""
    stated = [one.confidence for one in outcomes if not np.isnan(one.confidence)]
    return Summary(
        trials=len(outcomes),
        success=float(np.mean([one.right for one in outcomes])),
        stated=float(np.mean(stated)) if stated else float("nan"),
        mean_measurements=float(np.mean([one.measurements for one in outcomes])),
        mean_launches=float(np.mean([one.launches for one in outcomes])),
        mean_hours=float(np.mean([one.hours for one in outcomes])),
        cannot_tell=float(np.mean([one.reason == Reason.CANNOT_TELL for one in outcomes])),
        wrong=float(np.mean([one.reason != Reason.CANNOT_TELL and not one.right for one in outcomes])),
    )
