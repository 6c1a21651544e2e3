"""Where on one axis the change lies, and what to measure next (pure).

A campaign is a loop: `believe` turns what was measured into a posterior, `next_move` says what to measure
next or why to stop. Nothing is remembered between the two: a campaign can be told again from what is stored.
"""

from benchharness.bisect.search.belief import Belief, believe
from benchharness.bisect.search.choice import Move, Reason, Stop, first_repeats, next_move
from benchharness.bisect.search.problem import Axis, Limits, Observation, Prices, Prior

__all__ = [
    "Axis",
    "Belief",
    "Limits",
    "Move",
    "Observation",
    "Prices",
    "Prior",
    "Reason",
    "Stop",
    "believe",
    "first_repeats",
    "next_move",
]
