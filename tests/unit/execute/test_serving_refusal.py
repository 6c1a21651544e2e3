"""What NCCL refuses is a point of the matrix that can't be; any other death of an engine is a failure."""

from __future__ import annotations

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
from benchharness.stack.engines.standin import StandIn
from benchharness.store import create

REFUSED = (
    "host:901:939 [0] NCCL WARN Error : no algorithm/protocol available for function AllGather with datatype "
    "ncclBfloat16. NCCL_ALGO was set to Tree."
)
STACK = Stack("tree", "standin")
WORK = Workload(16, 8, 1)


class Dying(StandIn):
    """Says one line as it starts, and ends."""

    def __init__(self, line: str) -> None:
        self.line = line

    def command(self, *told: object) -> Command:
        command = super().command(*told)  # type: ignore[arg-type]
        return replace(command, argv=(command.argv[0], "-c", f"print({self.line!r}); raise SystemExit(1)"))


class Silent:
    """Hears everything and says nothing."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


@pytest.mark.parametrize(
    ("line", "status"), [(REFUSED, LaunchStatus.UNBUILDABLE), ("NCCL WARN something", LaunchStatus.FAILED)]
)
def test_what_nccl_refuses_is_told_in_its_words_and_is_no_failure(
    tmp_path: Path, line: str, status: LaunchStatus
) -> None:
    planned = PlannedLaunch(0, 0, "tree", (0,), 1)
    plan = Plan("e", (STACK,), (WORK,), (planned,), "none", 1, probe=False)
    with create(tmp_path, Run("r", "2026-01-01T00:00:00+00:00", "0", {}, plan, "salt")) as folder:
        place = folder.begin_launch(0)
        prepared = Prepared(Dying(line), STACK, None, Model())
        begun = Launch(0, 0, "tree", 1, LaunchStatus.DONE, "2026-01-01T00:00:00+00:00")
        launch = Serving(plan, planned, prepared, folder, place, Silent()).measure(begun)  # type: ignore[arg-type]
    assert launch.status == status
    if status == LaunchStatus.UNBUILDABLE:
        assert launch.reason.startswith(
            "NCCL refuses: no algorithm/protocol available for function AllGather"
        )
        assert launch.reason.endswith("NCCL_ALGO was set to Tree.")
        assert line in launch.last_lines
    else:
        assert "exited with code 1" in launch.reason
