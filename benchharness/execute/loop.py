"""The loop that everything goes through: launch, drive, check, store.

`run` carries out what is left of a plan. A launch that fails is a result (it is stored with its
reason) and the loop goes on; a failure of the store ends it, since nothing more could be kept.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchharness import plan as plans
from benchharness.errors import UnbuildableError, UsageError
from benchharness.execute.observer import Observer
from benchharness.execute.prepared import prepare
from benchharness.execute.serving import Serving
from benchharness.plan import Cost
from benchharness.records import Launch, LaunchStatus, Plan, PlannedLaunch
from benchharness.stack import engines
from benchharness.store import RunFolder
from benchharness.workload import prompts

MOST_FAILED_STARTS = 2
"""Failed starts of one stack after which its other launches are not tried: a start can take minutes."""


def check(plan: Plan) -> None:
    """Refuse what can be seen to be wrong before anything is built; UsageError."""
    for stack in plan.stacks:
        engine = engines.named(stack.engine)
        engine.check(stack, plan.workloads)
        if plan.probe == "alternate" and not engine.probed:
            raise UsageError(
                f"measure.probe: alternate needs an engine that the probe knows, and {engine.name} is none",
                "set measure.probe to true, which is nothing for this engine",
            )
    for workload in plan.workloads:
        prompts.check(workload, plan.seed)


def guessed_costs(plan: Plan) -> dict[str, Cost]:
    """What launches will cost as far as can be said before anything was measured."""
    starts = {stack.name: engines.named(stack.engine).usual_start_s(stack) for stack in plan.stacks}
    return plans.guessed_costs(plan, starts)


def run(folder: RunFolder, cache: Path, observer: Observer) -> None:
    """Carry out the launches of a run that are not over yet.

    Raises InfrastructureError if results can't be stored, KeyboardInterrupt when interrupted; in
    both cases what was stored is whole and `run` can be called again for the rest.
    """
    plan = folder.run.plan
    done = folder.done()
    failed_starts: Counter[str] = Counter()
    for planned in plan.launches:
        if planned.index in done:
            continue
        observer.launch_begins(planned)
        place = folder.begin_launch(planned.index)
        if failed_starts[planned.stack] >= MOST_FAILED_STARTS:
            launch = _not_tried(planned)
        else:
            launch = _launch(plan, planned, folder, place, cache, observer)
        if launch.status == LaunchStatus.FAILED:
            failed_starts[planned.stack] += 1
        folder.end_launch(launch)
        observer.launch_ends(launch)
    folder.finish()


def _now() -> str:
    return datetime.now(UTC).astimezone().isoformat(timespec="milliseconds")


def _not_tried(planned: PlannedLaunch) -> Launch:
    return Launch(
        index=planned.index,
        block=planned.block,
        stack=planned.stack,
        seed=planned.seed,
        status=LaunchStatus.FAILED,
        started_at=_now(),
        reason=f"not tried: {MOST_FAILED_STARTS} launches of this stack failed before",
    )


def _launch(
    plan: Plan, planned: PlannedLaunch, folder: RunFolder, place: Path, cache: Path, observer: Observer
) -> Launch:
    """One launch from environment to end, as a record whatever happens in it."""
    stack = plan.stack(planned.stack)
    launch = Launch(
        index=planned.index,
        block=planned.block,
        stack=planned.stack,
        seed=planned.seed,
        status=LaunchStatus.DONE,
        started_at=_now(),
    )
    try:
        prepared = prepare(stack, cache, observer)
    except UnbuildableError as error:
        return replace(launch, status=LaunchStatus.UNBUILDABLE, reason=str(error))
    except UsageError as error:
        return replace(launch, status=LaunchStatus.FAILED, reason=str(error))
    launch = replace(launch, environment=prepared.environment)
    return Serving(plan, planned, prepared, folder, place, observer).measure(launch)
