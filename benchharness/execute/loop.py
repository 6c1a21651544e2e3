"""The loop that everything goes through: launch, drive, check, store.

`run` carries out what is left of a plan. A launch that fails is a result (it is stored with its
reason) and the loop goes on; a failure of the store ends it, since nothing more could be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchharness import plan as plans
from benchharness.errors import UnbuildableError, UsageError
from benchharness.execute import duet, scripting
from benchharness.execute.observer import Observer
from benchharness.execute.prepared import prepare
from benchharness.execute.serving import Further, Serving
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
        if plan.probe == "alternate" and not engine.probed(stack):
            raise UsageError(
                f"measure.probe: alternate needs an engine that the probe knows, and {engine.name} is none",
                "set measure.probe to true, which is nothing for this engine",
            )
    if plan.script:
        scripting.check(plan.script)
    for workload in plan.workloads:
        prompts.check(workload, plan.seed)


def guessed_costs(plan: Plan) -> dict[str, Cost]:
    """What launches will cost as far as can be said before anything was measured."""
    starts = {stack.name: engines.named(stack.engine).usual_start_s(stack) for stack in plan.stacks}
    return plans.guessed_costs(plan, starts)


def run(
    folder: RunFolder,
    cache: Path,
    observer: Observer,
    *,
    last: bool = True,
    only: Collection[int] | None = None,
    further: Further | None = None,
) -> None:
    """Carry out the launches of a run that are not over yet.

    Args:
        folder: the run.
        cache: environments, sources and models.
        observer: who is told.
        last: no launches will be added to the plan: the run is finished then.
        only: indices of the launches to carry out; without it all, those that failed before once more.
        further: asked after a launch's planned trials what to drive once more in it; never in a duet.

    Raises InfrastructureError if results can't be stored, KeyboardInterrupt when interrupted; in
    both cases what was stored is whole and `run` can be called again for the rest.
    """
    plan = folder.run.plan
    left = [
        planned
        for planned in plans.without(plan, folder.done()).launches
        if only is None or planned.index in only
    ]
    failed_starts: Counter[str] = Counter()
    for group in plans.blocks(left) if plan.pairing == plans.DUET else [(one,) for one in left]:
        places = [folder.begin_launch(planned.index) for planned in group]
        given_up = [planned for planned in group if failed_starts[planned.stack] >= MOST_FAILED_STARTS]
        launches: Sequence[Launch]
        if given_up:
            failed = _not_tried(given_up[0], observer)
            launches = [failed if one is given_up[0] else _partner(one, failed) for one in group]
        else:
            launches = _launches(plan, group, folder, places, cache, observer, further)
        for launch in launches:
            failed_starts[launch.stack] += has_failed(launch)
            folder.end_launch(launch)
            observer.launch_ends(launch)
    if last:
        folder.finish()


def _now() -> str:
    return datetime.now(UTC).astimezone().isoformat(timespec="milliseconds")


def _begun(planned: PlannedLaunch) -> Launch:
    return Launch(
        index=planned.index,
        block=planned.block,
        stack=planned.stack,
        seed=planned.seed,
        status=LaunchStatus.DONE,
        started_at=_now(),
    )


def has_failed(launch: Launch) -> bool:
    """Whether the launch failed by itself, and not by its partner in a duet."""
    return launch.status == LaunchStatus.FAILED and not duet.is_of_partner(launch)


def _not_tried(planned: PlannedLaunch, observer: Observer) -> Launch:
    observer.launch_begins(planned)
    reason = f"not tried: {MOST_FAILED_STARTS} launches of this stack failed before"
    return replace(_begun(planned), status=LaunchStatus.FAILED, reason=reason)


def _launches(
    plan: Plan,
    group: Sequence[PlannedLaunch],
    folder: RunFolder,
    places: Sequence[Path],
    cache: Path,
    observer: Observer,
    further: Further | None,
) -> Sequence[Launch]:
    """One launch, or the two of a duet, from environment to end: records whatever happens."""
    observer.launch_begins(group[0])
    ready: list[Serving] = []
    begun: list[Launch] = []
    for planned, place in zip(group, places, strict=True):
        launch = _begun(planned)
        try:
            prepared = prepare(plan.stack(planned.stack), cache, observer)
        except (UnbuildableError, UsageError) as error:
            unbuildable = isinstance(error, UnbuildableError)
            status = LaunchStatus.UNBUILDABLE if unbuildable else LaunchStatus.FAILED
            failed = replace(launch, status=status, reason=str(error))
            return [failed if one is planned else _partner(one, failed) for one in group]
        begun.append(replace(launch, environment=prepared.environment))
        ready.append(Serving(plan, planned, prepared, folder, place, observer))
    if len(ready) == 1:
        return [ready[0].measure(begun[0], further)]
    return duet.measure((ready[0], ready[1]), (begun[0], begun[1]))


def _partner(planned: PlannedLaunch, failed: Launch) -> Launch:
    return replace(_begun(planned), status=failed.status, reason=duet.of_partner(failed))
