"""`benchharness bisect status`: where a campaign stands."""

from __future__ import annotations

from pathlib import Path

import click

from benchharness.cli.options import json_option, print_json, results_option


@click.command("status", epilog="Example: benchharness bisect status latest")
@click.argument("campaign")
@results_option
@json_option
def command(campaign: str, results: Path, as_json: bool) -> None:
    """Show what CAMPAIGN believes, what it tried, what that cost, what is next and why, and what is to go.

    CAMPAIGN is a run's id, its path, or `latest`. One that is going on can be looked at, too.
    """
    from benchharness.bisect.session import outlook
    from benchharness.bisect.session.answer import verdict
    from benchharness.bisect.session.deciding import Ended
    from benchharness.cli.bisect_open import looked_at
    from benchharness.report import bisect_view, console, forecast_view

    standing = looked_at(results, campaign)
    coming = standing.next()
    expected = outlook.ahead(standing, coming)
    people = console.people(as_json)
    bisect_view.show_status(people, standing, coming)
    if expected is not None:
        people.print(f"to go: {forecast_view.words(expected)}", markup=False, soft_wrap=True)
    if isinstance(coming, Ended):
        bisect_view.show_verdict(people, verdict(standing, coming))
    if as_json:
        document = bisect_view.status_document(standing, coming)
        print_json({**document, "to_go": forecast_view.document(expected)})
