"""Carrying out a plan. `loop.py` is the loop, `serving.py` one launch, `prepared.py` what comes before it."""

from benchharness.execute.building import build_environments, environments_of
from benchharness.execute.loop import check, guessed_costs, run
from benchharness.execute.observer import Observer
from benchharness.execute.packing import pack
from benchharness.execute.resolving import diffs, resolve
from benchharness.execute.room import of_plan as room_of
from benchharness.execute.room import refuse_crowded

__all__ = [
    "Observer",
    "build_environments",
    "check",
    "diffs",
    "environments_of",
    "guessed_costs",
    "pack",
    "refuse_crowded",
    "resolve",
    "room_of",
    "run",
]
