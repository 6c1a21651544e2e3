"""When requests are sent and how long they are: arithmetic from a workload's declaration and a seed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from pathlib import Path

from benchharness.errors import UsageError, nearest
from benchharness.records import Workload
from benchharness.workload.trace_file import read_trace


@dataclass(frozen=True, slots=True)
class Arrival:
    """One measured request of an open loop.

    Attributes:
        due_s: seconds from the start of the measured part.
        context_tokens, output_tokens: its lengths, where a trace file gives them.
    """

    due_s: float
    context_tokens: int | None = None
    output_tokens: int | None = None


def arrivals(workload: Workload, seed: int = 0) -> tuple[Arrival, ...] | None:
    """When each measured request is due, in order; None for a closed loop.

    The same workload and seed give the same times on every machine.

    Args:
        workload: its `concurrency`, `rate_rps`, `arrivals`, `ramp_to_rps` and `trace_file` are used.
        seed: of Poisson arrivals.

    Raises:
        UsageError: the declaration is contradictory, or its trace file can't be used.
    """
    given = {name: getattr(workload, name) for name in ("concurrency", "rate_rps", "trace_file")}
    drivers = [name for name, value in given.items() if value is not None]
    if len(drivers) == 2 and workload.concurrency == 1:
        drivers.remove("concurrency")  # 1 is what a workload has that names none
    if len(drivers) != 1:
        raise UsageError(
            "a workload is driven by one of concurrency, rate_rps and trace_file; "
            f"this one names {' and '.join(drivers) or 'none'}",
            "keep one of them",
        )
    if drivers == ["concurrency"]:
        return None
    if workload.trace_file is not None:
        return _played(workload, Path(workload.trace_file))
    return tuple(Arrival(due_s) for due_s in _due_times(workload, seed))


def alternation(requests: int, seed: int) -> tuple[bool, ...]:
    """On or off for each request: neighbours are pairs of both, and which comes first is drawn.

    The second of two pairs has the order of the first one reversed (on off off on, or off on on off), so
    that a steady drift of the machine cancels within every four requests.

    Args:
        requests: how many; of an odd number the last one has no partner.
        seed: the same requests and seed give the same order on every machine.
    """
    generator = random.Random(seed)  # noqa: S311
    order: list[bool] = []
    while len(order) < requests:
        first = generator.random() < 0.5
        order += [first, not first, not first, first]
    return tuple(order[:requests])


def _due_times(workload: Workload, seed: int) -> list[float]:
    rate, count = workload.rate_rps or 0.0, workload.requests
    if not (rate > 0 and math.isfinite(rate)):
        raise UsageError(f"rate_rps is {rate:g}", "give a number of requests a second above 0")
    if workload.arrivals == "constant":
        return [number / rate for number in range(count)]
    if workload.arrivals == "ramp":
        return _ramp(rate, workload.ramp_to_rps, count)
    if workload.arrivals == "poisson":
        return _poisson(rate, count, seed)
    hint = nearest(workload.arrivals, ("poisson", "constant", "ramp"))
    raise UsageError(f"no arrivals {workload.arrivals!r}{hint}", "use poisson, constant or ramp")


def _poisson(rate: float, count: int, seed: int) -> list[float]:
    """Exponential gaps; drawn by inversion, so that no version of Python changes them."""
    generator = random.Random(seed)  # noqa: S311
    due, at = [], 0.0
    for _ in range(count):
        due.append(at)
        at -= math.log(1.0 - generator.random()) / rate
    return due


def _ramp(start: float, end: float | None, count: int) -> list[float]:
    """A rate that grows (or falls) evenly in time from `start` to `end` over `count` requests."""
    if end is None or not (end > 0 and math.isfinite(end)):
        raise UsageError("arrivals: ramp needs ramp_to_rps above 0", "give the rate at the ramp's end")
    if math.isclose(start, end, rel_tol=1e-9):
        return [number / start for number in range(count)]
    # Requests so far at time t: start t + slope t^2 / 2; solved for t.
    slope = (end * end - start * start) / (2 * count)
    return [(math.sqrt(start * start + 2 * slope * number) - start) / slope for number in range(count)]


def _played(workload: Workload, path: Path) -> tuple[Arrival, ...]:
    speedup = workload.trace_speedup
    if not (speedup > 0 and math.isfinite(speedup)):
        raise UsageError(f"trace_speedup is {speedup:g}", "give a number above 0")
    rows = read_trace(path, workload.requests)
    if len(rows) < workload.requests:
        raise UsageError(
            f"{path} has {len(rows)} requests, {workload.requests} are wanted", f"set requests to {len(rows)}"
        )
    start = rows[0].at_s
    return tuple(Arrival((row.at_s - start) / speedup, row.input_tokens, row.output_tokens) for row in rows)
