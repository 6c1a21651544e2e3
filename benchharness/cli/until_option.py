"""`run --until decided`: the options, and the run that they ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from benchharness.execute.until import Told
    from benchharness.records import Plan
    from benchharness.records.goal import Goal
    from benchharness.stats.until import Outcome
    from benchharness.store import RunFolder

MOST_LAUNCHES = 20
UNDECIDED = 3


@dataclass(frozen=True)
class Until:
    """What the options say; `goal` is None without --until."""

    goal: Goal | None
    most_minutes: float | None

    @classmethod
    def of(cls, options: dict[str, Any]) -> Until:
        """From the command's options; UsageError for one that needs --until, or can't be."""
        from benchharness.cli.compare_command import parse_margin
        from benchharness.errors import UsageError
        from benchharness.metrics import named
        from benchharness.records.goal import Goal

        if options["until"] is None:
            for name in ("most_launches", "most_minutes", "metrics", "margin"):
                if options[name]:
                    option = "--" + name.removesuffix("s" if name == "metrics" else "").replace("_", "-")
                    raise UsageError(f"{option} is only for --until decided", "add it, or leave this out")
            return cls(None, None)
        names = tuple(named(name).name for name in dict.fromkeys(options["metrics"] or ("output_tok_s",)))
        goal = Goal(
            metrics=names,
            margin=parse_margin(options["margin"] or "1%"),
            confidence=0.95,
            most_launches=options["most_launches"] or MOST_LAUNCHES,
        )
        return cls(goal, options["most_minutes"])

    def check(self, plan: Plan) -> None:
        """Refuse what can never be decided; UsageError."""
        if self.goal is not None:
            from benchharness.execute import until

            until.check(plan, self.goal)

    def carry_out(self, folder: RunFolder, cache: Path, declared: Plan, told: Told) -> Outcome | None:
        """The run, with what is added to it; None without --until."""
        from benchharness.execute import loop, until

        if self.goal is not None:
            return until.run(folder, cache, declared, self.goal, self.most_minutes, told)
        from benchharness import plan

        with told.round(plan.without(folder.run.plan, folder.done())) as observer:
            loop.run(folder, cache, observer)
        return None


def until_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Lay the options of `--until` over a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--until",
        type=click.Choice(["decided"]),
        help="Add launches in rounds until every stack is judged against the first one of the matrix (the "
        "baseline) at every context, or a budget is spent. False alarms stay at 5 % over all looks.",
    ),
    click.option(
        "--most-launches",
        type=click.IntRange(min=2),
        help=f"Budget of --until: launches of each stack.  [default: {MOST_LAUNCHES}]",
    ),
    click.option(
        "--most-minutes",
        type=click.FloatRange(min=0, min_open=True),
        help="Budget of --until: minutes of this command. The experiment's own launches are always made.",
    ),
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        help="What --until judges by; may be repeated.  [default: output_tok_s]",
    ),
    click.option("--margin", help="Largest change that counts as none for --until.  [default: 1%]"),
)
