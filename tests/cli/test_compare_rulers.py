"""T26: did what measures change between the two sides?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commandline import bench

FILE = """\
name: ruled
engine: standin
base: {args: {step_ms: 4, prefill_ms: 1, prefill_ms_per_1k: 0}}
workload: {context_tokens: 16, output_tokens: 24, requests: 3}
measure: {launches: 2, warmup: 1}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A folder with a run, and a copy of it that only another ruler tells from it."""
    folder = tmp_path_factory.mktemp("ruled")
    (folder / "e.yaml").write_text(FILE)
    done = bench("run", "e.yaml", "--json", cwd=folder)
    assert done.status == 0, done.err
    first = folder / done.document["path"]
    second = first.with_name(first.name + "x")
    shutil.copytree(first, second)
    return folder, first, second


def changed(run: Path, **values: object) -> None:
    document = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(document | values))


def test_equal_rulers_are_not_mentioned(runs: tuple[Path, Path, Path]) -> None:
    folder, first, second = runs
    same = bench("compare", first, second, "--metric", "cycle_ms", "--json", cwd=folder)
    assert same.document["ruler"] == {}
    assert "ruler" not in same.err
    assert {cell["verdict"] for cell in same.document["cells"]} <= {"equivalent", "undecided"}


def test_another_harness_is_flagged_by_name(runs: tuple[Path, Path, Path]) -> None:
    folder, first, second = runs
    changed(second, harness_version="0.0.1")
    other = bench("compare", first, second, "--metric", "cycle_ms", "--json", cwd=folder)
    assert list(other.document["ruler"]) == ["harness"]
    assert "the ruler changed: harness" in other.err


def test_cycles_of_another_clock_are_not_judged(runs: tuple[Path, Path, Path]) -> None:
    folder, first, second = runs
    for path in second.glob("launches/*/trials/*/cycles.parquet"):
        table = pq.read_table(path)
        clock = pa.array(["cuda-event"] * len(table))
        pq.write_table(table.set_column(table.schema.get_field_index("clock"), "clock", clock), path)
    other = bench(
        *("compare", first, second, "--metric", "cycle_ms", "--metric", "output_tok_s", "--json"), cwd=folder
    )
    assert other.status == 4
    verdicts = {cell["metric"]: cell for cell in other.document["cells"]}
    assert verdicts["cycle_ms"]["verdict"] == "invalid"
    assert "the ruler changed: cycles come from" in verdicts["cycle_ms"]["reason"]
    assert verdicts["output_tok_s"]["verdict"] != "invalid"
