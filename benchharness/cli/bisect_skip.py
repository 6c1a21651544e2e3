"""`benchharness bisect skip`: take a point out of a campaign."""

from __future__ import annotations

from pathlib import Path

import click

from benchharness.cli.options import cache_folder, cache_option, results_option


@click.command("skip", epilog="Example: benchharness bisect skip latest 0.3.17 --reason 'known to hang'")
@click.argument("campaign")
@click.argument("point")
@click.option("--reason", default="skipped by hand", show_default=True, help="Kept with it, and told.")
@results_option
@cache_option
def command(campaign: str, point: str, reason: str, results: Path, cache: Path | None) -> None:
    """Leave POINT out of CAMPAIGN: it counts as unknown, neither good nor bad."""
    from benchharness.cli.bisect_open import opened
    from benchharness.report import console

    found = opened(results, campaign, cache_folder(cache))
    with found.folder:
        place = found.skip(point, reason)
    console.people(as_json=False).print(f"{place.label} is left out: {reason}", markup=False)
