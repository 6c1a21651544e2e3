"""`until.json` in a run's folder: what the run set out to decide, and how often its data were looked at."""

from __future__ import annotations

from pathlib import Path

from benchharness.records.goal import Looks
from benchharness.store import documents

_NAME = "until.json"


def kept(run: Path) -> Looks | None:
    """The looks at a run so far; None where it never set out to be decided. UsageError if damaged."""
    path = run / _NAME
    return documents.read(path, Looks) if path.exists() else None


def keep(run: Path, looks: Looks) -> None:
    """Store them; InfrastructureError where the disk does not take it."""
    documents.write(run / _NAME, Looks, looks)
