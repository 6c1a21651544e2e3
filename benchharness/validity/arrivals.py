"""Did the client see the tokens when they came?"""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchharness.records import Finding, Trial
from benchharness.validity.counted import whole

NOTED_LATE_SHARE, MOST_LATE_SHARE = 0.05, 0.4
"""Shares of late samples from which on it is said, and from which on the trial is not judged."""

NOTED_SPAN_SHARE, LEAST_SPAN_SHARE = 0.95, 0.8
"""The client's span of the answers over the server's: below them it is said, or the trial not judged."""


def samples_not_late(trial: Trial) -> Iterator[Finding]:
    """The client read its samples in time."""
    reads = sum(trace.reads for trace in whole(trial))
    late = sum(trace.late_reads for trace in whole(trial))
    if reads and late / reads > NOTED_LATE_SHARE:
        yield Finding(
            "samples-not-late",
            late / reads > MOST_LATE_SHARE,
            f"the client read {late / reads:.0%} of its samples late (starved of CPU)",
        )


def arrivals_follow_the_server(trial: Trial) -> Iterator[Finding]:
    """Tokens arrived over as long a time as the server says that it took to make them."""
    server_ms = client_ms = 0.0
    for trace in whole(trial):
        if len(trace.chunk_server_ms) > 1 and not any(math.isnan(ms) for ms in trace.chunk_server_ms):
            server_ms += trace.chunk_server_ms[-1] - trace.chunk_server_ms[0]
            client_ms += (trace.chunk_ns[-1] - trace.chunk_ns[0]) / 1e6
    if server_ms > 0 and client_ms < NOTED_SPAN_SHARE * server_ms:
        yield Finding(
            "arrivals-follow-the-server",
            client_ms < LEAST_SPAN_SHARE * server_ms,
            f"tokens that took the server {server_ms:.0f} ms arrived within {client_ms:.0f} ms: "
            "something held them up on the way, so gaps between tokens are too short",
        )
