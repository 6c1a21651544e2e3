"""The store: what is written comes back, whole or not at all, whatever kills the writer."""

from __future__ import annotations

import errno
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.errors import InfrastructureError, UsageError
from benchharness.metrics import METRICS
from benchharness.records import (
    Attestation,
    Cycle,
    Failure,
    Finding,
    Launch,
    LaunchStatus,
    Plan,
    PlannedLaunch,
    RequestTrace,
    Run,
    Stack,
    Trial,
    Workload,
)
from benchharness.stats.launch_means import all_metrics, launch_means
from benchharness.store import create, documents, find, open_run, reopen, runs, tables

WORKLOAD = Workload(context_tokens=128, output_tokens=4, requests=2, warmup_requests=1)
STACKS = (Stack("a", "standin", args={"x": 1, "list": [0.5, 0.25]}), Stack("b", "standin"))
PLAN = Plan(
    "exp",
    STACKS,
    (WORKLOAD,),
    tuple(PlannedLaunch(i, i // 2, "ab"[i % 2], (0,), 5) for i in range(4)),
    "interleaved",
    1,
)


def run(name: str = "20260101-000000-aaaa", **changes: object) -> Run:
    made = Run(name, "2026-01-01T00:00:00+00:00", "0.1.0", {"text": "name: exp"}, PLAN, "salt")
    return replace(made, **changes)  # type: ignore[arg-type]


def trace(index: int, scale: float = 1.0, **changes: object) -> RequestTrace:
    ms = 1_000_000
    whole = RequestTrace(
        index=index,
        warmup=index == 0,
        prompt_tokens=128,
        due_ns=0,
        sent_ns=index * 1000 * ms,
        finished_ns=index * 1000 * ms + int(60 * scale * ms),
        chunk_ns=tuple(index * 1000 * ms + int(t * scale * ms) for t in (20, 30, 50)),
        chunk_tokens=(1, 1, 2),
        chunk_server_ms=(0.0, 10.0 * scale, math.nan),
        output_tokens=4,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def trial(launch: int, scale: float = 1.0, **changes: object) -> Trial:
    cycles = tuple(
        Cycle(request, index, tokens, total * scale, None, None, None, "server-timing", "host")
        for request in (0, 1, 2)
        for index, (tokens, total) in enumerate([(1, 10.0), (2, 20.0)])
    )
    made = Trial(launch, 0, WORKLOAD, tuple(trace(i, scale) for i in range(3)), cycles)
    return replace(made, **changes)  # type: ignore[arg-type]


def launch(index: int, **changes: object) -> Launch:
    made = Launch(index, index // 2, "ab"[index % 2], 5, LaunchStatus.DONE, "2026-01-01T00:00:00+00:00")
    return replace(made, **changes)  # type: ignore[arg-type]


def filled(results: Path) -> Path:
    with create(results, run()) as folder:
        for index in range(4):
            folder.begin_launch(index)
            folder.append_trial(trial(index, 1.0 + index % 2))
            folder.end_launch(launch(index, attestation=Attestation("1.2", {"n": [1]})))
        folder.finish()
    return folder.path


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    stored = open_run(filled(tmp_path))
    assert stored.run == run(finished=True)
    assert [one.index for one in stored.launches] == [0, 1, 2, 3]
    assert stored.launches[0].attestation == Attestation("1.2", {"n": [1]})
    assert [document.workload for _, document in stored.trials] == [WORKLOAD] * 4
    assert stored.valid


def test_metrics_follow_their_formulas(tmp_path: Path) -> None:
    means = launch_means(open_run(filled(tmp_path)).connect(), all_metrics())
    assert means[["launch", "stack"]].values.tolist() == [[0, "a"], [1, "b"], [2, "a"], [3, "b"]]
    first = means.iloc[0]
    assert first["ttft_ms"] == 20
    assert first["e2e_ms"] == 60
    assert first["tpot_ms"] == pytest.approx(30 / 3)
    assert first["itl_ms"] == pytest.approx(30 / 3)
    assert first["chunk_gap_ms"] == 15
    assert first["decode_tok_s"] == pytest.approx(3 / 0.030)
    # Two requests, from the first's send at 1000 ms to the second's last byte at 2060 ms.
    assert first["output_tok_s"] == pytest.approx(8 / 1.060)
    assert first["accept_length"] == 1.5
    assert first["cycle_ms"] == 15
    assert math.isnan(first["verify_ms"])
    assert means.iloc[1]["cycle_ms"] == 30


def test_cpu_time_a_token_counts_the_tokens_of_all_requests(tmp_path: Path) -> None:
    with create(tmp_path, run()) as folder:
        for index, spent_s in enumerate((0.6, None)):
            folder.begin_launch(index)
            folder.append_trial(trial(index, engine_cpu_s=spent_s))
            folder.end_launch(launch(index))
    values = launch_means(open_run(folder.path).connect(), [METRICS["cpu_ms_per_token"]])["cpu_ms_per_token"]
    assert values[0] == pytest.approx(600 / 12)  # three requests of four tokens, one of them warm-up
    assert math.isnan(values[1])


def test_warm_up_and_failed_requests_enter_no_mean(tmp_path: Path) -> None:
    with create(tmp_path, run()) as folder:
        folder.begin_launch(0)
        slow = trace(0, 50.0)
        failed = trace(3, 50.0, failure=Failure.RESET)
        folder.append_trial(trial(0, requests=(slow, trace(1), trace(2), failed)))
        folder.end_launch(launch(0))
    means = launch_means(open_run(folder.path).connect(), all_metrics())
    assert means["ttft_ms"].tolist() == [20]
    assert means["itl_ms"].tolist() == [10]


def test_an_invalid_trial_and_a_failed_launch_enter_no_mean(tmp_path: Path) -> None:
    with create(tmp_path, run()) as folder:
        for index in range(3):
            folder.begin_launch(index)
            bad = Finding("x", True, "bad")
            folder.append_trial(trial(index, findings=(bad,) if index == 1 else ()))
            status = LaunchStatus.FAILED if index == 2 else LaunchStatus.DONE
            folder.end_launch(launch(index, status=status))
    stored = open_run(folder.path)
    assert launch_means(stored.connect(), all_metrics())["launch"].tolist() == [0]
    assert not stored.valid


def test_an_interrupted_launch_is_kept_aside_and_done_again(tmp_path: Path) -> None:
    with create(tmp_path, run()) as folder:
        folder.begin_launch(0)
        folder.append_trial(trial(0))
        folder.end_launch(launch(0))
        folder.begin_launch(1)
        folder.append_trial(trial(1))
    with reopen(folder.path) as again:
        assert again.done() == {0}
        again.begin_launch(1)
        assert (again.path / "launches" / "001.interrupted-1" / "trials" / "0-ctx128").is_dir()
        again.append_trial(trial(1))
        again.end_launch(launch(1))
        assert again.done() == {0, 1}
    assert len(launch_means(open_run(folder.path).connect(), all_metrics())) == 2


def test_a_failed_launch_is_tried_again_an_unbuildable_one_is_a_result(tmp_path: Path) -> None:
    with create(tmp_path, run()) as folder:
        for index, status in enumerate([LaunchStatus.FAILED, LaunchStatus.UNBUILDABLE]):
            folder.begin_launch(index)
            folder.end_launch(launch(index, status=status))
        assert folder.done() == {1}
        folder.begin_launch(0)
        folder.end_launch(launch(0))
    stored = open_run(folder.path)
    assert [(one.index, one.status) for one in stored.launches] == [
        (0, LaunchStatus.DONE),
        (1, LaunchStatus.UNBUILDABLE),
    ]
    assert next(iter(runs(tmp_path))).launches == 2


def test_a_full_disk_leaves_no_half_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with create(tmp_path, run()) as folder:
        folder.begin_launch(0)
        folder.append_trial(trial(0))
        folder.begin_launch(1)
        monkeypatch.setattr(tables.pq, "write_table", full)
        with pytest.raises(InfrastructureError, match=r"No space left.*--resume"):
            folder.append_trial(trial(1))
    assert list((folder.path / "launches" / "001" / "trials").iterdir()) == []
    assert len(list((folder.path / "launches" / "000" / "trials").iterdir())) == 1


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with (
        create(tmp_path, run()) as folder,
        pytest.raises(UsageError, match="another benchharness"),
        reopen(folder.path),
    ):
        pass
    with reopen(folder.path):
        pass


def test_runs_are_found_by_every_name(tmp_path: Path) -> None:
    path = filled(tmp_path)
    with create(tmp_path, run("20260202-000000-bbbb")) as other:
        pass
    assert [summary.run for summary in runs(tmp_path)] == [run().id, "20260202-000000-bbbb"]
    for name in (str(path), "exp/20260101-000000-aaaa", "20260101-000000-aaaa", "202601"):
        assert find(tmp_path, name) == path
    assert find(tmp_path, "latest") == find(tmp_path, "exp") == other.path
    for name, words in (("2026", "fits 2 runs"), ("20260101-000000-aaab", "did you mean")):
        with pytest.raises(UsageError, match=words):
            find(tmp_path, name)
    with pytest.raises(UsageError, match="holds no runs"):
        find(tmp_path / "empty", "latest")


def test_a_damaged_manifest_is_named_and_hides_no_other_run(tmp_path: Path) -> None:
    path = filled(tmp_path)
    with create(tmp_path, run("20260202-000000-bbbb")) as other:
        pass
    (other.path / "run.json").write_text("{")
    assert [summary.path for summary in runs(tmp_path)] == [path]
    with pytest.raises(UsageError, match=r"run\.json cannot be read"):
        open_run(other.path)
    (other.path / "run.json").write_text(json.dumps({"format_version": 1, "id": 3}))
    with pytest.raises(UsageError, match="is damaged"):
        open_run(other.path)


def test_a_newer_format_is_refused_and_an_older_one_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path) / "run.json"
    document = json.loads(path.read_text())
    document["format_version"] = 99
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="format version 99"):
        open_run(path.parent)

    def from_2(old: dict[str, object]) -> dict[str, object]:
        return {**{key: value for key, value in old.items() if key != "grain"}, "salt": old["grain"]}

    document["grain"] = document.pop("salt")
    document["format_version"] = 2
    path.write_text(json.dumps(document))
    monkeypatch.setattr(documents, "FORMAT_VERSION", 3)
    monkeypatch.setitem(documents.MIGRATIONS, 2, from_2)
    assert open_run(path.parent).run.salt == "salt"


def test_every_metric_names_a_known_table() -> None:
    assert {metric.table for metric in METRICS.values()} <= {*tables.SCHEMAS, "trials"}


def test_a_table_that_was_cut_off_is_named(tmp_path: Path) -> None:
    path = filled(tmp_path)
    table = path / "launches" / "000" / "trials" / "0-ctx128" / "cycles.parquet"
    table.write_bytes(table.read_bytes()[:100])
    with pytest.raises(UsageError, match=r"table cycles is damaged.*remove that launch"):
        open_run(path).connect()
