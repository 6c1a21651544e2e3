"""From an experiment to launches in order (pure: the same experiment gives the same plan)."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import TYPE_CHECKING

from benchharness.errors import UsageError
from benchharness.records import Plan, PlannedLaunch, Stack, Workload

if TYPE_CHECKING:
    from benchharness.spec import Experiment

DUET = "duet"

GUESSED_TOKEN_S = 0.02
GUESSED_PROMPT_TOKEN_S = 0.0005


@dataclass(frozen=True)
class Cost:
    """Seconds that one launch of a stack took before: start and stop, and one request of each cell."""

    launch_s: float
    request_s: float


def make(experiment: Experiment) -> Plan:
    """Lay out the launches of an experiment.

    Interleaved: each block holds one launch of every stack in random order, and every second block
    runs in the reverse order of the one before, so that a steady drift of the machine cancels
    between the two. Within a block all launches drive the same prompts in the same order of cells.

    Duet: each block holds the first stack and one other, whose servers live at the same time. With more than
    two stacks there are blocks of the first one with each of the others.
    """
    measure = experiment.measure
    if measure.probe == "alternate":
        for workload in experiment.workloads:
            _refuse_unpaired(workload)
    for stack in experiment.stacks:
        _refuse_what_no_process_can_have(stack)
    names = [stack.name for stack in experiment.stacks]
    cells = len(experiment.workloads)
    if measure.script and measure.pairing == DUET:
        raise UsageError("measure.script runs against one engine alone, and a duet has two", "drop either")
    if measure.pairing == DUET:
        _refuse_no_duet(experiment)
        launches = _further((), names, cells, measure.launches, measure.seed, DUET)
    else:
        launches = _launches(names, cells, measure.launches, measure.seed, measure.pairing != "none")
    return Plan(
        experiment=experiment.name,
        stacks=experiment.stacks,
        workloads=experiment.workloads,
        launches=launches,
        pairing=measure.pairing,
        seed=measure.seed,
        start_timeout_s=measure.start_timeout_s,
        probe=measure.probe,
        script=measure.script,
    )


def beside(candidate: Plan, baselines: Sequence[Stack], launches: int) -> Plan:
    """The candidate's work once more, with baseline stacks in its blocks.

    Args:
        candidate: what a run did.
        baselines: stacks with names of their own.
        launches: of each stack.
    """
    stacks = (*baselines, *candidate.stacks)
    names = [stack.name for stack in stacks]
    return replace(
        candidate,
        experiment=f"{candidate.experiment}-gate",
        stacks=stacks,
        launches=_launches(names, len(candidate.workloads), launches, candidate.seed, interleaved=True),
        pairing="interleaved",
    )


def _launches(
    names: Sequence[str], cells: int, launches: int, seed: int, interleaved: bool
) -> tuple[PlannedLaunch, ...]:
    """All launches in order; those of a block have the same seed and order of cells."""
    random_ = random.Random(seed)  # noqa: S311 - an order, not a secret
    order = list(names)
    blocks: list[list[str]] = []
    for block in range(launches):
        order = order[::-1] if block % 2 else random_.sample(names, len(names))
        blocks.append(order)
    if interleaved:
        rows = [(block, name) for block, order in enumerate(blocks) for name in order]
    else:
        rows = [(block, name) for name in names for block in range(launches)]
    cell_orders = [tuple(random_.sample(range(cells), cells)) for _ in range(launches)]
    seeds = [random_.getrandbits(32) for _ in range(launches)]
    return tuple(
        PlannedLaunch(index, block, name, cell_orders[block], seeds[block])
        for index, (block, name) in enumerate(rows)
    )


def longer(plan: Plan, launches: int) -> Plan:
    """The plan with further launches of each stack in blocks at its end; its beginning stays as it is.

    The order goes on alternating, and each block's order and seed depend on its number alone, so that a plan
    that grows in two steps is the one that grows in one.

    Args:
        plan: interleaved or duet; UsageError for one without blocks.
        launches: of each stack (in a duet of more than two: of each but the first, which is in every block).
    """
    if plan.pairing == "none":
        raise UsageError(
            "measure.pairing: none has no blocks, so launches that are added later would not be comparable",
            "set measure.pairing to interleaved, or measure.launches to as many as are needed",
        )
    names = [stack.name for stack in plan.stacks]
    more = _further(plan.launches, names, len(plan.workloads), launches, plan.seed, plan.pairing)
    return replace(plan, launches=(*plan.launches, *more))


def is_grown_from(stored: Plan, plan: Plan) -> bool:
    """Whether a stored plan is this one, or this one grown by `longer`."""
    if stored.pairing == "none" or len(stored.launches) <= len(plan.launches):
        return stored == plan
    each = len(longer(plan, 1).launches) - len(plan.launches)
    further, rest = divmod(len(stored.launches) - len(plan.launches), each)
    return rest == 0 and longer(plan, further) == stored


def launches_of_each(plan: Plan) -> int:
    """Launches of each stack; in a duet, of each but the first one."""
    return sum(launch.stack == plan.stacks[-1].name for launch in plan.launches)


def _further(
    before: Sequence[PlannedLaunch], names: Sequence[str], cells: int, launches: int, seed: int, pairing: str
) -> tuple[PlannedLaunch, ...]:
    """Blocks after those that are planned. Every odd block reverses the one before it that has its stacks."""
    groups = [(names[0], other) for other in names[1:]] if pairing == DUET else [tuple(names)]
    orders = [[one.stack for one in rows] for rows in blocks(before)]
    made: list[PlannedLaunch] = []
    for block in range(len(orders), len(orders) + launches * len(groups)):
        random_ = random.Random(f"{seed} block {block}")  # noqa: S311
        turn, place = divmod(block, len(groups))
        group = groups[place]
        order = orders[block - len(groups)][::-1] if turn % 2 else random_.sample(group, len(group))
        orders.append(list(order))
        work, prompts = tuple(random_.sample(range(cells), cells)), random_.getrandbits(32)
        begin = len(before) + len(made)
        made += [PlannedLaunch(begin + at, block, name, work, prompts) for at, name in enumerate(order)]
    return tuple(made)


def blocks(launches: Sequence[PlannedLaunch]) -> list[tuple[PlannedLaunch, ...]]:
    """Launches that stand next to each other with the same block, in order."""
    return [tuple(rows) for _, rows in groupby(launches, key=lambda launch: launch.block)]


def _refuse_what_no_process_can_have(stack: Stack) -> None:
    """Names and values are handed to the system as they are; UsageError for those that it can't take."""
    for name, value in stack.env.items():
        if not name or "=" in name or "\0" in name + value:
            raise UsageError(
                f"stack {stack.name}: no process can have the variable {name!r} with the value {value!r}",
                "a name is not empty and has no `=`; neither name nor value has a NUL character",
            )
    paths = {"model.path": stack.model.path, "model.draft": stack.model.draft}
    for name, argument in {**paths, **{f"args.{key}": text for key, text in stack.args.items()}}.items():
        if isinstance(argument, str) and "\0" in argument:
            raise UsageError(
                f"stack {stack.name}: {name} has a NUL character, which no argument can have", "take it out"
            )


