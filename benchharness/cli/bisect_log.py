"""`benchharness bisect log`: what a campaign measured."""

from __future__ import annotations

from pathlib import Path

import click

from benchharness.cli.options import json_option, print_json, results_option


@click.command("log", epilog="Example: benchharness bisect log latest > hunt.log; git bisect replay hunt.log")
@click.argument("campaign")
@results_option
@json_option
def command(campaign: str, results: Path, as_json: bool) -> None:
    """Print every step of CAMPAIGN with what came of it.

    Of commits it is a log as `git bisect log` writes it, for `git bisect replay`: the ends, what can't be
    measured, and on which side of the change each measured commit lies, as far as that is sure.
    """
    from benchharness.cli.bisect_open import looked_at
    from benchharness.report import bisect_log

    standing = looked_at(results, campaign)
    if as_json:
        print_json({"campaign": standing.state.id, "steps": bisect_log.documents(standing)})
        return
    click.echo("\n".join(bisect_log.lines(standing)))
