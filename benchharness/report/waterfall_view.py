"""The way from one stack's speed to another's, cause by cause, for people and programs."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from benchharness import attribution
from benchharness.attribution import Step
from benchharness.report import account_view
from benchharness.stats import positions


def waterfall(baseline: pd.DataFrame, candidate: pd.DataFrame) -> dict[int, tuple[Step, ...]]:
    """The steps from baseline to candidate at each context that both have; rows of one stack each."""
    first = {context: one for (_, context), one in account_view.accounts(baseline).items()}
    second = {context: one for (_, context), one in account_view.accounts(candidate).items()}
    steps = {at: attribution.waterfall(first[at], second[at]) for at in sorted(first.keys() & second.keys())}
    return {context: found for context, found in steps.items() if found}


def show_waterfall(console: Console, steps: dict[int, tuple[Step, ...]]) -> None:
    """Print what each cause adds to a stream's speed."""
    if not steps:
        return
    causes = [step.cause for step in max(steps.values(), key=len)]
    lines = Table(title="Where the difference comes from, tok/s of a stream", title_justify="left", box=None)
    lines.add_column("context", justify="right")
    for heading in (*causes, "together", "mostly"):
        lines.add_column(heading, justify="right")
    for context, found in steps.items():
        told = {step.cause: step for step in found}
        main = attribution.main_cause(found)
        cells = [_contribution(told.get(cause)) for cause in causes]
        whole = sum(step.tok_s for step in found)
        lines.add_row(str(context), *cells, f"{whole:+.2f}", main.cause if main else "-")
    console.print(lines)


def by_position(baseline: Any, candidate: Any) -> list[dict[str, Any]]:
    """What makes the difference of what cycles allow, in each part of the answers, by context.

    Args:
        baseline, candidate: connections over one stack each (see `store.StoredRun.connect`).

    Returns:
        `context_tokens`, `from_token` (where the part begins), and `steps` as of a waterfall: a client's
        overhead has no place within an answer, so they add up to the difference of the ceilings.
    """
    keys = ["context_tokens", "from_token"]
    joined = positions.by_position(baseline).merge(positions.by_position(candidate), on=keys)
    rows = []
    for row in joined.to_dict("records"):
        sides = [
            attribution.Account(
                row[f"ceiling_tok_s_{side}"],
                row[f"accept_length_{side}"],
                1000 * row[f"accept_length_{side}"] / row[f"ceiling_tok_s_{side}"],
                {"cycle": row[f"cycle_ms_{side}"]},
            )
            for side in ("x", "y")
        ]
        steps = attribution.waterfall(*sides)
        told = [
            {"cause": step.cause, "ms": step.ms if math.isfinite(step.ms) else None, "tok_s": step.tok_s}
            for step in steps
            if step.cause != "overhead"
        ]
        rows.append({**{key: int(row[key]) for key in keys}, "steps": told})
    return rows


def show_by_position(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print them, a line a context: what each part of the answers gains or loses."""
    for context in dict.fromkeys(row["context_tokens"] for row in rows):
        parts = [row for row in rows if row["context_tokens"] == context]
        if len(parts) > 1:
            told = "; ".join(
                f"from token {row['from_token']}: "
                + ", ".join(f"{step['cause']} {step['tok_s']:+.2f}" for step in row["steps"])
                for row in parts
            )
            console.print(f"by position in the answer, context {context}: {told} tok/s", soft_wrap=True)


def acceptance_lost(baseline: Any, candidate: Any) -> dict[int, int]:
    """First draft position from which acceptance fell, by context; contexts without such a fall are left out.

    Args:
        baseline, candidate: connections over one stack each (see `store.StoredRun.connect`).
    """
    there, here = (
        {context: tokens for (_, context), tokens in account_view.accepted_tokens(side).items()}
        for side in (baseline, candidate)
    )
    falls = {
        context: attribution.collapses_from(
            attribution.acceptance_by_position(there[context]),
            attribution.acceptance_by_position(here[context]),
        )
        for context in sorted(there.keys() & here.keys())
    }
    return {context: position for context, position in falls.items() if position is not None}


def show_acceptance(console: Console, falls: dict[int, int]) -> None:
    """Print from which draft position on fewer tokens are accepted."""
    for context, position in falls.items():
        console.print(f"context {context}: acceptance falls from draft position {position} on")


def _contribution(step: Step | None) -> str:
    if step is None:
        return "-"
    return f"{step.tok_s:+.2f}" + (f" ({step.ms:+.3f} ms)" if math.isfinite(step.ms) else "")


def document(steps: dict[int, tuple[Step, ...]]) -> list[dict[str, Any]]:
    """The waterfall for programs; `ms` is null for what is no part of the cycle."""
    return [
        {
            "context_tokens": context,
            "steps": [
                {"cause": step.cause, "ms": step.ms if math.isfinite(step.ms) else None, "tok_s": step.tok_s}
                for step in found
            ],
        }
        for context, found in steps.items()
    ]
