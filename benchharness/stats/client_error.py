"""The smallest change that the client lets anybody see, from its own self-test.

A stamp that is late by so much shifts a time to first token by that much, and a mean gap by what is
left of it after averaging; the self-test measured both on the machine of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_BY_GAPS = ("itl_ms", "chunk_gap_ms", "tpot_ms", "decode_tok_s")
_BY_STAMPS = ("ttft_ms", "e2e_ms")
_BY_CYCLES = ("cycle_ms", "draft_ms", "verify_ms", "draft_extend_ms")


@dataclass(frozen=True)
class ClientError:
    """The client's error in a run, or the larger one of two runs.

    Attributes:
        gap_ms: error of a mean gap between tokens.
        stamp_ms: 99th percentile of the error of one stamp.
        client_cycles: cycles were taken with the client's clock, so they carry its error.
    """

    gap_ms: float = 0.0
    stamp_ms: float = 0.0
    client_cycles: bool = False

    @classmethod
    def of(cls, selftests: Sequence[Mapping[str, Any]], *, client_cycles: bool) -> ClientError:
        """From the self-tests that were stored with the runs compared; the worst one counts."""
        gaps = [test["smallest_effect_fraction"] * test["interval_ms"] for test in selftests if test]
        stamps = [test["smallest_ttft_effect_us"] / 1e3 for test in selftests if test]
        return cls(max(gaps, default=0.0), max(stamps, default=0.0), client_cycles)

    def floor(self, metric: str, value: float, gap_ms: float) -> float:
        """Smallest change of a metric that can be told from the client, as a fraction.

        Args:
            metric: its name.
            value: the baseline's value in the metric's own unit.
            gap_ms: the baseline's mean gap between tokens, for rates; NaN where not known.
        """
        if metric in _BY_STAMPS:
            return self.stamp_ms / value if value > 0 else 0.0
        if metric == "decode_tok_s" or metric == "output_tok_s":
            return self.gap_ms / gap_ms if gap_ms > 0 else 0.0
        if metric in _BY_GAPS or (metric in _BY_CYCLES and self.client_cycles):
            return self.gap_ms / value if value > 0 else 0.0
        return 0.0
