"""Launches that never ran: spread between them, correlated requests, drift and heavy tails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

REQUESTS = 20
"""Requests of a launch."""


@dataclass(frozen=True)
class Scene:
    """What launches are like; spreads are of the log of one request, in deviations of one request.

    Attributes:
        share: of the variance of a request that lies between launches.
        correlation: of neighbouring requests.
        drift: deviations of a launch mean that the host moves by from one launch to the next.
        tails: `gauss`, `t3` or `lognormal`: how launches differ.
    """

    share: float = 0.5
    correlation: float = 0.4
    drift: float = 0.0
    tails: str = "gauss"


def effects(random: np.random.Generator, tails: str, shape: tuple[int, ...]) -> Floats:
    """Values of mean 0 and variance 1."""
    if tails == "t3":
        return random.standard_t(3, shape) / np.sqrt(3.0)
    if tails == "lognormal":
        raw = np.exp(random.normal(0.0, 1.0, shape))
        return (raw - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)
    return random.standard_normal(shape)


def noise(random: np.random.Generator, correlation: float, shape: tuple[int, ...]) -> Floats:
    """First-order autoregressive values of variance 1 along the last axis."""
    out = random.standard_normal(shape)
    fresh = np.sqrt(1 - correlation**2)
    for at in range(1, shape[-1]):
        out[..., at] = correlation * out[..., at - 1] + fresh * out[..., at]
    return out


def requests(
    random: np.random.Generator, scene: Scene, draws: int, launches: int, *, interleaved: bool = True
) -> Floats:
    """Draws x 2 sides x launches x requests.

    Interleaved launches stand AB BA AB ..., others AA..BB, and the drift follows their order in time.
    """
    shape = (draws, 2, launches)
    between = np.sqrt(scene.share) * effects(random, scene.tails, shape)
    inside = np.sqrt(1 - scene.share) * noise(random, scene.correlation, (*shape, REQUESTS))
    values = between[..., None] + inside
    if scene.drift:
        block = np.arange(launches)
        odd = block % 2
        first, second = (2 * block + odd, 2 * block + 1 - odd) if interleaved else (block, launches + block)
        spread = values.mean(axis=-1).std(axis=-1, ddof=1).mean()
        values = values + scene.drift * spread * np.stack([first, second])[None, :, :, None]
    return values
