"""`benchharness bisect`: which point of an axis, or which difference of two stacks, made it slower."""

from __future__ import annotations

import click

from benchharness.cli.lazy_group import LazyGroup

COMMANDS = {
    "run": "Ask a question and have it answered: ends, search, confirmation, verdict.",
    "status": "Where a campaign stands: what is believed, what was tried, what is next and why.",
    "step": "Carry out one block of a campaign; or answer for one commit, as `git bisect run` asks.",
    "skip": "Take a point out of a campaign.",
    "log": "What a campaign measured; of commits as `git bisect log` writes it.",
}


@click.group("bisect", cls=LazyGroup, known=COMMANDS, module="benchharness.cli.bisect_{}")
def command() -> None:
    """Find which commit, release or difference changed a metric, and prove it.

    A campaign first measures the good end against itself, then whether the ends differ at all. It goes on
    where each launch tells most for its time, confirms parent against culprit on fresh launches, and ends
    with a page to paste into an issue. It can be killed at any time: `--resume` goes on.
    """