def _refuse_unpaired(workload: Workload) -> None:
    """Requests with and without the probe are compared in pairs of neighbours, so one stream sends them."""
    wrong = None
    if workload.concurrency is None:
        wrong = "an open loop has requests side by side"
    elif workload.concurrency > 1:
        wrong = f"workload.concurrency is {workload.concurrency}"
    elif workload.turns > 1:
        wrong = "the turns of a conversation (workload.turns) are no equal requests"
    if wrong:
        raise UsageError(
            f"measure.probe: alternate switches the probe by request and needs a closed loop of one "
            f"stream, but {wrong}",
            "set workload.concurrency to 1 without rate_rps, trace_file and turns, or measure.probe to true",
        )
    if workload.requests % 2:
        raise UsageError(
            f"measure.probe: alternate compares requests in pairs, but workload.requests is "
            f"{workload.requests}",
            f"set it to {workload.requests + 1}",
        )


def _refuse_no_duet(experiment: Experiment) -> None:
    """Two servers at a time, and one request at a time."""
    if len(experiment.stacks) < 2:
        raise UsageError(
            "measure.pairing: duet needs two stacks, and this experiment has one",
            "give its matrix two values, or set measure.pairing to interleaved",
        )
    if experiment.measure.probe == "alternate":
        raise UsageError(
            "measure.pairing: duet and measure.probe: alternate both pair requests, in different ways",
            "set measure.probe to true",
        )
    for workload in experiment.workloads:
        if workload.concurrency != 1:
            what = "an open loop" if workload.concurrency is None else f"{workload.concurrency} streams"
            raise UsageError(
                f"measure.pairing: duet sends one request at a time, and the workload is {what}",
                "set workload.concurrency to 1 without rate_rps and trace_file, or measure.pairing to "
                "interleaved",
            )


