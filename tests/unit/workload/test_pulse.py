"""The beat: a client that was held off is noticed, one that only waited is not."""

import asyncio
import time

import pytest

from benchharness.workload.clock import Offset, moved, sample_offset
from benchharness.workload.pulse import Pulse, held_off

GAPS = ((100, 200), (500, 600))


@pytest.mark.parametrize(
    ("since", "until", "wanted"),
    [
        *((0, 50, False), (0, 150, True), (150, 160, True), (200, 400, False)),
        *((199, 400, True), (300, 900, True), (700, 800, False)),
    ],
)
def test_held_off_between_two_moments(since: int, until: int, wanted: bool) -> None:
    assert held_off(GAPS, since, until) is wanted


def test_a_blocked_loop_leaves_a_gap() -> None:
    async def run() -> tuple[int, int]:
        pulse = Pulse()
        pulse.start()
        await asyncio.sleep(0.05)
        began = time.monotonic_ns()
        time.sleep(0.08)
        await asyncio.sleep(0.01)
        ended = time.monotonic_ns()
        pulse.stop()
        return sum(end - start > 70_000_000 for start, end in pulse.gaps), held_off(pulse.gaps, began, ended)

    assert asyncio.run(run()) == (1, True)


def test_a_gap_that_lasts_to_the_end_is_noted() -> None:
    async def run() -> list[tuple[int, int]]:
        pulse = Pulse()
        pulse.start()
        time.sleep(0.05)
        pulse.stop()
        return pulse.gaps

    ((start, end),) = asyncio.run(run())
    assert end - start >= 50_000_000


def test_the_offset_between_the_clocks_stays() -> None:
    first, second = sample_offset(), sample_offset()
    assert abs(first.ns - (time.time_ns() - time.monotonic_ns())) < 100_000_000
    assert moved(first, second) == 0


def test_a_shift_counts_beyond_the_limit_and_the_width_of_the_samples() -> None:
    assert moved(Offset(0, 0), Offset(60_000, 0)) == 60_000
    assert moved(Offset(0, 0), Offset(-60_000, 0)) == -60_000
    assert moved(Offset(0, 30_000), Offset(60_000, 30_000)) == 0
    assert moved(Offset(0, 0), Offset(40_000, 0)) == 0
