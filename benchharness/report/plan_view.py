"""A plan, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.markup import escape

from benchharness.machine.room import Room
from benchharness.plan import differences, requests_of
from benchharness.records import EnvironmentSpec, Needed, Plan
from benchharness.report.console import duration, sentence, table

MOST_NAMED = 6
"""Requirements that are listed one by one; of more only the engine's and torch."""


def show(
    console: Console,
    plan: Plan,
    environments: Mapping[str, Needed],
    seconds: float,
    *,
    measured: bool,
    room: Room | None = None,
) -> None:
    """Print stacks, environments, order and time; of a duet, whether both stacks fit on this machine."""
    contexts = ", ".join(str(workload.context_tokens) for workload in plan.workloads)
    requests = sum(requests_of(plan, launch) for launch in plan.launches)
    console.print(
        f"[bold]{plan.experiment}[/bold]: {len(plan.stacks)} stacks, {len(plan.launches)} launches, "
        f"{requests} requests, contexts {contexts} tokens"
    )
    apart = differences(plan.stacks)
    stacks = table("Stacks")
    for heading in ("stack", "environment", *apart):
        stacks.add_column(escape(heading), overflow="fold")
    for position, stack in enumerate(plan.stacks):
        holds = _told(environments[stack.name], stack.engine)
        cells = (stack.name, holds, *(values[position] for values in apart.values()))
        stacks.add_row(*map(escape, cells))
    console.print(stacks)
    order = table(f"Order ({plan.pairing})")
    order.add_column("block")
    order.add_column("launches", overflow="fold")
    for block, launches in groupby(plan.launches, key=lambda launch: launch.block):
        order.add_row(str(block), "  ".join(escape(launch.stack) for launch in launches))
    console.print(order)
    if room is not None:
        word = "[green]fits[/green]" if room.fits else "[red]does not fit[/red]"
        for line in room.sentences:
            sentence(console, f"{word}: {escape(line)}")
    basis = "from the last run of this experiment" if measured else "a guess: nothing was measured yet"
    console.print(f"Takes about {duration(seconds)} ({basis}; building environments not counted).")


def _told(needed: Needed, engine: str) -> str:
    if needed.reason:
        return f"unbuildable: {needed.reason}"
    return _holds(needed.spec, engine) if needed.spec else "the harness's own"


def _holds(spec: EnvironmentSpec, engine: str) -> str:
    """What an environment holds in a few words: a frozen set has a hundred lines and more."""
    if len(spec.requirements) <= MOST_NAMED:
        return ", ".join(spec.requirements)
    own = [line for line in spec.requirements if line.startswith((engine, "torch==")) and "-" not in line]
    first = own or list(spec.requirements[:1])
    return f"{', '.join(first)} and {len(spec.requirements) - len(first)} more"


def document(
    plan: Plan, environments: Mapping[str, Needed], seconds: float, room: Room | None = None
) -> dict[str, Any]:
    """The same for programs."""
    return {
        "experiment": plan.experiment,
        "stacks": [
            {
                "stack": stack.name,
                "requirements": list(spec.requirements) if (spec := environments[stack.name].spec) else None,
                "unbuildable": environments[stack.name].reason or None,
            }
            for stack in plan.stacks
        ],
        "launches": [
            {
                "index": launch.index,
                "block": launch.block,
                "stack": launch.stack,
                "context_tokens": [plan.workloads[index].context_tokens for index in launch.workloads],
            }
            for launch in plan.launches
        ],
        "pairing": plan.pairing,
        "room": None if room is None else {"fits": room.fits, "sentences": list(room.sentences)},
        "estimated_s": round(seconds, 1),
    }
