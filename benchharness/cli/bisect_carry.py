"""Carrying a campaign on, and telling what it found."""

from __future__ import annotations

from pathlib import Path

from benchharness.bisect.session.answer import verdict
from benchharness.bisect.session.campaign import Campaign
from benchharness.bisect.session.deciding import Ended, Wanted
from benchharness.bisect.session.outlook import Outlook
from benchharness.bisect.session.standing import Standing
from benchharness.cli.gate_run import write
from benchharness.cli.options import print_json
from benchharness.report import bisect_page, bisect_view, campaign_progress, console

PAGE = "verdict.md"


def to_the_end(campaign: Campaign) -> Ended:
    """Block after block, until the campaign ends."""
    lines = console.progress()
    lines.print(f"storing in {campaign.folder.path}", markup=False, soft_wrap=True)
    with campaign_progress.watching() as progress:
        campaign.finish_begun(progress)
        forecasts = Outlook()
        while True:
            coming = campaign.next()
            if isinstance(coming, Ended):
                return coming
            standing = campaign.standing()
            progress.expects(standing, forecasts.renewed(standing, coming))
            progress.block_begins(coming, standing.launches)
            campaign.measure(coming, progress)


def one_block(campaign: Campaign) -> Wanted | Ended:
    """What is next, carried out; or how it ended."""
    with campaign_progress.watching() as progress:
        campaign.finish_begun(progress)
        coming = campaign.next()
        if isinstance(coming, Wanted):
            progress.block_begins(coming, campaign.standing().launches)
            campaign.measure(coming, progress)
    return coming


def tell(standing: Standing, ended: Ended, output: Path | None, *, as_json: bool) -> int:
    """Print and write the answer; the exit status."""
    found = verdict(standing, ended)
    people = console.people(as_json)
    bisect_view.show_status(people, standing, ended)
    bisect_view.show_verdict(people, found)
    text = bisect_page.page(standing, found, bisect_page.commands(standing, found))
    for path in (standing.path / PAGE, *([output] if output else [])):
        write(path, text)
    people.print(f"a page for an issue: {output or standing.path / PAGE}", markup=False, soft_wrap=True)
    if as_json:
        print_json(bisect_view.document(standing, found))
    return bisect_view.exit_status(found)
