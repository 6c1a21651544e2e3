"""Runs promoted to baselines, by name. The run's own data is what counts; only its place is noted here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchharness.errors import UsageError
from benchharness.store import documents

FOLDER = "baselines"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Baseline:
    """A named run.

    Attributes:
        name: of the baseline.
        run: `experiment/run`.
        set_at: ISO 8601 with offset.
    """

    name: str
    run: str
    set_at: str


def promote(results: Path, name: str, run: str) -> Baseline:
    """Give a stored run a name; UsageError where there is no such run or the name can't be one."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a baseline", "use letters, digits, dots and hyphens")
    from benchharness.store.reading import find, open_run

    stored = open_run(find(results, run))
    path = stored.path.resolve()
    if path.parent.parent != results.resolve():
        raise UsageError(f"{path} is not in {results}", "baselines are kept beside the runs that they name")
    if not stored.run.finished:
        raise UsageError(f"{run} is not finished", "go on with it by `benchharness run --resume`")
    made = Baseline(
        name,
        f"{path.parent.name}/{path.name}",
        datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
    )
    folder = results / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise documents.disk_error(folder, error) from None
    documents.write(folder / f"{name}.json", Baseline, made)
    return made


def listed(results: Path) -> tuple[Baseline, ...]:
    """All baselines, by name."""
    return tuple(documents.read(path, Baseline) for path in sorted((results / FOLDER).glob("*.json")))


def place(results: Path, name: str) -> str | None:
    """`experiment/run` of the baseline of that name; None if there is none."""
    path = results / FOLDER / f"{name}.json"
    if not _NAME.fullmatch(name) or not path.is_file():
        return None
    run = str(json.loads(path.read_text(encoding="utf-8")).get("run"))
    if not (results / run / "run.json").is_file():
        raise UsageError(
            f"the baseline {name} names {run}, which is not in {results} any more",
            "set it again: `benchharness baseline set`",
        )
    return run
