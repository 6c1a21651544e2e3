"""The stored runs, one line each, told from their manifests alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchharness.store import index
from benchharness.store.lineage import Member


@dataclass(frozen=True)
class RunSummary:
    """One line of a listing.

    Attributes:
        folder: the run's folder.
        run: its id.
        experiment: name of the experiment.
        created_at: ISO 8601 with offset.
        planned: launches that were planned.
        synthetic: made with a stand-in.
        finished: every planned launch has ended.
        hardware: the machine in a few words.
        stack_rows, work_rows: what `members` and `works` are made of when asked for.
    """

    folder: str
    run: str
    experiment: str
    created_at: str
    planned: int
    synthetic: bool
    finished: bool
    hardware: str
    stack_rows: Sequence[Sequence[Any]]
    work_rows: Sequence[Sequence[Any]]

    @property
    def path(self) -> Path:
        """The run's folder."""
        return Path(self.folder)

    @property
    def stacks(self) -> tuple[str, ...]:
        """Names of the stacks."""
        return tuple(row[0] for row in self.stack_rows)

    @property
    def members(self) -> tuple[Member, ...]:
        """The stacks, as they are over time."""
        return tuple(Member(*row) for row in self.stack_rows)

    @property
    def works(self) -> Mapping[int, str]:
        """Context length -> digest of the work."""
        return {row[0]: row[1] for row in self.work_rows}

    @cached_property
    def launches(self) -> int:
        """Launches that are over."""
        return index.launches_over(self.folder)


def runs(results: Path) -> Iterator[RunSummary]:
    """Every run under a results folder, oldest first; those with a damaged manifest are left out."""
    for folder, row in index.rows(results):
        yield RunSummary(folder, *row)
