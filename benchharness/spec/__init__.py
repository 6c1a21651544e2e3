"""Experiment files: from YAML text to frozen records. Unknown keys are refused by name.

`load()` is the way in. `document.py` reads the text and remembers line numbers, `models.py` says
what a file may hold, `matrix.py` multiplies it out.
"""

from benchharness.spec.experiment import Experiment, json_schema, load, parse

__all__ = ["Experiment", "json_schema", "load", "parse"]
