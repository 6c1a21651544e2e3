"""`benchharness gate`: a run against bounds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchharness.cli.options import cache_folder, cache_option, json_option, print_json, results_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchharness.cli.stack_name import Side
    from benchharness.records.bound import Thresholds
    from benchharness.store import StoredRun

_EPILOG = """\b
Example: benchharness gate latest --thresholds gate.yaml --baseline main --relaunch --junit gate.xml

\b
undecided: fail                       # what too few launches mean: fail (ends 3), warn, pass
bounds:
  output_tok_s: ">= 80"               # absolute, in the metric's unit
  verify_ms: ["<= 21", "+3 %"]        # and against the baseline
  ttft_ms: {max: 200, context_tokens: 128, stack: eagle3, undecided: warn}
"""


@click.command("gate", epilog=_EPILOG)
@click.argument("run")
@click.option("--thresholds", required=True, type=click.Path(path_type=Path), help="The bounds, in YAML.")
@click.option("--baseline", metavar="RUN[:STACK]", help="What relative bounds are held against.")
@click.option("--relaunch", is_flag=True, help="Launch baseline and candidate anew, in interleaved blocks.")
@click.option("--allow", multiple=True, metavar="NAME", help="What may differ, as machine.kernel.")
@click.option("--junit", type=click.Path(path_type=Path), help="Write JUnit XML here.")
@click.option("--summary", type=click.Path(path_type=Path), help="Add a summary in Markdown to this file.")
@results_option
@cache_option
@json_option
def command(
    run: str,
    thresholds: Path,
    baseline: str | None,
    relaunch: bool,
    allow: tuple[str, ...],
    junit: Path | None,
    summary: Path | None,
    results: Path,
    cache: Path | None,
    as_json: bool,
) -> None:
    """Hold a stored RUN against bounds, and end with a status that CI understands.

    Relative bounds are held against the baseline. A stored run alone can't tell a change from the
    machine's drift since then: unless three runs of its stack are stored, the answer is undecided. With
    --relaunch both are launched side by side instead, and that run is judged.

    Ends 0 if all bounds are kept, 1 if one is broken, 3 if one is undecided, 4 if the run is invalid.
    """
    from benchharness.spec import thresholds as thresholds_file

    demanded = thresholds_file.load(thresholds)

    from benchharness.cli import gate_run
    from benchharness.store import find, open_run

    stored = open_run(find(results, run))
    pairs = gate_run.pairs(stored, demanded, results, baseline, allow=allow, relaunch=relaunch)
    gate_run.refuse_unknown_cells(stored, demanded)
    if relaunch:
        stored, pairs = gate_run.relaunched(stored, pairs, results, cache_folder(cache))
    sys.exit(_judge(stored, demanded, pairs, results, junit, summary, as_json))


def _judge(
    stored: StoredRun,
    demanded: Thresholds,
    pairs: Mapping[str, Side],
    results: Path,
    junit: Path | None,
    summary: Path | None,
    as_json: bool,
) -> int:
    """Judge, tell everybody, and give the exit status."""
    from benchharness import gate
    from benchharness.cli import gate_figures, gate_run
    from benchharness.report import console, gate_view

    cells = gate_run.cells(stored, pairs)
    count = sum(bound.covers(*cell) for bound in demanded.bounds for cell in cells)
    each = 1 - (1 - demanded.confidence) / max(1, count)  # all decisions share the doubt
    absolute = gate_figures.metrics_of(demanded.bounds, relative=False)
    findings = gate.judge(
        demanded,
        cells,
        gate_figures.values(stored, absolute, each),
        gate_figures.changes(stored, pairs, demanded.bounds, each, results),
    )
    reasons = gate_run.invalid(stored)
    verdict = gate.verdict(findings, demanded, valid=not reasons)
    name = f"{stored.run.plan.experiment}/{stored.run.id}"
    shown: Sequence[str] = reasons if demanded.require_valid else ()
    gate_view.show(console.people(as_json), findings, verdict, shown)
    if junit is not None:
        gate_run.write(junit, gate_view.junit(name, findings, verdict, shown))
    if summary is not None:
        gate_run.write(summary, gate_view.summary(name, findings, verdict, shown), append=True)
    gate_run.annotate(gate_view.workflow_commands(findings, verdict, shown))
    if as_json:
        print_json(gate_view.document(name, findings, verdict, shown))
    return gate.EXIT_STATUS[verdict]
