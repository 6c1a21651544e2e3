"""What launches of a stack took before: for estimates of what a plan will take."""

from __future__ import annotations

from pathlib import Path

from benchharness.errors import HarnessError
from benchharness.plan import Cost, requests_of
from benchharness.records import LaunchStatus
from benchharness.store.listing import runs
from benchharness.store.reading import open_run


def of_stacks(results: Path, experiment: str) -> dict[str, Cost]:
    """Cost of each stack in the last readable run of an experiment; empty if there is none."""
    for summary in reversed([one for one in runs(results) if one.experiment == experiment]):
        try:
            stored = open_run(summary.path)
            launches = stored.launches
        except HarnessError:
            continue
        plan = stored.run.plan
        costs: dict[str, Cost] = {}
        for launch in launches:
            requests = requests_of(plan, plan.launches[launch.index])
            if launch.status == LaunchStatus.DONE and requests:
                costs[launch.stack] = Cost(launch.start_s + launch.stop_s, launch.requests_s / requests)
        if costs:
            return costs
    return {}
