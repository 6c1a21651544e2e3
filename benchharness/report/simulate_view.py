"""Simulated campaigns, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console

from benchharness.report.console import number, sentence, table

if TYPE_CHECKING:
    from benchharness.bisect.simulation import Scene, Summary


def show(
    console: Console,
    scene: Scene,
    confidence: float,
    ours: Summary,
    plain: Mapping[int, Summary],
    whole: Summary | None = None,
) -> None:
    """A line a kind of search; plain bisection by its repeats, and whole campaigns where they were made."""
    sentence(
        console,
        f"{scene.versions} versions, a change of {scene.effect:.3g} deviations of one measurement, "
        f"{scene.rho:.0%} of the variance between launches, {ours.trials} campaigns each",
    )
    rows = table("")
    rows.add_column("search")
    for heading in ("found", "wrong", "stated", "measurements", "launches", "hours", "could not tell"):
        rows.add_column(heading, justify="right")
    rows.add_row(f"by posterior, stop at {confidence:.4g}", *_cells(ours))
    if whole is not None:
        rows.add_row("the whole campaign, with ends and confirmation", *_cells(whole))
    for repeats, one in plain.items():
        rows.add_row(f"plain, {repeats} {'run' if repeats == 1 else 'runs'} a version", *_cells(one))
    console.print(rows)


def _cells(one: Summary) -> list[str]:
    return [
        f"{one.success:.1%}",
        f"{one.wrong:.1%}",
        number(100 * one.stated, 1) + ("%" if one.stated == one.stated else ""),
        number(one.mean_measurements, 1),
        number(one.mean_launches, 1),
        number(one.mean_hours, 2),
        f"{one.cannot_tell:.1%}",
    ]


def document(
    scene: Scene,
    confidence: float,
    ours: Summary,
    plain: Mapping[int, Summary],
    whole: Summary | None = None,
) -> dict[str, Any]:
    """The same for programs: the fields of `Summary`, `plain` by its repeats, and `whole` campaigns."""
    return {
        **asdict(ours),
        "confidence": confidence,
        "effect": scene.effect,
        "rho": scene.rho,
        "versions": scene.versions,
        "deviation": scene.deviation,
        "plain": {str(repeats): asdict(one) for repeats, one in plain.items()},
        "whole": None if whole is None else asdict(whole),
    }
