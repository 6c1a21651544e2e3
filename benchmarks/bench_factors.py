"""The search among the differences of two stacks, by simulation, with what plainer methods would find.

    python benchmarks/bench_factors.py            print the tables
    python benchmarks/bench_factors.py --write    and put them into docs/benchmarks.md

Every row has a seed of its own, so it comes out alike alone. `--trials 0.1` makes a tenth of the trials.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from scipy.linalg import hadamard

from benchharness.bisect.factors import Combination, Prior, Stop, Tried, believe, next_combination

DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench-factors:begin -->\n", "<!-- bench-factors:end -->\n"
FACTORS = 12
DEVIATION = 0.02
LEVEL = 1.0
MOST = 400
Random = np.random.Generator
ALL = frozenset(range(FACTORS))
UNKNOWN = Prior()
EARLIER = Prior(deviation=DEVIATION, deviation_launches=20)


@dataclass
class Machine:
    """Launches that never ran: one level where the whole culprit is taken, another where it isn't."""

    culprit: Combination
    shift: float
    random: Random
    tails: str = "gauss"
    offset: float = 0.0
    launched: list[Tried] = field(default_factory=list)
    shared: float = 0.0

    def launch(self, combination: Iterable[int]) -> float:
        """One launch; `offset` is the deviation of what three launches in a row share, in launches' own."""
        taken = frozenset(combination)
        if self.tails == "t3":
            noise = self.random.standard_t(3) / math.sqrt(3)
        else:
            noise = self.random.standard_normal()
        block, at = divmod(len(self.launched), 3)
        if at == 0:
            self.shared = self.offset * self.random.standard_normal()
        value = LEVEL + self.shift * (self.culprit <= taken) + DEVIATION * (noise + self.shared)
        self.launched.append(Tried(taken, value, block if self.offset else None))
        return value

    def is_bad(self, combination: Iterable[int], repeats: int) -> bool:
        """Whether the mean of some launches is nearer to the bad level; both levels are given as a gift."""
        return float(np.mean([self.launch(combination) for _ in range(repeats)])) > LEVEL + self.shift / 2


def one_at_a_time(machine: Machine, repeats: int) -> Combination:
    """Take each factor alone back out of the bad stack."""
    return frozenset(factor for factor in ALL if not machine.is_bad(ALL - {factor}, repeats))


def ddmin(machine: Machine, repeats: int) -> Combination:
    """Delta debugging (Zeller & Hildebrandt 2002)."""
    left, parts, known = sorted(ALL), 2, dict[tuple[int, ...], bool]()

    def bad(some: list[int]) -> bool:
        key = tuple(sorted(some))
        if key not in known:
            known[key] = bool(some) and machine.is_bad(some, repeats)
        return known[key]

    while len(left) >= 2:
        chunks = [list(map(int, chunk)) for chunk in np.array_split(left, parts)]
        others = [[factor for factor in left if factor not in chunk] for chunk in chunks]
        smaller = next((chunk for chunk in chunks if bad(chunk)), None)
        rest = next((other for other in others if bad(other)), None) if smaller is None else None
        if smaller is not None:
            left, parts = smaller, 2
        elif rest is not None:
            left, parts = rest, max(parts - 1, 2)
        elif parts >= len(left):
            break
        else:
            parts = min(len(left), 2 * parts)
    return frozenset(left)


def fraction(machine: Machine) -> Combination:
    """A 16-run two-level fraction, read by the same posterior with all parameters given."""
    for row in hadamard(16)[:, 1 : FACTORS + 1] > 0:
        machine.launch(map(int, np.flatnonzero(row)))
    return believe(FACTORS, machine.launched, known(machine.shift)).best


def known(shift: float) -> Prior:
    """Level, shift and deviation given, and that something acts."""
    return Prior(nothing=0.0, shift=shift, level=LEVEL, deviation=DEVIATION, deviation_launches=math.inf)


def ours(machine: Machine, prior: Prior, ends: int = 2) -> tuple[Combination, float]:
    """A campaign up to a confidence of 95 %: the set that it names, and how sure it says to be."""
    while True:
        tried = machine.launched
        belief = believe(FACTORS, tried, prior)
        chosen = next_combination(FACTORS, tried, belief, 0.95, ends=ends)
        if isinstance(chosen, Stop) or len(tried) >= MOST:
            return belief.best, belief.confidence
        machine.launch(chosen)


