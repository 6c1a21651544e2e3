"""A run's folder while it is being filled. Whatever is in it is whole: all is renamed into place."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from benchharness.errors import InfrastructureError, UsageError
from benchharness.records import Launch, LaunchStatus, Plan, Run, Trial
from benchharness.store import documents, tables, unwritten
from benchharness.store.stored_trial import StoredTrial


class RunFolder:
    """Writes one run. Only one process can hold a run open for writing.

    Attributes:
        path: the run's folder.
        run: as last written.
    """

    def __init__(self, path: Path, run: Run) -> None:
        self.path = path
        self.run = run
        self._lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise UsageError(
                f"{path} is being written by another benchharness", "wait for it to end"
            ) from None

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._lock)

    def done(self) -> frozenset[int]:
        """Indices of the launches that need not be made: those that failed are tried again."""
        launches = (documents.read(path, Launch) for path in documents.over(self.path))
        return frozenset(launch.index for launch in launches if launch.status != LaunchStatus.FAILED)

    def keep_diffs(self, diffs: Mapping[str, str]) -> None:
        """Keep what stacks differ from their commits by, as `sources/DIGEST.diff`."""
        folder = self.path / "sources"
        try:
            for digest, text in diffs.items():
                folder.mkdir(exist_ok=True)
                (folder / f"{digest[:12]}.diff").write_text(text, encoding="utf-8")
        except OSError as error:
            raise documents.disk_error(folder, error) from None

    def begin_launch(self, index: int) -> Path:
        """A new folder for a launch; what an interrupted one left is kept beside it."""
        folder = self.path / "launches" / f"{index:03d}"
        try:
            if folder.exists():
                folder.rename(_free_name(folder))
            (folder / "trials").mkdir(parents=True)
        except OSError as error:
            raise documents.disk_error(folder, error) from None
        return folder

    def append_trial(self, trial: Trial) -> None:
        """Store a trial; it appears whole or not at all."""
        place = self.path / "launches" / f"{trial.launch:03d}" / "trials"
        partial = place / f".{trial.position}.partial"
        final = place / f"{trial.position}-{trial.workload.name}"
        try:
            partial.mkdir()
            tables.write(partial, trial)
            documents.write(partial / "trial.json", StoredTrial, StoredTrial.of(trial))
            partial.rename(final)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise documents.disk_error(final, error) from None

    def end_launch(self, launch: Launch) -> None:
        """Store how a launch ended; from now on it counts as over."""
        path = self.path / "launches" / f"{launch.index:03d}" / "launch.json"
        documents.write(path, Launch, unwritten.launch(launch))

    def extend(self, plan: Plan) -> None:
        """Let the run go on to a longer plan, whose beginning is the present one.

        Raises ValueError where a launch that was planned is changed or missing: what is measured stays.
        """
        known = self.run.plan
        if plan.launches[: len(known.launches)] != known.launches:
            raise ValueError("a run can only go on to a plan that begins with its own launches")
        self.run = replace(self.run, plan=plan, finished=False)
        documents.write(self.path / "run.json", Run, unwritten.run(self.run))

    def finish(self) -> None:
        """Mark the run as finished: every planned launch is over."""
        self.run = replace(self.run, finished=True)
        documents.write(self.path / "run.json", Run, unwritten.run(self.run))


def _free_name(folder: Path) -> Path:
    for number in range(1, 1000):
        path = folder.with_name(f"{folder.name}.interrupted-{number}")
        if not path.exists():
            return path
    raise InfrastructureError(f"{folder} was interrupted a thousand times", "remove the old ones")


def create(results: Path, run: Run) -> RunFolder:
    """Make a run's folder and store its manifest."""
    path = results / run.plan.experiment / run.id
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(f"{path} is there already") from None
    except OSError as error:
        raise documents.disk_error(path, error) from None
    folder = RunFolder(path, run)
    try:
        documents.write(path / "run.json", Run, unwritten.run(run))
    except BaseException:
        folder.__exit__(None, None, None)
        raise
    return folder


@contextmanager
def reopen(path: Path) -> Iterator[RunFolder]:
    """Open a run again, to go on with it."""
    with RunFolder(path, documents.read(path / "run.json", Run)) as folder:
        yield folder
