"""What a campaign asks: which axis or factors, between which ends, by which metric, how sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

COMMIT = "commit"
RELEASE = "release"
FACTORS = "factors"


@dataclass(frozen=True)
class Question:
    """One hunt, as it was asked. It never changes while the campaign goes on.

    Attributes:
        experiment: name of the experiment whose stack and work are used.
        kind: one axis, or the differences of two stacks.
        axis: `commit`, `release`, a package, or a path such as `args.x`; empty for factors.
        good, bad: the ends: revisions, versions, values; names of stacks for factors.
        stack: the experiment's stack that the axis goes through; empty for factors.
        metric: what is judged, by its name.
        contexts: context lengths that it is judged at, all together.
        confidence: that the verdict is to have, 0 to 1.
        most_launches: budget.
        most_hours: budget of wall time; None without one.
        repeats: trials of each cell that a launch begins with.
        seed: of prompts and orders.
        paths: of commits, only those that change something below these.
        merges: a merge that is the culprit is entered.
        prereleases, yanked: of releases, take those too.
        every: go on after the first culprit, until nothing is left that is worth a word.
    """

    experiment: str
    kind: Literal["axis", "factors"]
    axis: str
    good: str
    bad: str
    stack: str
    metric: str
    contexts: tuple[int, ...]
    confidence: float = 0.95
    most_launches: int = 150
    most_hours: float | None = None
    repeats: int = 1
    seed: int = 1
    paths: tuple[str, ...] = ()
    merges: bool = False
    prereleases: bool = False
    yanked: bool = False
    every: bool = False

    @property
    def title(self) -> str:
        """For people, in one line."""
        what = "which differences" if self.kind == FACTORS else f"which {self.axis}"
        return f"{what} between {self.good} (good) and {self.bad} (bad) changed {self.metric}"
