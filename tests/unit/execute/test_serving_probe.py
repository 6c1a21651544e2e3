"""A launch whose engine the probe does not reach: it is measured all the same, and the record says why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.execute.prepared import Prepared
from benchharness.execute.serving import Serving
from benchharness.records import (
    Command,
    Launch,
    LaunchStatus,
    Model,
    Plan,
    PlannedLaunch,
    Run,
    Stack,
    Workload,
)
from benchharness.report import run_view
from benchharness.stack.engines.standin import StandIn
from benchharness.store import create, open_run
from benchharness.timings.probe_cycles import REMAINING


class Probed(StandIn):
    """The stand-in, taken for an engine that the probe knows; its interpreter runs isolated by itself."""

    def probed(self, _stack: object) -> bool:
        return True

    isolated = True

    def command(self, *told: object) -> Command:
        command = super().command(*told)  # type: ignore[arg-type]
        options = command.argv[1:2] if self.isolated else ()
        return replace(command, argv=(command.argv[0], *options, *command.argv[2:]))


class Reached(Probed):
    """The same without isolation: the probe comes in, but nothing imports SGLang."""

    isolated = False


class Silent:
    """Hears everything and says nothing."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


STACK = Stack("s", "standin", args={"step_ms": 4, "prefill_ms": 1, "noise_seed": 1})
WORK = Workload(16, 8, 4, warmup_requests=1)


@pytest.fixture
def measured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Launch, Path]]:
    engine, probe = request.param
    planned = PlannedLaunch(0, 0, "s", (0,), 1)
    plan = Plan("e", (STACK,), (WORK,), (planned,), "none", 1, probe=probe)
    run = Run("r", "2026-01-01T00:00:00+00:00", "0", {}, plan, "salt")
    with create(tmp_path, run) as folder:
        place = folder.begin_launch(0)
        prepared = Prepared(engine(), STACK, None, Model())
        begun = Launch(0, 0, "s", 1, LaunchStatus.DONE, "2026-01-01T00:00:00+00:00")
        launch = Serving(plan, planned, prepared, folder, place, Silent()).measure(begun)  # type: ignore[arg-type]
        folder.end_launch(launch)
        folder.finish()
    yield launch, folder.path


@pytest.mark.parametrize("measured", [(Probed, True), (Probed, "alternate")], indirect=True)
def test_an_isolated_interpreter_is_said_in_the_record_and_the_run_goes_on(
    measured: tuple[Launch, Path],
) -> None:
    launch, path = measured
    assert launch.status == LaunchStatus.DONE, launch.reason
    (note,) = launch.attestation.notes
    assert note.startswith("the probe was wanted, but no process left a file: process ")
    assert "its interpreter runs isolated (-I), which ignores PYTHONPATH" in note
    stored = open_run(path)
    assert stored.valid
    ((_, trial),) = stored.trials
    sentences = [finding.sentence for finding in trial.findings if finding.check == "probe"]
    assert sentences == [f"{note}; {REMAINING}"]
    document = run_view.document(stored)
    assert document["attestations"][0]["notes"] == [note]
    assert document["probe_cost"] == []
    rows = stored.connect().execute("SELECT DISTINCT probed FROM requests").fetchall()
    assert rows == [(None,)]
    row = stored.connect().execute("SELECT count(*), min(source), max(source) FROM cycles").fetchone()
    assert row is not None and row[0] > 0
    assert "probe" not in row[1:]


@pytest.mark.parametrize("measured", [(Reached, True)], indirect=True)
def test_an_engine_that_imports_no_sglang_is_not_called_isolated(measured: tuple[Launch, Path]) -> None:
    launch, _ = measured
    assert launch.status == LaunchStatus.DONE, launch.reason
    (note,) = launch.attestation.notes
    assert "none of them imported the engine" in note
    assert "isolated" not in note
