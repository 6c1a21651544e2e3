"""Folders of stored runs that never ran, written straight away: for the speed of listing them."""

from __future__ import annotations

import json
from pathlib import Path

from benchharness.records import Launch, LaunchStatus, Plan, PlannedLaunch, Run, Source, Stack, Workload
from benchharness.store import create

EXPERIMENTS = 20
STACKS = ("off", "draft-2", "draft-4")
LAUNCHES = 6


def _manifest(number: int) -> Run:
    stacks = tuple(
        Stack(name, "llamacpp", Source(release=f"2026.{number // 500}"), args={"n_max": 2 * index})
        for index, name in enumerate(STACKS)
    )
    works = tuple(Workload(context, 64, 4) for context in (128, 512, 2048))
    planned = tuple(PlannedLaunch(i, i // 3, STACKS[i % 3], (0, 1, 2), 1) for i in range(LAUNCHES))
    plan = Plan(f"experiment-{number % EXPERIMENTS}", stacks, works, planned, "interleaved", 1)
    day, second = divmod(number, 1000)
    text = "name: experiment\n" + "# as long as the quickstart's file\n" * 25
    machine = {"cpu": "a processor", "usable_cpus": 2, "memory_bytes": 2**34, "gpus": []}
    return Run(
        f"202601{day + 1:02d}-{second:06d}-{number:04x}",
        f"2026-01-{day + 1:02d}T00:00:00+00:00",
        "0.1.0",
        {"file": "experiment.yaml", "text": text, "sets": []},
        plan,
        "salt",
        machine,
        finished=True,
    )


def make_listable(results: Path, runs: int) -> None:
    """So many finished runs of six launches, without trials; 20 experiments."""
    with create(results, _manifest(0)) as folder:
        launch = Launch(0, 0, STACKS[0], 1, LaunchStatus.DONE, "2026-01-01T00:00:00+00:00")
        folder.begin_launch(0)
        folder.end_launch(launch)
        folder.finish()
        over = json.loads((folder.path / "launches/000/launch.json").read_text())
    pattern = (folder.path / "run.json").read_text()
    for number in range(runs):
        run = _manifest(number)
        path = results / run.plan.experiment / run.id
        document = json.loads(pattern)
        document |= {"id": run.id, "created_at": run.created_at}
        document["plan"]["experiment"] = run.plan.experiment
        for index in range(LAUNCHES):
            place = path / "launches" / f"{index:03d}"
            (place / "trials").mkdir(parents=True, exist_ok=True)
            text = json.dumps(over | {"index": index, "stack": STACKS[index % 3]})
            (place / "launch.json").write_text(text)
        (path / "run.json").write_text(json.dumps(document, indent=1))
