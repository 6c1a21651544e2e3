"""This project's client, run as `peer_clients.py` runs the others.

`own_client.py CLOCK URL STREAMS EVENTS INTERVAL_MS OUT`, where CLOCK is `kernel` or `user`. Writes one
JSON object to the file OUT; `cpu_s` is what was used before parsing, `parse_cpu_s` what parsing took.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from benchharness.workload import selftest


def main() -> None:
    """Run once and write what was seen."""
    clock, url, streams, events, interval_ms, out = sys.argv[1:7]
    user_clock = clock == "user"
    selftest.against(url, 1, 3, float(interval_ms), user_clock=user_clock)
    measured = selftest.against(url, int(streams), int(events), float(interval_ms), user_clock=user_clock)
    pairs = [
        np.stack([sent + error, sent], axis=1).astype(np.int64).tolist()
        for error, sent in zip(measured.error_ns, measured.sent_ns, strict=True)
    ]
    seen = {
        "wall_s": measured.wall_s,
        "cpu_s": measured.cpu_s,
        "parse_cpu_s": measured.parse_cpu_s,
        "ttft_ns": [trace.chunk_ns[0] - trace.sent_ns for trace in measured.traces],
        "pairs": pairs,
    }
    Path(out).write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
