"""What the probe costs: requests with it recording against their neighbours without, inside each launch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from benchharness.stats.interval import Interval, of_mean

if TYPE_CHECKING:
    import duckdb

CONFIDENCE = 0.95
OVER_LAUNCHES, OVER_PAIRS = "launches", "pairs of one launch"

UNITS = {"cycle_us": "us", "tpot_ms": "ms", "e2e_ms": "ms"}
"""Figure of a request -> its unit; `cycle_us` is the time from first to last chunk shared by its cycles."""

_REQUESTS = """
    SELECT launch, stack, context_tokens, request, probed, counted, verify_cycles,
        output_tokens - first_chunk_tokens AS later_tokens,
        (last_chunk_ns - first_chunk_ns) / 1e3 AS decode_us,
        decode_us / 1e3 / nullif(later_tokens, 0) AS tpot_ms,
        (finished_ns - sent_ns) / 1e6 AS e2e_ms
    FROM requests WHERE NOT warmup AND probed IS NOT NULL ORDER BY launch, context_tokens, request
"""
# One token a cycle: then a request's cycles can be counted also where the server doesn't count them.
_PLAIN = """
    SELECT launch, context_tokens, bool_and(tokens = 1) AS plain
    FROM cycles WHERE counted AND source = 'probe' GROUP BY launch, context_tokens
"""


@dataclass(frozen=True)
class ProbeCost:
    """One figure of one cell, with the probe recording and without.

    Attributes:
        stack, context_tokens: the cell.
        metric: a name of `UNITS`.
        on, off: means over requests.
        difference: mean of on - off over pairs of neighbours, in the metric's unit.
        share: the same as a fraction of `off`.
        over: what the intervals are taken over: `launches`, or `pairs of one launch`.
        pairs: pairs of requests in all.
    """

    stack: str
    context_tokens: int
    metric: str
    on: float
    off: float
    difference: Interval
    share: Interval
    over: str
    pairs: int


def probe_costs(connection: duckdb.DuckDBPyConnection) -> tuple[ProbeCost, ...]:
    """The probe's cost in each cell of a run that switched it by request; empty for any other run.

    With several launches the interval is that of the launches' mean differences; with one it is taken over
    the pairs inside it, and says nothing of another launch. Requests that failed leave their pair out.

    Args:
        connection: with the views of `store.StoredRun.connect`.
    """
    requests = connection.execute(_REQUESTS).df()
    if requests.empty:
        return ()
    pairs = _pairs(
        requests.merge(connection.execute(_PLAIN).df(), on=["launch", "context_tokens"], how="left")
    )
    return tuple(_costs(pairs))


def _pairs(requests: pd.DataFrame) -> pd.DataFrame:
    """One row a pair of counted neighbours: launch, stack, context_tokens, and METRIC_on and METRIC_off."""
    keys = ["launch", "stack", "context_tokens"]
    plain = requests["plain"].fillna(False).astype(bool)
    cycles = requests["verify_cycles"].where(requests["verify_cycles"] > 0)
    cycles = cycles.fillna(requests["later_tokens"].where(plain)).astype(float)
    requests = requests.assign(cycle_us=requests["decode_us"] / cycles.where(cycles > 0))
    requests["pair"] = requests.groupby(keys).cumcount() // 2
    counted = requests[requests["counted"]]
    one = counted[counted["probed"]]
    other = counted[~counted["probed"].astype(bool)]
    return one.merge(other, on=[*keys, "pair"], suffixes=("_on", "_off"))


def _costs(pairs: pd.DataFrame) -> Iterator[ProbeCost]:
    for (stack, context), rows in pairs.groupby(["stack", "context_tokens"], sort=False):
        for metric in UNITS:
            known = rows[["launch", f"{metric}_on", f"{metric}_off"]].astype(float).dropna()
            if not known.empty:
                by_launch = [frame for _, frame in known.groupby("launch")]
                yield _cost(str(stack), int(str(context)), metric, by_launch)


def _cost(stack: str, context: int, metric: str, launches: Sequence[pd.DataFrame]) -> ProbeCost:
    differences = [frame[f"{metric}_on"] - frame[f"{metric}_off"] for frame in launches]
    offs = [float(frame[f"{metric}_off"].mean()) for frame in launches]
    if len(launches) > 1:
        over = OVER_LAUNCHES
        values = [float(pairs.mean()) for pairs in differences]
        shares = [value / off if off else math.nan for value, off in zip(values, offs, strict=True)]
    else:
        over = OVER_PAIRS
        values = [float(value) for value in differences[0]]
        shares = [value / offs[0] if offs[0] else math.nan for value in values]
    together = pd.concat(list(launches))
    return ProbeCost(
        stack=stack,
        context_tokens=context,
        metric=metric,
        on=float(together[f"{metric}_on"].mean()),
        off=float(together[f"{metric}_off"].mean()),
        difference=of_mean(values, CONFIDENCE),
        share=of_mean(shares, CONFIDENCE),
        over=over,
        pairs=len(together),
    )
