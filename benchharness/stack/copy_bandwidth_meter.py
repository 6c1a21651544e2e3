"""Measures how fast a device copies its own memory, with the torch of the environment under test.

The harness starts this file by its path:

    python copy_bandwidth_meter.py cuda|cpu OUTPUT

It writes `{"device": NAME, "copy_bytes_per_s": FLOAT}`, bytes read and bytes written counted, the middle of
several copies of a block far larger than the device's caches.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

REPEATS = 15
BYTES = {"cuda": 2 << 30, "cpu": 256 << 20}


def main() -> None:
    """Measure and write."""
    device, output = sys.argv[1:]
    size = BYTES[device]
    if device == "cuda":
        # An engine that shares the device must not be driven out of memory.
        size = min(size, torch.cuda.mem_get_info()[0] // 4)
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = []
    for _ in range(REPEATS + 2):
        if device == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            target.copy_(source)
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1000)
        else:
            began = time.perf_counter()
            target.copy_(source)
            times.append(time.perf_counter() - began)
    middle = sorted(times[2:])[REPEATS // 2]
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    content = {"device": name, "copy_bytes_per_s": 2 * size / middle}
    Path(output).write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    main()
