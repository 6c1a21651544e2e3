"""`benchharness compare`: two stacks, a verdict."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from benchharness.cli.options import json_option, print_json, results_option


@click.command(
    "compare",
    epilog="Example: benchharness compare latest:off latest:draft-4 --metric output_tok_s --metric cycle_ms",
)
@click.argument("baseline", metavar="RUN[:STACK]")
@click.argument("candidate", metavar="RUN[:STACK]")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    default=("output_tok_s",),
    show_default=True,
    help="What to judge by; see docs/glossary.md. May be repeated.",
)
@click.option("--margin", default="1%", show_default=True, help="Largest change that counts as none.")
@results_option
@json_option
def command(
    baseline: str, candidate: str, metrics: tuple[str, ...], margin: str, results: Path, as_json: bool
) -> None:
    """Compare a baseline with a candidate, at each context length.

    Ends 0 if no cell is worse (equivalent or improved), 1 if one regressed, 3 if one is undecided
    and none regressed, 4 if a cell can't be judged.
    """
    from benchharness import metrics as metric_table

    chosen = [metric_table.named(name) for name in dict.fromkeys(metrics)]
    allowed = parse_margin(margin)

    from benchharness.cli.stack_name import Side, both

    first, second = Side.of(results, baseline), Side.of(results, candidate)
    if first.stored.path == second.stored.path:  # what was read of it is read once
        second = Side(first.stored, second.stack)

    from benchharness.plan import refuse_other_work
    from benchharness.report import compare_view, console, figures_view, until_view, waterfall_view
    from benchharness.stack import attestation
    from benchharness.stats import compare, twolevel
    from benchharness.stats.client_error import ClientError

    refuse_other_work(first.stored.run.plan.workloads, second.stored.run.plan.workloads)
    *means, duet = both(first, second, chosen)
    same_run = first.stored.path == second.stored.path
    cells = compare.compare(
        means[0],
        means[1],
        chosen,
        stack=second.stack,
        same_run=same_run,
        margin=allowed,
        duet=duet,
        client=ClientError.of(
            [first.stored.run.client, second.stored.run.client],
            client_cycles=first.stored.client_cycles or second.stored.client_cycles,
        ),
    )
    rulers = first.other_ruler(second)
    if "cycles" in rulers:
        why = f"the ruler changed: cycles come from {rulers['cycles'][0]} there, {rulers['cycles'][1]} here"
        cells = compare.refused(cells, "cycles", why)
    apart = compare_view.Apart(
        first.differences(second),
        attestation.difference(first.attestation, second.attestation),
        first.conditions(second),
        rulers,
    )
    values = {m.name: (first.requests(m), second.requests(m)) for m in chosen if not m.fewest}
    spread = {
        (name, context): parts
        for name, sides in values.items()
        for context, parts in twolevel.of_cells(*sides, same_run=same_run).items()
    }
    figures = {
        (name, context): both_sides
        for name, sides in values.items()
        for context, both_sides in twolevel.intervals_of_cells(*sides).items()
    }
    steps = waterfall_view.waterfall(*means)
    people = console.people(as_json)
    compare_view.show(people, first.name, second.name, apart, cells)
    if same_run:
        until_view.note(people, first.stored)
    figures_view.show(people, figures)
    compare_view.show_spread(people, spread)
    waterfall_view.show_waterfall(people, steps)
    tables = first.stored.connect(first.stack), second.stored.connect(second.stack)
    parts = waterfall_view.by_position(*tables)
    waterfall_view.show_by_position(people, parts)
    falls = waterfall_view.acceptance_lost(*tables)
    waterfall_view.show_acceptance(people, falls)
    if as_json:
        document = compare_view.document(first.name, second.name, apart, cells)
        more = {
            "waterfall": waterfall_view.document(steps),
            "spread": compare_view.spread_document(spread),
            "figures": figures_view.document(figures),
            "waterfall_by_position": parts,
            "acceptance_falls_from": {str(context): position for context, position in falls.items()},
        }
        print_json(document | more)
    sys.exit(compare_view.exit_status(cells))


def parse_margin(text: str) -> float:
    """`1%` or `0.01` as a fraction; UsageError for anything that is no fraction from 0 to 1."""
    from benchharness.errors import UsageError

    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise UsageError(f"--margin {text!r} is no fraction", "write it as 1% or 0.01") from None
    if not 0 <= value < 1:
        raise UsageError(f"--margin {text!r} is not between 0 and 100 %", "write it as 1% or 0.01")
    return value
