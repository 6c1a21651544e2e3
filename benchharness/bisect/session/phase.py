"""Which part of a cycle a difference lies in."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchharness import attribution
from benchharness.bisect.session.effects import Effect
from benchharness.metrics import Metric

PHASES = (
    "cycle_ms",
    "draft_ms",
    "verify_ms",
    "draft_extend_ms",
    "accept_length",
    "ttft_ms",
    "decode_tok_s",
    "output_tok_s",
)
"""What is compared of parent and culprit, beside the metric itself."""

OF_CYCLES = ("output_tok_s", "decode_tok_s", "tpot_ms", "e2e_ms")
"""Metrics of requests that cycles make: of others no phase is to blame."""


OWN = {
    "draft_ms": "draft",
    "verify_ms": "verify",
    "draft_extend_ms": "draft-extend",
    "accept_length": "acceptance",
}
"""Metrics that are a part of the cycle themselves."""


def is_told(metric: Metric) -> bool:
    """Whether a part of the cycle can be to blame for a metric."""
    return metric.table in ("cycles", "tokens") or metric.name in OF_CYCLES


def main_phase(seen: Sequence[Effect], contexts: Sequence[int]) -> str:
    """The cause that moves the speed most, over these contexts; empty where cycles aren't known."""
    totals: dict[str, float] = {}
    for context in contexts:
        sides = []
        for side in ("before", "after"):
            means = {one.metric: getattr(one, side) for one in seen if one.context_tokens == context}
            sides.append(attribution.account({**means, "decode_tok_s": _stream_tok_s(means)}))
        if sides[0] is None or sides[1] is None:
            continue
        for one in attribution.waterfall(sides[0], sides[1]):
            totals[one.cause] = totals.get(one.cause, 0.0) + one.tok_s
    if not totals:
        return ""
    whole = math.copysign(1, sum(totals.values()))
    cause = max(totals, key=lambda name: whole * totals[name])
    return {"accept length": "acceptance", "overhead": "rest"}.get(cause, cause)


def _stream_tok_s(means: dict[str, float]) -> float:
    """A stream's speed as far as the cells tell it."""
    return means.get("decode_tok_s", means.get("output_tok_s", math.nan))
