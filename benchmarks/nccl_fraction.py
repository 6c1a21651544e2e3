"""Chooses the 16 of 48 cells that experiments/sglang-two-gpus-nccl.yaml runs, and says what they can tell.

    python benchmarks/nccl_fraction.py

Cells are exchanged one at a time (Fedorov) from random starts, until no exchange makes the sum of two
things smaller: variances of all main effects and of all interactions with graphs, and the squares of what
interactions that are left out put into them, those that seem likely weighing more. Two cells are fixed: the
settings of the hunt with graphs, with and without EAGLE3, since others are held against them.
"""

from __future__ import annotations

import itertools
import random

import numpy as np

from benchharness.stats import fraction

LEVELS = {
    "PROTO": ("LL", "LL128", "Simple"),
    "ALGO": ("Ring", "Tree"),
    "P2P": ("on", "off"),
    "spec": ("none", "eagle3"),
    "graphs": ("on", "off"),
}
CELLS = 16
STARTS = 40
MODEL = fraction.terms(list(LEVELS), ["graphs"])
LIKELY = {("PROTO", "P2P"): 2.0, ("P2P", "spec"): 1.5, ("ALGO", "spec"): 0.7}
"""Interactions that are left out and weigh other than 1: what a protocol is worth depends on the path."""
VARIANCE = 4.0
"""Weight of variances against aliases."""

GRID = [dict(zip(LEVELS, chosen, strict=True)) for chosen in itertools.product(*LEVELS.values())]
FIXED = [
    place
    for place, cell in enumerate(GRID)
    if (cell["PROTO"], cell["ALGO"], cell["P2P"], cell["graphs"]) == ("LL", "Ring", "on", "on")
]


def columns(term: fraction.Term) -> np.ndarray:
    """Sum-to-zero columns of a term over the whole grid."""
    made = np.ones((len(GRID), 1))
    for factor in term:
        first, *others = LEVELS[factor]
        coded = np.array([[float(c[factor] == o) - float(c[factor] == first) for o in others] for c in GRID])
        made = np.einsum("ri,rj->rij", made, coded).reshape(len(GRID), -1)
    return made


LEFT_OUT = [pair for pair in itertools.combinations(LEVELS, 2) if pair not in MODEL]
X = np.hstack([np.ones((len(GRID), 1)), *(columns(term) for term in MODEL)])
Z = np.hstack([columns(term) * LIKELY.get(term, 1.0) for term in LEFT_OUT])


def badness(places: list[int]) -> float:
    """What is to be small; infinite where the model can't be told."""
    chosen = X[places]
    if np.linalg.matrix_rank(chosen) < chosen.shape[1]:
        return float("inf")
    inverse = np.linalg.pinv(chosen)[1:]
    return float(VARIANCE * (inverse**2).sum() + ((inverse @ Z[places]) ** 2).sum())


def exchanged(seed: int) -> tuple[float, list[int]]:
    """The best that one start comes to."""
    free = [place for place in range(len(GRID)) if place not in FIXED]
    places = FIXED + random.Random(seed).sample(free, CELLS - len(FIXED))  # noqa: S311 - a start
    best, better = badness(places), True
    while better:
        better = False
        for at, place in itertools.product(range(len(FIXED), CELLS), free):
            tried = [*places[:at], place, *places[at + 1 :]]
            if place not in places and badness(tried) < best - 1e-9:
                best, places, better = badness(tried), tried, True
    return best, places


def main() -> None:
    """Print the cells, and each effect's standard error and aliases."""
    best, places = min(exchanged(seed) for seed in range(STARTS))
    cells = [GRID[place] for place in sorted(places)]
    print(f"badness {best:.2f}")
    for cell in cells:
        print("  " + " ".join(f"{level:7}" for level in cell.values()))
    promised = fraction.errors(cells, MODEL)
    for effect in fraction.fit(cells, [0.0] * CELLS, MODEL).effects:
        holds = "; ".join(f"{share:+.2f} {name}" for name, share in effect.aliases.items())
        print(f"{effect.name:40} error {promised[effect.name]:.2f}  {holds}")


if __name__ == "__main__":
    main()
