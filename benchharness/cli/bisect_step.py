"""`benchharness bisect step`: one block of a campaign, or an answer for `git bisect run`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from benchharness.cli.options import cache_folder, cache_option, json_option, results_option, set_option

GOOD, BAD, SKIP, ABORT = 0, 1, 125, 255
"""What `git bisect run` takes an exit status for."""


@click.command(
    "step",
    epilog="""\b
Examples:
  benchharness bisect step latest
  benchharness bisect step latest --at 0.3.17 --value 21.4
  git bisect run benchharness bisect step hunt.yaml --good v0.5.9 --bad main --metric verify_ms
""",
)
@click.argument("target", metavar="CAMPAIGN|EXPERIMENT")
@click.option("--at", "place", help="Enter a value by hand for this point, measured elsewhere.")
@click.option("--value", type=float, help="The value, in the metric's unit.")
@click.option("--commit", default="HEAD", show_default=True, help="With an experiment: the commit to judge.")
@click.option("--good", help="With an experiment: the good end.")
@click.option("--bad", help="With an experiment: the bad end.")
@click.option("--stack", help="With an experiment: its stack.")
@click.option("--metric", default="cycle_ms", show_default=True, help="With an experiment: what is judged.")
@click.option("--confidence", type=click.FloatRange(0.5, 0.9999), default=0.95, show_default=True)
@set_option
@results_option
@cache_option
@json_option
def command(
    target: str,
    place: str | None,
    value: float | None,
    commit: str,
    good: str | None,
    bad: str | None,
    stack: str | None,
    metric: str,
    confidence: float,
    sets: tuple[str, ...],
    results: Path,
    cache: Path | None,
    as_json: bool,
) -> None:
    """Carry out one block of CAMPAIGN and show where it stands.

    With an EXPERIMENT file it judges one commit of source.repo, as the script of `git bisect run`: it ends 0
    if the commit is as the good end, 1 if as the bad one, 125 if it can't be measured, 255 if that can't be
    told. All its calls with the same question share one campaign, so that the ends are measured once.
    """
    from benchharness.errors import UsageError

    if (place is None) != (value is None):
        raise UsageError("--at and --value go together", "give both, or neither")
    if not Path(target).is_file():
        _one_block(target, place, value, results, cache_folder(cache), as_json=as_json)
        return
    if good is None or bad is None:
        raise UsageError(f"{target} is an experiment, so its ends are needed", "add --good and --bad")

    from benchharness.cli import bisect_judge

    asked = bisect_judge.Asked(
        Path(target), sets, commit, good, bad, stack, metric, confidence, results, cache_folder(cache)
    )
    sys.exit(bisect_judge.judged(asked))


def _one_block(
    target: str, place: str | None, value: float | None, results: Path, cache: Path, *, as_json: bool
) -> None:
    from benchharness.bisect.session.deciding import Ended
    from benchharness.cli import bisect_carry
    from benchharness.cli.bisect_open import opened
    from benchharness.cli.options import print_json
    from benchharness.report import bisect_view, console

    campaign = opened(results, target, cache)
    with campaign.folder:
        if place is not None and value is not None:
            campaign.enter(place, value)
        else:
            done = bisect_carry.one_block(campaign)
            if isinstance(done, Ended):
                campaign.end()
                sys.exit(bisect_carry.tell(campaign.standing(), done, None, as_json=as_json))
        coming = campaign.next()
        bisect_view.show_status(console.people(as_json), campaign.standing(), coming)
        if as_json:
            print_json(bisect_view.status_document(campaign.standing(), coming))
