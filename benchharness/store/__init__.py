"""Stored results: `results/<experiment>/<run>/`.

run.json                           the plan and everything declared; written first
launches/NNN/launch.json           how that launch ended; its presence means that the launch is over
launches/NNN/server.log            the engine's own output, raw
launches/NNN/trials/P-CELL/        trial.json and the tables; the folder appears whole, by rename
launches/NNN.interrupted-K/        what a killed run left of a launch that was begun again

`run_folder.py` writes, `reading.py` reads, `tables.py` holds the tables' columns, `documents.py`
turns records into JSON and old formats into the present one.
"""

from benchharness.store.reading import StoredRun, find, open_run, runs
from benchharness.store.run_folder import RunFolder, create, reopen

__all__ = ["RunFolder", "StoredRun", "create", "find", "open_run", "reopen", "runs"]
