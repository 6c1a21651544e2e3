"""What the requests of a launch count for: neighbours are alike, so they are worth fewer than they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchharness.stats.twolevel import effective_requests, lag_one


@dataclass(frozen=True)
class Inside:
    """The requests inside the launches of one stack and context.

    Attributes:
        stack, context_tokens: the cell.
        launches: that this stands on.
        requests: in a launch, on average.
        correlation: of neighbouring requests (lag 1).
        effective: as how many independent requests those of a launch count.
    """

    stack: str
    context_tokens: int
    launches: int
    requests: float
    correlation: float
    effective: float


def inside(rows: pd.DataFrame) -> tuple[Inside, ...]:
    """What the requests of launches count for; rows of `launch_means.request_values`, of any stacks."""
    found = []
    for (stack, context), cell in rows.groupby(["stack", "context_tokens"], sort=False):
        known = cell[np.isfinite(cell["value"]) & (cell["value"] > 0)]
        groups = [np.log(one["value"].to_numpy(dtype=float)) for _, one in known.groupby("launch")]
        if not groups:
            continue
        correlation = lag_one(groups)
        sizes = [float(group.size) for group in groups]
        effective = [effective_requests(size, correlation) for size in sizes]
        context_tokens = int(str(context))
        means = float(np.mean(sizes)), correlation, float(np.mean(effective))
        found.append(Inside(str(stack), context_tokens, len(groups), *means))
    return tuple(found)