def requests_of(plan: Plan, launch: PlannedLaunch) -> int:
    """Requests that a launch will send, warm-up included."""
    chosen = [plan.workloads[index] for index in launch.workloads]
    return sum(
        workload.requests + (1 if workload.warmup_requests is None else workload.warmup_requests)
        for workload in chosen
    )


@dataclass(frozen=True)
class Remaining:
    """How long what is left of a plan will take, corrected by what was seen on the way."""

    plan: Plan
    costs: Mapping[str, Cost]

    def seconds(self, over: int, elapsed_s: float) -> float:
        """Seconds left after `over` launches of the plan took `elapsed_s` in all."""
        rest = replace(self.plan, launches=self.plan.launches[over:])
        if over == 0:
            return estimate_s(rest, self.costs)
        first = replace(self.plan, launches=self.plan.launches[:over])
        return estimate_s(rest, self.costs) * elapsed_s / max(estimate_s(first, self.costs), 1e-9)


def guessed_costs(plan: Plan, start_s: Mapping[str, float]) -> dict[str, Cost]:
    """Costs before anything was measured, from the usual start of each stack's engine."""
    requests = [
        workload.output_tokens * GUESSED_TOKEN_S + workload.context_tokens * GUESSED_PROMPT_TOKEN_S
        for workload in plan.workloads
    ]
    return {name: Cost(start, sum(requests) / len(requests)) for name, start in start_s.items()}


def estimate_s(plan: Plan, costs: Mapping[str, Cost]) -> float:
    """Seconds that the plan will take at these costs, one for each stack."""
    return sum(
        costs[launch.stack].launch_s + costs[launch.stack].request_s * requests_of(plan, launch)
        for launch in plan.launches
    )


def differences(stacks: tuple[Stack, ...]) -> dict[str, tuple[str, ...]]:
    """What sets the stacks apart: path -> its value in each stack, only where they differ."""
    flat = [_flat(stack) for stack in stacks]
    paths = sorted({path for one in flat for path in one})
    rows = {path: tuple(one.get(path, "-") for one in flat) for path in paths}
    return {path: values for path, values in rows.items() if len(set(values)) > 1}


def _flat(stack: Stack) -> dict[str, str]:
    flat = {
        "engine": stack.engine,
        "source.release": stack.source.release,
        "source.repo": stack.source.repo,
        "source.commit": stack.source.commit,
        "source.patch": stack.source.patch,
        "python": stack.python,
        "model.path": stack.model.path,
        "model.draft": stack.model.draft,
        "model.recipe": stack.model.recipe,
        "model.seed": stack.model.seed,
        "model.tp": stack.model.tp,
        **{f"packages.{key}": value for key, value in stack.packages.items()},
        **{f"env.{key}": value for key, value in stack.env.items()},
        **{f"args.{key}": value for key, value in stack.args.items()},
    }
    return {path: str(value) for path, value in flat.items() if value is not None}


def without(plan: Plan, done: Collection[int]) -> Plan:
    """The plan with the launches left out that are over; of a duet only both are."""
    rows = blocks(plan.launches) if plan.pairing == DUET else [(one,) for one in plan.launches]
    left = [row for row in rows if any(one.index not in done for one in row)]
    return replace(plan, launches=tuple(one for row in left for one in row))


def refuse_other_work(first: Sequence[Workload], second: Sequence[Workload]) -> None:
    """Refuse to compare cells that do different work; UsageError that names what differs.

    The number of requests may differ: it changes how sure a figure is, not what it is.
    """
    for one in first:
        for other in second:
            if one.context_tokens == other.context_tokens:
                for field in fields(Workload):
                    here, there = getattr(one, field.name), getattr(other, field.name)
                    if field.name not in _NOT_THE_WORK and here != there:
                        raise UsageError(
                            f"the two sides do different work at context {one.context_tokens}: "
                            f"{field.name} is {here} and {there}",
                            "compare runs of one workload",
                        )


_NOT_THE_WORK = ("requests", "warmup_requests", "timeout_s")
