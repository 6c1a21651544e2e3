"""What a process has told of itself so far: who it is, what was wrapped, what went wrong."""

from __future__ import annotations

import sys

from . import process
from .rowfile import RowFile

MOST_FAULTS = 3


class Journal:
    """Facts of the process, written as they become known; nothing raised here leaves it.

    Args:
        rows: the process's file; None in a forked child, until `rows` is set again.
        declared: names of variables whose values are wanted beside the allow-list.

    Attributes:
        broken: the file takes nothing any more.
        has_cycles: a method that stands for a cycle was found.
        graph_roles: the roles of graph replay that were found: without one nothing is known of graphs.
    """

    def __init__(self, rows: RowFile | None, declared: tuple[str, ...]) -> None:
        self.rows = rows
        self.broken = False
        self.has_cycles = False
        self.graph_roles: set[str] = set()
        self._declared = declared
        self._hooks: list[str] = []
        self._absent: list[str] = []
        self._workers: list[str] = []
        self._faults: dict[str, dict[str, object]] = {}

    def tell(self, facts: dict[str, object]) -> None:
        """Write facts."""
        if self.rows is None or self.broken:
            return
        try:
            self.rows.facts(facts)
        except Exception as error:  # noqa: BLE001  (the engine goes on without a probe)
            self.broken = True
            sys.stderr.write(f"benchharness probe: nothing more is recorded in this process: {error!r}\n")

    def starts(self) -> None:
        """A process that has imported the engine: it may never do more."""
        try:
            facts = {**process.start(), **process.environment(self._declared)}
            self.tell({**facts, "hooks": self._hooks, "absent": self._absent})
        except Exception as error:  # noqa: BLE001
            self.fault("start", error)

    def found(self, hooks: list[str], absent: list[str]) -> None:
        """A module was just imported: what was wrapped in it, and what it lacks."""
        self._hooks += hooks
        self._absent += absent
        self.tell({"hooks": self._hooks, "absent": self._absent})

    def ranked(self, runner: object) -> None:
        """The process knows its rank now. The environment is the one that the engine has made by now."""
        try:
            facts = {**process.rank(runner), **process.environment(self._declared), **process.versions()}
            self.tell(facts)
        except Exception as error:  # noqa: BLE001
            self.fault("rank", error)
        try:
            reduced = process.all_reduce()
            if reduced:
                self.tell(reduced)
        except Exception as error:  # noqa: BLE001
            self.fault("all_reduce", error)

    def works(self, worker: type, clock: str) -> None:
        """A class of worker runs its first cycle."""
        self._workers.append(worker.__name__)
        facts: dict[str, object] = {"workers": self._workers, "clock": clock}
        self.tell({**facts, **process.versions()})

    def fault(self, where: str, error: BaseException) -> bool:
        """Count a fault; true where there were so many of its kind that its cause must be switched off."""
        known = self._faults.setdefault(where, {"count": 0})
        count = int(str(known["count"])) + 1
        off = count >= MOST_FAULTS
        known.update(count=count, last=f"{type(error).__name__}: {error}"[:300], off=off)
        if count <= MOST_FAULTS:
            self.tell({"faults": self._faults})
        return off
