"""The index of runs: as fast as it is, it never says what is not on disk."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from benchharness.records import Launch, LaunchStatus, Plan, PlannedLaunch, Run, Source, Stack, Workload
from benchharness.store import create, index, runs
from benchharness.store.listing import RunSummary

RUNS = index.FEWEST + 5


def make(results: Path, number: int, commit: str = "c0ffee", **machine: object) -> Path:
    stack = Stack("a", "standin", Source(repo="/r", commit=commit), packages={"torch": "2.1"})
    launches = tuple(PlannedLaunch(i, i, "a", (0,), 1) for i in range(2))
    plan = Plan("many", (stack,), (Workload(16, 4, 2),), launches, "none", 1)
    run = Run(
        f"20260101-{number:06d}-aaaa",
        "2026-01-01T00:00:00+00:00",
        "0",
        {},
        plan,
        "s",
        {"cpu": "x", **machine},
    )
    with create(results, run) as folder:
        for at in range(2):
            folder.begin_launch(at)
            folder.end_launch(Launch(at, at, "a", 1, LaunchStatus.DONE, "2026"))
        folder.finish()
    return folder.path


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some more runs than an index takes, listed once, with stamps believed at once."""
    monkeypatch.setattr(index, "RACY_NS", -1)
    place = tmp_path / "results"
    first = make(place, 0)
    for number in range(1, RUNS):
        copy = first.with_name(f"20260101-{number:06d}-aaaa")
        shutil.copytree(first, copy)
        document = json.loads((copy / "run.json").read_text())
        (copy / "run.json").write_text(json.dumps(document | {"id": copy.name}))
    assert len(listed(place)) == RUNS
    assert (place / index.NAME).is_file()
    return place


def listed(results: Path) -> dict[str, RunSummary]:
    found = {summary.run: summary for summary in runs(results)}
    assert list(found) == sorted(found)
    return found


def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The manifests that are read from now on."""
    seen: list[Path] = []
    plain = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.name == "run.json":
            seen.append(path)
        return plain(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    return seen


def test_what_is_known_is_not_read_again(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = listed(results)
    seen = reads(monkeypatch)
    assert listed(results) == before
    assert seen == []
    make(results, 999)
    assert len(listed(results)) == RUNS + 1
    assert [path.parent.name for path in seen] == ["20260101-000999-aaaa"]


def test_edited_and_deleted_runs_are_seen(results: Path) -> None:
    names = sorted(listed(results))
    folder = results / "many"
    shutil.rmtree(folder / names[0])
    path = folder / names[1] / "run.json"
    stamps = path.stat()
    path.write_text(path.read_text().replace("c0ffee", "0ff1ce"))  # as long as before, in place
    os.utime(path, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    (folder / names[2] / "run.json").write_text("{")
    (folder / names[3] / "launches/000/launch.json").unlink()
    shutil.rmtree(folder / names[4] / "launches")
    (folder / names[5] / "launches/001").rename(folder / names[5] / "launches/001.interrupted-1")
    after = listed(results)
    assert names[0] not in after and names[2] not in after
    assert after[names[1]].members[0].moving["source.commit"] == "0ff1ce"
    assert [after[name].launches for name in names[3:7]] == [1, 0, 1, 2]
    assert len(after) == RUNS - 2


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": 1}', '{"format": 0, "runs": {}}', '{"format": 1, "runs": {"a": [1]}}', None],
)
def test_a_damaged_or_missing_index_is_made_anew(results: Path, text: str | None) -> None:
    before = listed(results)
    if text is None:
        (results / index.NAME).unlink()
    else:
        (results / index.NAME).write_text(text)
    assert listed(results) == before
    assert len(json.loads((results / index.NAME).read_text())["runs"]) == RUNS


def test_what_changed_just_now_is_read_each_time(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (results / index.NAME).unlink()
    monkeypatch.setattr(index, "RACY_NS", 3_600_000_000_000)
    listed(results)
    assert not (results / index.NAME).exists()
    seen = reads(monkeypatch)
    listed(results)
    assert len(seen) == RUNS


def test_a_folder_that_cannot_be_written_has_no_index(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (results / index.NAME).unlink()

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert len(listed(results)) == RUNS
    assert [path.name for path in results.iterdir()] == ["many"]


def test_a_stack_is_the_same_over_time_while_its_settings_stay(tmp_path: Path) -> None:
    make(tmp_path, 0, "c0ffee", kernel="6.1", gpus=[{"name": "H200"}, {"name": "H200"}])
    make(tmp_path, 1, "0ff1ce", kernel="6.2", gpus=[{"name": "H200"}, {"name": "H200"}])
    make(tmp_path, 2, "0ff1ce", kernel="6.2", gpus=[])
    one, other, elsewhere = runs(tmp_path)
    assert one.members[0].lineage == other.members[0].lineage
    assert one.members[0].moving != other.members[0].moving
    assert one.hardware == other.hardware == "x, ? CPUs, 2 x H200"
    assert elsewhere.hardware == "x, ? CPUs, no GPU"
    assert one.works == other.works


def test_settings_and_work_make_another_stack() -> None:
    from benchharness.store import lineage

    stack = {"name": "a", "engine": "sglang", "args": {"x": 1}, "env": {}, "model": {"tp": 8}, "source": {}}
    told = lineage.member(stack)
    assert lineage.member({**stack, "packages": {"torch": "2"}}).lineage == told.lineage
    assert lineage.member({**stack, "args": {"x": 1}, "new": None}).lineage == told.lineage
    for change in ({"args": {"x": 0}}, {"args": {}}, {"env": {"A": "1"}}, {"model": {"tp": 4}}):
        assert lineage.member({**stack, **change}).lineage != told.lineage
    work = {"context_tokens": 16, "output_tokens": 4, "requests": 3}
    assert lineage.work(work) == lineage.work({**work, "requests": 5})
    assert lineage.work(work) != lineage.work({**work, "output_tokens": 5})
