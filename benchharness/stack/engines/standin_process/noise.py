"""Random factors on the declared times: of the launch, of a request, of a cycle."""

from __future__ import annotations

import fcntl
import math
import os
import random
import time
from bisect import bisect_right
from pathlib import Path

from .settings import Settings


def _log_normal(normal: float, cv: float) -> float:
    """A factor with mean 1 and coefficient of variation `cv` from a standard normal draw."""
    variance = math.log1p(cv * cv)
    return math.exp(math.sqrt(variance) * normal - variance / 2)


def _count_start(path: str) -> int:
    """How many processes started before this one with the same file, by its length in bytes."""
    with Path(path).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = os.fstat(file.fileno()).st_size
        file.write(b".")
    return before


def _interpolated(points: tuple[tuple[float, float], ...], position: float) -> float:
    """Linear between the points, constant outside them, 1 without any."""
    if not points:
        return 1.0
    after = bisect_right(points, (position, math.inf))
    if after == 0:
        return points[0][1]
    if after == len(points):
        return points[-1][1]
    (x0, y0), (x1, y1) = points[after - 1], points[after]
    return y0 + (y1 - y0) * (position - x0) / (x1 - x0)


class RequestNoise:
    """Draws of one request: independent of how requests interleave.

    Attributes:
        factor: multiplies its prefill.
        draws: for whatever else is random in it.
    """

    def __init__(self, settings: Settings, factor: float, cycle_factor: float, draws: random.Random) -> None:
        self._settings = settings
        self._cycle_factor = factor * cycle_factor
        self.factor = factor
        self.draws = draws

    def cycle_factor(self, position: int) -> float:
        """The factor on one cycle that starts at that token of the answer."""
        settings = self._settings
        factor = self._cycle_factor * _interpolated(settings.position_factors, position)
        if settings.cycle_cv:
            factor *= _log_normal(self.draws.gauss(0.0, 1.0), settings.cycle_cv)
        if settings.tail_share and self.draws.random() < settings.tail_share:
            factor *= settings.tail_factor
        return factor


class Noise:
    """Draws of one launch.

    Attributes:
        seed: what all draws come from; equal seeds and settings give equal draws.
        slow_mode: this launch is slow throughout.
        launch_factor: multiplies all times of this launch.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        seed = int.from_bytes(os.urandom(6), "big") if settings.noise_seed is None else settings.noise_seed
        start = _count_start(settings.launch_count_file) if settings.launch_count_file else 0
        self.seed = f"{seed}.{start}"
        draws = random.Random(f"launch {self.seed}")  # noqa: S311 - statistics, not secrets
        self.launch_factor = _log_normal(draws.gauss(0.0, 1.0), settings.launch_cv)
        self.slow_mode = draws.random() < settings.slow_mode_probability
        self._cycle_factor = settings.cycle_factor * (settings.slow_mode_factor if self.slow_mode else 1.0)
        self._origin_s = time.time() if settings.drift_origin_s is None else settings.drift_origin_s
        self._effects = random.Random(f"requests {self.seed}")  # noqa: S311
        self._effect = self._effects.gauss(0.0, 1.0)

    def request(self, index: int) -> RequestNoise:
        """The draws of the next request; call it once for each, in the order in which they start."""
        rho = self._settings.autocorrelation
        if index:
            self._effect = rho * self._effect + math.sqrt(1 - rho * rho) * self._effects.gauss(0.0, 1.0)
        drift = 1.0 + self._settings.drift_per_hour * (time.time() - self._origin_s) / 3600.0
        factor = self.launch_factor * max(drift, 0.01) * _log_normal(self._effect, self._settings.request_cv)
        draws = random.Random(f"request {self.seed} {index}")  # noqa: S311
        return RequestNoise(self._settings, factor, self._cycle_factor, draws)
