"""`RUN[:STACK]`: one side of a comparison, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchharness.errors import UsageError, nearest
from benchharness.metrics import Metric
from benchharness.plan import DUET, differences
from benchharness.records import Attestation, LaunchStatus, Run
from benchharness.store import StoredRun, find, open_run

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Side:
    """One stack of one stored run."""

    stored: StoredRun
    stack: str

    @classmethod
    def of(cls, results: Path, text: str) -> Side:
        """Find the run and the stack; UsageError where either doesn't exist or isn't named."""
        run, colon, stack = _split(results, text)
        stored = open_run(find(results, run))
        names = [one.name for one in stored.run.plan.stacks]
        if not colon and len(names) == 1:
            return cls(stored, names[0])
        if not colon:
            raise UsageError(f"{run} has {len(names)} stacks", f"name one, as {run}:{names[0]}")
        if stack not in names:
            raise UsageError(f"{run} has no stack {stack!r}{nearest(stack, names)}")
        return cls(stored, stack)

    @property
    def name(self) -> str:
        """For people: run id and stack."""
        return f"{self.stored.run.id}:{self.stack}"

    def means(self, metrics: Sequence[Metric] = ()) -> pd.DataFrame:
        """The launch values of this stack (see `stats.launch_means`): all means, and percentiles as asked."""
        from benchharness.stats.launch_means import launch_means, plain_metrics

        wanted = dict.fromkeys((*plain_metrics(), *metrics))
        return launch_means(self.stored.connect(self.stack), tuple(wanted))

    def requests(self, metric: Metric) -> pd.DataFrame:
        """The values of this stack's requests (see `stats.launch_means.request_values`)."""
        from benchharness.stats.launch_means import request_values

        return request_values(self.stored.connect(self.stack), metric)

    @property
    def attestation(self) -> Attestation:
        """What really ran, as the first launch that was timed attests it; empty where none was."""
        launches = (one for one in self.stored.launches if one.stack == self.stack)
        timed = (one.attestation for one in launches if one.status == LaunchStatus.DONE)
        return next(timed, Attestation())

    def differences(self, other: Side) -> dict[str, tuple[str, ...]]:
        """What was declared differently: path -> value here, value there."""
        mine = self.stored.run.plan.stack(self.stack)
        return differences((mine, other.stored.run.plan.stack(other.stack)))

    def other_ruler(self, other: Side) -> dict[str, tuple[str, str]]:
        """What the other side was measured with that this one was not: name -> here, there."""
        here, there = self.ruler(), other.ruler()
        # In one run all is timed by one probe: methods that only one stack has make no other ruler.
        same_run = self.stored.path == other.stored.path
        names = [name for name in here if not (same_run and name == "probe.hooks")]
        return {name: (here[name], there[name]) for name in names if here[name] != there[name]}

    def ruler(self) -> dict[str, str]:
        """What this side was measured with: harness, client, probe, and where its cycles come from."""
        run = self.stored.run
        found = self.stored.cycle_sources(self.stack)
        return {
            "harness": run.harness_version,
            "client.transport": str(run.client.get("transport", "unknown")),
            "probe": str(run.plan.probe).lower(),
            "probe.hooks": self.attestation.ruler.get("hooks", "-"),
            "cycles": ", ".join(f"{source} by {clock} clock" for source, clock in found) or "none",
        }

    def conditions(self, other: Side) -> dict[str, tuple[str, str]]:
        """What differs of the machine: name -> value here, value there."""
        here, there = _conditions(self.stored.run), _conditions(other.stored.run)
        names = [name for name in {**here, **there} if here.get(name) != there.get(name)]
        return {name: (here.get(name, "-"), there.get(name, "-")) for name in names}


def both(first: Side, second: Side, metrics: Sequence[Metric]) -> tuple[pd.DataFrame, pd.DataFrame, bool]:
    """The launch values of both sides as `compare` takes them, and whether they are those of a duet."""
    if first.stored.path.resolve() == second.stored.path.resolve() and first.stored.run.plan.pairing == DUET:
        from benchharness.stats import duet

        connections = first.stored.connect(first.stack), second.stored.connect(second.stack)
        return (*duet.sides(*connections, metrics), True)
    return first.means(metrics), second.means(metrics), False


_CHANGING = ("load_1min", "gpus")


def _conditions(run: Run) -> dict[str, str]:
    conditions = {f"machine.{name}": str(v) for name, v in run.machine.items() if name not in _CHANGING}
    gpus = [f"{gpu.get('name')} (driver {gpu.get('driver')})" for gpu in run.machine.get("gpus", [])]
    return {**conditions, "machine.gpus": ", ".join(gpus) or "none"}


def _split(results: Path, text: str) -> tuple[str, str, str]:
    """Run, colon, stack: parted at the first colon that leaves a run before it. Paths may hold colons."""
    parts = text.split(":")
    for count in range(1, len(parts) + 1):
        run = ":".join(parts[:count])
        try:
            find(results, run)
        except UsageError:
            continue
        return run, ":" if count < len(parts) else "", ":".join(parts[count:])
    return text.partition(":")
