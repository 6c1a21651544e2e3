"""Carrying out a plan. `loop.py` is the loop, `serving.py` one launch, `prepared.py` what comes before it."""

from benchharness.execute.loop import check, environments_of, guessed_costs, run
from benchharness.execute.observer import Observer

__all__ = ["Observer", "check", "environments_of", "guessed_costs", "run"]
