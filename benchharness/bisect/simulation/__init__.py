"""Campaigns on a simulated machine: what a search would cost, and whether it would find the change (pure).

Values are in deviations of one measurement, and stand for logs of a metric. The machine can be nasty in the
ways that real ones are: heavy tails, a mode drawn at start, repeats that resemble their neighbours, drift of
the host, and versions that can't be built.
"""

from benchharness.bisect.simulation.campaign import Campaign, campaign, plain
from benchharness.bisect.simulation.machine import Machine
from benchharness.bisect.simulation.outcome import Outcome, Summary, summary
from benchharness.bisect.simulation.scene import EQUAL, PRICED, Scene, Tails

__all__ = [
    "EQUAL",
    "PRICED",
    "Campaign",
    "Machine",
    "Outcome",
    "Scene",
    "Summary",
    "Tails",
    "campaign",
    "plain",
    "summary",
]