def drawn(random: Random, size: int | None) -> Combination:
    """A culprit; None draws its size as the prior has it."""
    if size is None:
        size = int(random.choice(len(UNKNOWN.by_size), p=UNKNOWN.by_size)) + 1
    return frozenset(map(int, random.choice(FACTORS, size, replace=False)))


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Markdown."""
    heads = list(heads)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


METHODS: dict[str, Callable[[Machine], Combination]] = {
    "one at a time, 5 launches each": lambda machine: one_at_a_time(machine, 5),
    "ddmin, 1 launch a step": lambda machine: ddmin(machine, 1),
    "ddmin, 5 launches a step": lambda machine: ddmin(machine, 5),
    "16-run fraction": fraction,
    "group testing, parameters given": lambda machine: ours(machine, known(machine.shift))[0],
    "group testing, deviation from earlier runs": lambda machine: ours(machine, EARLIER)[0],
    "group testing, nothing given": lambda machine: ours(machine, UNKNOWN)[0],
}


def launches(trials: int) -> str:
    """Launches until the culprit is named (share that is right), 12 factors.

    d: the shift over the deviation of a launch. A pair only acts together. The methods above the last two are
    given the good level and the shift as a gift; these two measure the ends themselves, and that counts.
    """
    rows = []
    for at, (name, find) in enumerate(METHODS.items()):
        row: list[object] = [name]
        for size, d in itertools.product((1, 2), (2.0, 5.0)):
            random = np.random.default_rng([81, at, size, int(d)])
            right, count = 0, 0
            for _ in range(trials):
                machine = Machine(drawn(random, size), d * DEVIATION, random)
                right += find(machine) == machine.culprit
                count += len(machine.launched)
            row.append(f"{count / trials:.1f} ({right / trials:.2f})")
        rows.append(row)
    return table(["method", "single, d=2", "single, d=5", "pair, d=2", "pair, d=5"], rows)


@dataclass(frozen=True)
class Scene:
    """How the truth of a trial is drawn; `shift` None draws it as the prior has it."""

    prior: Prior
    shift: float | None = 2 * DEVIATION
    tails: str = "gauss"
    offset: float = 0.0


SCENES = {
    "parameters given, d=2": Scene(known(2 * DEVIATION)),
    "nothing given, d=2": Scene(UNKNOWN),
    "nothing given, d from 1 to 10": Scene(replace(UNKNOWN, least_shift=0.02, most_shift=0.2), None),
    "deviation from earlier runs, d from 1 to 10": Scene(
        replace(EARLIER, least_shift=0.02, most_shift=0.2), None
    ),
    "deviation thought 3 times too small, d=2": Scene(replace(UNKNOWN, deviation=DEVIATION / 3)),
    "deviation thought 3 times too large, d=2": Scene(replace(UNKNOWN, deviation=DEVIATION * 3)),
    "launches by Student's t with 3 degrees, d=2": Scene(UNKNOWN, tails="t3"),
    "three launches share an offset of one deviation, d=2": Scene(UNKNOWN, offset=1.0),
}


def calibration(trials: int) -> str:
    """Stated confidence against the share of culprits that are right, at a wanted confidence of 95 %.

    Three of four culprits are singles, the rest pairs.
    """
    rows = []
    for at, (name, scene) in enumerate(SCENES.items()):
        random = np.random.default_rng([82, at])
        stated, right, count = 0.0, 0, 0
        for _ in range(trials):
            shift = scene.shift
            if shift is None:
                shift = float(
                    np.exp(random.uniform(*np.log([scene.prior.least_shift, scene.prior.most_shift])))
                )
            machine = Machine(drawn(random, None), shift, random, scene.tails, scene.offset)
            best, confidence = ours(machine, scene.prior)
            right += best == machine.culprit
            stated += confidence
            count += len(machine.launched)
        rows.append([name, f"{stated / trials:.3f}", f"{right / trials:.3f}", f"{count / trials:.1f}"])
    return table(["what is known beforehand, and the truth", "stated", "right", "launches"], rows)


TABLES: tuple[tuple[int, Callable[[int], str]], ...] = ((1000, launches), (1000, calibration))


def main(argv: list[str]) -> None:
    """Simulate, print, and with --write put the tables into the documentation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--trials", type=float, default=1.0, help="multiplies the number of trials")
    parser.add_argument("--only", default="", help="tables whose function's name holds this")
    options = parser.parse_args(argv)
    text = ""
    for trials, make in TABLES:
        if options.only in make.__name__:
            count = max(int(trials * options.trials), 20)
            began = time.perf_counter()
            title = "\n".join(line.strip() for line in (make.__doc__ or "").strip().splitlines())
            one = f"\n{title}\n\n{make(count)}"
            print(one, f"\n({count:,} trials, {time.perf_counter() - began:.0f} s)", flush=True)
            text += one
    if options.write and not options.only:
        before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
        DOCUMENT.write_text(before + BEGIN + text + "\n" + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
