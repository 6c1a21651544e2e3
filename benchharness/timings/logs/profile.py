"""Hand-made profiles: a line a phase, in ms a cycle, as people patch them into a worker.

    Draft generate:     0.45 ms/cyc  (  1.5%)
    Target verify:     28.96 ms/cyc  ( 97.0%)
    TOTAL:             29.86 ms/cyc  (100.0%)

No two are alike; what they share is a label, a duration with a unit of ms a cycle, and mostly a share.
"""

from __future__ import annotations

import re

from benchharness.records.logline import Value
from benchharness.timings.logs import prefixes
from benchharness.timings.logs.fields import DamagedError

ENGINE = "profile"
MARKS = ("ms/cyc", "ms/iter", "ms/step", "ms per cycle", "ms / cycle")

TOTAL, VERIFY, DRAFT, DRAFT_EXTEND, OTHER = "total", "verify", "draft", "draft_extend", "other"

_UNIT = r"ms ?(?:/|per) ?(?:cyc(?:les?)?|iter(?:ation)?|step)"
_PHASE = re.compile(
    rf"([A-Za-z][\w /()+.-]*?)\s*[:=]\s*([\d.]+)\s*{_UNIT}\b"
    r"(?:\s*\(\s*([\d.]+)\s*%\s*\))?(.*)"
)
_PHASE_WORDS = re.compile(r"^\W*(?:target|draft|verify|total)", re.IGNORECASE)


def parse(text: str) -> tuple[str, dict[str, Value]] | None:
    """(kind, fields) of a line: `phase`, `label`, `ms` and `percent` (null where no share is printed).

    Raises:
        DamagedError: the unit is there but not the figure.
    """
    text, wrapped = prefixes.unwrap(text)
    match = _PHASE.search(text)
    if match is None:
        if _PHASE_WORDS.search(text):
            raise DamagedError("ms a cycle, but no label with a figure")
        return None
    label, ms, percent, rest = match.groups()
    found: dict[str, Value] = {
        "timestamp": prefixes.timestamp(text[: match.start()]) or wrapped,
        "phase": phase(label),
        "label": label.strip(),
        "ms": ms,
        "percent": percent,
    }
    if rest.strip():
        found["rest"] = rest.strip()
    return "phase", found


def phase(label: str) -> str:
    """Which phase of the decode cycle a label means: verify, draft_extend, draft, total or other."""
    words = label.lower()
    if "total" in words or "cycle" in words:
        return TOTAL
    if "verif" in words or words.startswith("target"):
        return VERIFY
    if "extend" in words:
        return DRAFT_EXTEND
    return DRAFT if "draft" in words else OTHER
