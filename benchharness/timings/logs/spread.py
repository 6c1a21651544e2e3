"""The median of any number of values in bounded memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_EXACT = 1 << 18
_STEP = np.log1p(0.0005)
_LOWEST = 1e-6
_BINS = 80_000


class Spread:
    """Collects positive values; exact up to 262,144 of them, within 0.03 % of the value beyond."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0
        self._pieces: list[npt.NDArray[np.float64]] = []
        self._bins: npt.NDArray[np.int64] | None = None

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Add values; NaN and infinite ones are left out."""
        values = values[np.isfinite(values)]
        if not len(values):
            return
        self.count += len(values)
        self._sum += float(values.sum())
        if self._bins is None:
            self._pieces.append(values.copy())
            if self.count > _EXACT:
                self._bin(np.concatenate(self._pieces))
                self._pieces = []
        else:
            self._bin(values)

    def _bin(self, values: npt.NDArray[np.float64]) -> None:
        place = np.log(np.maximum(values, _LOWEST) / _LOWEST) / _STEP
        counts = np.bincount(np.minimum(place, _BINS - 1).astype(np.int64), minlength=_BINS)
        self._bins = counts if self._bins is None else self._bins + counts

    @property
    def mean(self) -> float:
        """The mean; NaN of nothing."""
        return self._sum / self.count if self.count else float("nan")

    @property
    def median(self) -> float:
        """The median; NaN of nothing."""
        if not self.count:
            return float("nan")
        if self._bins is None:
            return float(np.median(np.concatenate(self._pieces)))
        place = int(np.searchsorted(np.cumsum(self._bins), self.count / 2))
        return float(_LOWEST * np.exp((place + 0.5) * _STEP))
